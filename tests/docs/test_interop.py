"""The example of docs/interop.md is run as it stands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support import headwater

PAGE = (Path(__file__).parents[2] / "docs" / "interop.md").read_text(encoding="utf-8")


def test_the_example(spark: SparkSession, tmp_path: Path) -> None:
    [project] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    lines = [json.dumps({"id": n, "region": [None, "EU"][n % 2], "amount": n / 2}) for n in range(4)]
    (tmp_path / "landing" / "a.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    [listed, *others] = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command in re.findall(r"^\$ headwater (.*)$", listed, re.MULTILINE):
        answer = headwater(*shlex.split(command), "--project", tmp_path)
        assert answer.code == 0, f"{command}: {answer.err}"
    [target] = headwater("interop", "list", "--json", "--project", tmp_path).json
    assert (target["relation"], target["location"]) == ("topics.orders", "lake.interop_topics.orders")
    assert (target["current"], target["rows"]) == (True, 4)
    for command in re.findall(r"^\$ headwater (.*)$", "".join(others), re.MULTILINE):
        answer = headwater(*shlex.split(command), "--project", tmp_path)
        assert answer.code == 0, f"{command}: {answer.err}"
    assert headwater("interop", "list", "--json", "--project", tmp_path).json == []


def test_the_table_of_formats_is_what_the_formats_say() -> None:
    from headwater.formats.interop.choices import possible_targets
    from headwater.formats.registry import FORMATS

    told = {format.name: sorted(possible_targets(format)) for format in FORMATS}
    both = ["delta", "iceberg"]
    assert told == {"delta": ["iceberg"], "iceberg": ["delta"], "hudi": both, "paimon": both, "parquet": both}
    for format in FORMATS:
        [line] = [
            line
            for line in PAGE.splitlines()
            if line.startswith("| ") and format.title.lower() in line.lower().split("|")[1] and "✔" in line
        ]
        assert line.count("✔") == len(told[format.name])
