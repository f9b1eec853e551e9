"""What the hints of topics and their functions say is done, and what was refused is taken in: all in one project."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hints.followed import follows
from tests.hints.printed import pattern
from tests.support import Answer, headwater

MODULE = """\
import threading
from pyspark.sql import functions as F
from headwater import filter, mapper, upcaster

LOCK = threading.Lock()


"""
LETTERS = (
    "take NOT NULL from it in the source's schema, then `headwater dlq replay {}`",
    "`schema: {mismatch: discard_value}` takes the event in without the value, `{new_column: …",
    "{}; or tell the type in the source's schema_hints, then `headwater flow rebuild {} --yes`",
    "write one, or a default @mapper, in {}; or leave the type out by",
)
"""What dead letters say."""


@dataclass(frozen=True)
class Case:
    """A topic that fails, the hint that it gets, and what the hint says to write."""

    hint: str
    bad: dict[str, Any] = field(default_factory=dict)
    good: dict[str, Any] = field(default_factory=dict)
    code: tuple[str, str] = ("", "")


def mapped(hint: str, name: str, bad: str, good: str) -> Case:
    """A topic with mappers of a group of its own."""
    code = tuple(one.replace("GROUP", f"group='{name}'") + "\n" for one in (bad, good))
    return Case(hint, {"mappers": name}, {"mappers": name}, (code[0], code[1]))


MAPPER = "@mapper(GROUP)\ndef f(event): "
FIRST = "@mapper('A', GROUP)\ndef f(event): return {'a': event['id']}\n@mapper('B', GROUP)\ndef g(event): "
FILTER = "@filter\ndef unconditional(event): "
LIFTED = "@upcaster('C', from_version=1)\ndef f(event): return {{'lift': F.lit('1').cast('{}')}}\n"
CASES = {
    "shipped": mapped(
        "open connections, locks and the like inside the function, not at the top of the file",
        "shipped",
        "@mapper(GROUP, schema='id bigint')\ndef f(event: dict): return {'id': LOCK and event['id']}",
        "@mapper(GROUP, schema='id bigint')\ndef f(event: dict): return {'id': threading.Lock() and event['id']}",
    ),
    "no_dict": mapped(
        'return a dict of Column expressions: {"total": event["price"] * event["quantity"]}',
        "no_dict", MAPPER + "return [event['id']]", MAPPER + "return {'total': event['id'] * event['id']}",
    ),
    "disagreeing": mapped(
        "cast one of them, declare a schema, or give it another name",
        "disagreeing",
        FIRST + "return {'a': event['when'].cast('date')}", FIRST + "return {'a': event['id'].cast('int')}",
    ),
    "undeclared": mapped(
        "declare it",
        "undeclared",
        "@mapper(GROUP, schema='a bigint')\ndef f(event): return {'a': event['id'], 'b': event['id']}",
        "@mapper(GROUP, schema='a bigint, b bigint')\ndef f(event): return {'a': event['id'], 'b': event['id']}",
    ),
    "own": mapped(
        "give it another name",
        "own", MAPPER + "return {'event_date': event['id']}", MAPPER + "return {'other': event['id']}",
    ),
    "spelt": mapped(
        "names differ in more than case",
        "spelt", FIRST + "return {'A': event['id']}", FIRST + "return {'another': event['id']}",
    ),
    "raising": mapped(
        "fix it; nothing of the step was ingested, and the flow continues from there",
        "raising",
        MAPPER + "return {'a': F.when(event['id'] > 2, F.raise_error(F.lit('no'))).cast('bigint')}",
        MAPPER + "return {'a': F.when(event['id'] > 2, F.lit(1)).cast('bigint')}",
    ),
    "untyped": Case(
        "say where it comes from (`columns: {type: kind}` on the source), or write a default @mapper",
        {"from": "plain", "mappers": "one_type"}, {"from": "kinds", "mappers": "one_type"},
        ("@mapper('A', group='one_type')\ndef f(event): return {'a': event['id']}\n",) * 2,
    ),
    "unselected": Case(
        "say where it comes from: `columns: {type: kind}` on the source",
        {"from": "plain", "include_events": ["A"]}, {"from": "kinds", "include_events": ["A"]},
    ),
    "unconditional": Case(
        'return a condition as a Column: event["amount"] > 10',
        {"filter": "unconditional"}, {"filter": "unconditional"},
        (FILTER + "return True\n", FILTER + "return event['id'] > 1\n"),
    ),
    "dated": Case(
        "it is made with the commit: write date(event_timestamp)",
        {"filter": "event_date >= date'2026-01-01'"}, {"filter": "date(event_timestamp) >= date'2026-01-01'"},
    ),
    "no_new": Case(
        "set schema.new_column to add, rescue or ignore",
        {"from": "later", "schema": {"new_column": "fail"}}, {"from": "later", "schema": {"new_column": "rescue"}},
    ),
    "no_other": Case(
        "set schema.mismatch to quarantine; or tell the type in the source's schema_hints, then …",
        {"from": "later", "schema": {"mismatch": "fail"}}, {"from": "later", "schema": {"mismatch": "quarantine"}},
    ),
    "lifted": Case(
        "cast it, tell the type in the source's schema_hints, or give it another name",
        {"from": "lifts"}, {"from": "lifts"},
        (LIFTED.format("date"), LIFTED.format("int")),
    ),
}  # fmt: skip


def write(root: Path, *, good: bool) -> None:
    """The project with all topics, wrong or as the hints say."""
    files: dict[str, Any] = {"type": "files", "path": "./landing"}
    conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    required = "" if good else " NOT NULL"
    hinted = {"schema_hints": "id bigint, total string"} if good else {}
    of_letters = {
        "required": {"from": "typed"},
        "unfit": {"from": "later", "schema": {"mismatch": "discard_value" if good else "quarantine"}},
        "retyped": {"from": "told"},
        "unmapped": {"mappers": "some"},
    }
    topics = {name: {"from": "landing", **(one.good if good else one.bad)} for name, one in CASES.items()}
    project: dict[str, Any] = {
        "name": "lab",
        "code": "lab.py",
        "spark": {"conf": conf},
        "sources": {
            "landing": files,
            "plain": {"type": "files", "path": "./plain"},
            "kinds": {"type": "files", "path": "./plain", "columns": {"type": "kind"}},
            "later": {"type": "files", "path": "./later"},
            "lifts": {"type": "files", "path": "./lifts"},
            "told": {"type": "files", "path": "./later", **hinted},
            "typed": {"type": "files", "path": "./plain", "schema": f"kind string, total int{required}"},
        },
        "topics": topics | {name: {"from": "landing", **one} for name, one in of_letters.items()},
    }  # fmt: skip
    some = "@mapper('A', group='some')\ndef f(event): return {'a': event['id']}\n"
    some += "@mapper(group='some')\ndef g(event): return {'a': event['id']}\n" if good else ""
    (root / "headwater.yml").write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")
    (root / "lab.py").write_text(MODULE + some + "".join(one.code[good] for one in CASES.values()), encoding="utf-8")


def land(root: Path, file: str, *records: dict[str, Any]) -> None:
    path = root / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


@pytest.mark.usefixtures("spark")
@follows(*(one.hint for one in CASES.values()))
@follows(*LETTERS, here=False)
def test_what_the_hint_of_a_topic_says_helps(tmp_path: Path) -> None:
    land(
        tmp_path,
        "landing/1.json",
        *({"event_type": "ABC"[id % 3], "id": id, "when": "x", "event_timestamp": "2026-01-01"} for id in range(30)),
    )
    land(tmp_path, "plain/1.json", {"kind": "A", "id": 1})
    land(tmp_path, "lifts/1.json", {"event_type": "C", "lift": 1})
    land(tmp_path, "later/1.json", *({"id": id, "total": 1} for id in range(20)))
    write(tmp_path, good=False)
    _run(tmp_path)
    land(tmp_path, "later/2.json", {"id": 21, "total": "many", "note": "x"})
    failed = _failures(_run(tmp_path))
    assert set(failed) == {f"topics.{name}" for name in CASES}, (failed, set(CASES) - {one[7:] for one in failed})
    letters = {one["topic"]: one["message"] for one in _do(tmp_path, "dlq", "list", "--json").json}
    for topic, hint in zip(("required", "unfit", "retyped", "unmapped"), LETTERS, strict=True):
        assert pattern(hint).search(letters[topic]), letters
    write(tmp_path, good=True)
    assert _failures(_run(tmp_path, "--apply")) == {}
    for topic in ("required", "unfit", "unmapped"):
        (replayed,) = _do(tmp_path, "dlq", "replay", topic, "--json").json
        assert replayed["still_dead"] == 0 < replayed["came_through"], replayed
    _do(tmp_path, "flow", "rebuild", "retyped", "--yes")
    assert _failures(_run(tmp_path)) == {}
    rows = _do(tmp_path, "query", "SELECT total FROM topic('retyped') WHERE id = 21", "--output", "json").json
    assert rows == [{"total": "many"}]


def _do(root: Path, *arguments: str) -> Answer:
    answer = headwater(*arguments, "--project", root)
    assert answer.code == 0, answer.err
    return answer


def _run(root: Path, *options: str) -> Answer:
    return headwater("run", "--once", "--json", "--project", root, *options)


def _failures(ran: Answer) -> dict[str, str]:
    assert ran.events, ran.err
    return {one["flow"]: one["error"] for one in ran.events if one["event"] == "failed"}
