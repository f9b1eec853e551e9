"""Whatever is asked, the answer is rows or an error that says what to do: never a defect, never a traceback."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from headwater.formats.registry import FORMATS
from tests.query.fuzzing import RELATIONS, Fuzz
from tests.support import Answer, headwater

_RAW = re.compile(
    r"INTERNAL|Traceback \(most recent|Py4J|StackOverflow|AssertionError|RecursionError|OverflowError|NullPointer"
)
"""What no message has that says what to do."""
SECONDS = 8.0
"""How long each kind of input may be tried, at most."""
PROJECT: dict[str, Any] = {
    "name": "fuzzed",
    "sources": {"landing": {"type": "files", "path": "./landing"}, "later": {"type": "files", "path": "./later"}},
    "topics": {
        "orders": {"from": "landing", "partition_by": ["event_date"], "schema": {"mismatch": "quarantine"}},
        "empty": {"from": "later"},
    },
    "tables": {
        "kept": {
            "sql": "SELECT id, name, amount FROM stream(topic('orders'))",
            "expect": {"some": {"check": "id > 0", "on_violation": "warn"}},
        },
        "last": {"from": "topic('orders')", "apply": {"keys": ["id"], "sequence_by": "_position"}},
    },
    "views": {
        "totals": {
            "sql": "SELECT name, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY name",
            "refresh": {"mode": "periodic", "every": "5m"},
        }
    },
}
RECORDS = [
    '{"id": 1, "name": "a", "amount": 1.5, "tags": ["x"], "o": {"x": 1}, "at": "2024-01-01T00:00:00Z"}',
    '{"id": 2, "name": null, "amount": 2.5, "tags": [], "o": {"x": 2}, "at": "2024-01-02T00:00:00Z"}',
    '{"id": 3, "name": "b", "amount": -0.5, "tags": null, "o": null, "at": null}',
    "broken",
    '{"id": "text", "name": "c"}',
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fuzzed")
    (root / "landing").mkdir()
    (root / "later").mkdir()
    (root / "landing" / "1.json").write_text("\n".join(RECORDS) + "\n")
    (root / "headwater.yml").write_text(yaml.safe_dump(PROJECT))
    ran = headwater("run", "--once", "--project", root)
    assert ran.code == 0, ran.err
    return root


def tried(asked: Callable[[], tuple[str | Path, ...]], count: int) -> list[str]:
    """What went wrong, at most `count` inputs or `SECONDS` long."""
    wrong: list[str] = []
    until = time.monotonic() + SECONDS
    for _ in range(count):
        arguments = asked()
        try:
            answer = headwater(*arguments)
        except BaseException as error:
            wrong.append(f"{arguments}: raised {type(error).__name__}: {error}")
            continue
        if said := complaint(answer):
            wrong.append(f"{arguments}: {said}")
        if time.monotonic() > until:
            break
    return wrong


def complaint(answer: Answer) -> str:
    text = answer.err + answer.out[-2000:]
    if answer.code not in (0, 1, 2) or _RAW.search(text):
        return f"{answer.code} {text[-600:]}"
    return "failed and said nothing" if answer.code and not text.strip() else ""


def test_queries(lake: Path, seed: int) -> None:
    fuzz = Fuzz(seed)
    outputs = ["table", "json", "csv", "ndjson"]
    engines = ["auto", "auto", "auto", "auto", "auto", "duckdb", "spark"]
    limits = ["0", "1", "2147483647", "2147483648", "9" * 20, "-1", "x"]

    def asked() -> tuple[str | Path, ...]:
        options = [f"--limit={fuzz.pick(limits)}"] if fuzz.some(0.1) else []
        options += ["--read-only"] if fuzz.some(0.2) else []
        answered = ("--output", fuzz.pick(outputs), "--engine", fuzz.pick(engines))
        return ("query", fuzz.statement(), *answered, *options, "--project", lake)

    assert not tried(asked, 400)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_query_is_explained(lake: Path, relation: str) -> None:
    for columns in ("count(*)", "*", "1", "count(*), max(id)"):
        for rest in ("", " WHERE id > 1", " WHERE false", " LIMIT 0"):
            answer = headwater("query", f"EXPLAIN ANALYZE SELECT {columns} FROM {relation}{rest}", "--project", lake)
            assert not complaint(answer), (columns, relation, rest)


def test_views(lake: Path, seed: int) -> None:
    fuzz = Fuzz(seed + 1)
    options = [
        (), ("--refresh", "periodic", "--interval", "60s"), ("--refresh", "manual"), ("--refresh", "x"),
        ("--interval", "-1"), ("--refresh", "on_query", "--replace"), ("--format", "parquet"), ("--format", "x"),
    ]  # fmt: skip

    def asked() -> tuple[str | Path, ...]:
        name = fuzz.pick(["made", "made", "totals", "Bad Name", "", "orders", "select"])
        if fuzz.some(0.15):
            verb = fuzz.pick(["describe", "explain", "refresh", "verify", "drop", "list"])
            return ("mv", verb, *([] if verb == "list" else [name]), "--json", "--project", lake)
        sql = fuzz.query() if fuzz.some(0.8) else fuzz.broken(fuzz.query())
        return ("mv", "create", name, sql, *fuzz.pick(options), "--json", "--project", lake)

    assert not tried(asked, 80)


def test_views_own_error_names_the_view(lake: Path) -> None:
    """In Python too, where no command stands between."""
    sql = (
        "SELECT explode(sequence(1, 2, CAST(length(name) AS int) - 1)) AS x FROM topic('orders') WHERE name IS NOT NULL"
    )
    with Lake.open(lake) as opened:
        with pytest.raises(HeadwaterError, match="view 'failing': Illegal sequence boundaries: 1 to 2 by 0") as caught:
            opened.create_view("failing", sql)
    assert caught.value.code is Code.SPARK_FAILED


def test_dead_letters(lake: Path, seed: int) -> None:
    fuzz = Fuzz(seed + 2)
    ids = [one["id"] for one in headwater("dlq", "list", "--json", "--project", lake).json]

    def asked() -> tuple[str | Path, ...]:
        topic = fuzz.pick(["orders", "orders", "nowhere", "", "kept", "a b", "'", "topic('orders')"])
        id = fuzz.pick([*ids, "x", "", "'", "%", "0" * 64])
        verb = fuzz.pick(["list", "list", "show", "replay", "drop"])
        arguments: list[str] = ["dlq", verb]
        if verb == "show" or (verb != "list" and fuzz.some(0.5)):
            arguments += [fuzz.pick([id, topic])]
        for option in ("--topic", "--reason", "--limit", "--since", "--where", "--all", "--yes", "--id"):
            if fuzz.some(0.2):
                arguments += [option]
                arguments += (
                    [] if option in ("--all", "--yes") else [fuzz.pick([topic, id, "decode", "-1", "5m", "id ="])]
                )
        return (*arguments, *(["--json"] if fuzz.some(0.5) else []), "--project", lake)

    assert not tried(asked, 150)


def test_project_files(tmp_path: Path, seed: int) -> None:
    fuzz = Fuzz(seed + 3)
    file = tmp_path / "headwater.yml"

    def asked() -> tuple[str | Path, ...]:
        if fuzz.some(0.7):
            text = yaml.safe_dump(fuzz.mutated(PROJECT), allow_unicode=True)
        else:
            text = fuzz.garbled(yaml.safe_dump(PROJECT))
        file.write_text(text, encoding="utf-8")
        return (fuzz.pick(["check", "check", "plan"]), *(["--json"] if fuzz.some(0.5) else []), "--project", tmp_path)

    assert not tried(asked, 400)


def test_a_defect_is_logged_with_its_traceback(tmp_path: Path) -> None:
    """A plug-in that has one: the message names a file that says where it happened."""

    def address(*_: object) -> NoReturn:
        raise KeyError("of a plug-in")

    FORMATS.add("defective", replace(FORMATS.get("parquet"), name="defective", address=address))
    project = "name: small\nsources: {a: {type: append}}\ntopics: {t: {from: a, format: defective}}\n"
    (tmp_path / "headwater.yml").write_text(project)
    try:
        answer = headwater("topic", "list", "--project", tmp_path)
    finally:
        del FORMATS._items["defective"]
    log = tmp_path / ".headwater" / "logs" / "headwater.log"
    assert answer.code == 1 and "INTERNAL" in answer.err and str(log) in answer.err and "Traceback" not in answer.err
    (line,) = (line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "defect")
    assert "Traceback (most recent call last)" in line["exception"] and "KeyError: 'of a plug-in'" in line["exception"]
