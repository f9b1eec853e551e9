"""What tests of the public surface share: a project in a folder, and the `headwater` command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headwater.cli.main import main

QUICK_START = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""Options of a JVM that begins cold: classes are loaded without a second look at their code."""
COLD = (
    f"{{spark.driver.extraJavaOptions: '{QUICK_START}', "
    "spark.sql.codegen.wholeStage: 'false', "
    "spark.sql.codegen.factoryMode: NO_CODEGEN, spark.sql.shuffle.partitions: '1', spark.sql.adaptive.enabled: 'false'}"
)
"""Settings of a Spark that begins cold and lives for seconds: compiling would take most of them."""


@dataclass(frozen=True)
class Answer:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def headwater(*arguments: str | Path) -> Answer:
    """The command, in this process: where a Spark runs already, it is used."""
    out, err = StringIO(), StringIO()
    code = 0
    with redirect_stdout(out), redirect_stderr(err), patch.object(sys, "argv", ["headwater", *map(str, arguments)]):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Shop:
    """A project with a folder that files land in."""

    root: Path

    @staticmethod
    def make(root: Path, format: str = "delta", topic: str = "", source: str = "") -> Shop:
        (root / "landing").mkdir(parents=True)
        lines = ["name: shop", f"format: {format}", "sources:", "  landing:", "    type: files", "    path: ./landing"]
        lines += [f"    {line}" for line in source.splitlines()]
        lines += ["topics:", "  orders:", "    from: landing", *(f"    {line}" for line in topic.splitlines())]
        (root / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return Shop(root)

    def land(self, name: str, records: Iterable[dict[str, Any] | str]) -> None:
        lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
        file = self.root / "landing" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        # Whole at once: a run that goes on may look at any moment.
        aside = self.root / f"{file.name}.part"
        aside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        aside.replace(file)

    def run(self, *arguments: str) -> Answer:
        return headwater("run", "--once", "--json", "--project", self.root, *arguments)

    def query(self, sql: str) -> list[dict[str, Any]]:
        answer = headwater("query", sql, "--output", "json", "--project", self.root)
        assert answer.code == 0, answer.err
        rows: list[dict[str, Any]] = answer.json
        return rows
