"""What the hints of tables and views say is done, and the flow that was given up goes on: all in one project."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hints.followed import follows
from tests.support import headwater

EVENTS = "topic('events')"
STREAM = f"stream({EVENTS})"
MODULE = "from pyspark.sql.functions import col\nfrom headwater import transform\n\n"


@dataclass(frozen=True)
class Case:
    """A definition that fails when it runs, the hint that it gets, and what the hint says to write."""

    hint: str
    bad: dict[str, Any]
    good: dict[str, Any] = field(default_factory=dict)
    code: tuple[str, str] = ("", "")


def strict(hint: str, bad: str, good: str) -> Case:
    """A view that has to be maintained incrementally."""
    refresh = {"policy": "incremental_strict"}
    return Case(hint, {"sql": bad, "refresh": refresh}, {"sql": good, "refresh": refresh})


def query(hint: str, bad: str, good: str, **more: Any) -> Case:
    return Case(hint, {"sql": bad, **more}, {"sql": good, **more})


def changed(hint: str, sql: str, bad: dict[str, Any], good: dict[str, Any]) -> Case:
    return Case(hint, {"sql": sql, **bad}, {"sql": sql, **good})


def transformed(hint: str, name: str, bad: str, good: str, mode: str = "streaming=True", **table: Any) -> Case:
    def code(body: str, decorated: str) -> str:
        return f"@transform({decorated})\ndef {name}(events):\n    return {body}\n\n"

    better, _, body = good.rpartition(" | ")
    table = {"transform": name, **table}
    return Case(hint, table, table, (code(bad, mode), code(body, better or mode)))


def late(column: str, late: str = "update") -> dict[str, Any]:
    return {"watermark": {"column": column, "delay": "1m", "late": late}}


def expected(check: str, do: str) -> dict[str, Any]:
    return {"expect": {"fine": {"check": check, "on_violation": do}}}


COUNTED = f"SELECT who, count(*) AS c FROM {EVENTS} GROUP BY who"
LATE = f"SELECT id, at FROM {STREAM}"
JOINED = "SELECT e.id, p.name FROM stream(table('first')) e JOIN {} p ON p.who = e.who"
PAST = f"SELECT e.id FROM {STREAM} e JOIN table('past') FOR SYSTEM_TIME AS OF {{}} k ON k.id = e.id"
FEW = "events.where('n < 3')"
BOTH = f"{FEW}.join({FEW}.select(col('id').alias('i')), col('i') == col('id')).select('id')"
KEPT = "keep one of them in the query: row_number() OVER (PARTITION BY the keys ORDER BY …) = 1"
FIRST = "SELECT id, n FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY n DESC) AS r FROM {}) WHERE r = 1"
TABLES = {
    "no_order": Case(
        "order by a column that every change has: `_position`",
        {"from": EVENTS, "apply": {"keys": ["id"], "sequence_by": "n"}},
        {"from": EVENTS, "apply": {"keys": ["id"], "sequence_by": "_position"}},
    ),
    "no_key": Case(
        "leave them out with the topic's `filter`, or take a key that is never NULL",
        {"from": EVENTS, "apply": {"keys": ["who"], "sequence_by": "at"}},
        {"from": EVENTS, "apply": {"keys": ["id"], "sequence_by": "at"}},
    ),
    "taken": Case(
        "rename it in the topic",
        {"from": "topic('named')", "apply": {"keys": ["id"], "sequence_by": "_ingested_at", "history": "all"}},
        {"from": "topic('renamed')", "apply": {"keys": ["id"], "sequence_by": "_ingested_at", "history": "all"}},
    ),
    "null_key": query(
        "filter such rows out in the query",
        f"SELECT id, who FROM {STREAM} WHERE n < 3 OR n IS NULL",
        f"SELECT id, who FROM {STREAM} WHERE (n < 3 OR n IS NULL) AND who IS NOT NULL",
        keys=["id", "who"],
    ),
    "twice": query(KEPT, f"SELECT id, n FROM {EVENTS}", FIRST.format(EVENTS), keys=["id"]),
    "unmet": changed(
        "correct the data or the query, or set on_violation to warn, drop or quarantine",
        f"SELECT id, n FROM {STREAM}", expected("n > 1", "fail"), expected("n > 1", "quarantine"),
    ),
    "no_time": changed("a timestamp or a date", LATE, late("n"), late("at")),
    "late_of_changes": changed(
        "late: update takes every row in",
        "SELECT id, at FROM stream(table('first'))", late("at", "drop"), late("at"),
    ),
    "late_in_full": changed(
        "set late: update",
        f"SELECT id, at FROM (SELECT * FROM {STREAM} ORDER BY id LIMIT 2)", late("at", "drop"), late("at"),
    ),
    "of_groups": changed(
        "write it as HAVING, or warn or fail",
        COUNTED, expected("c > 1", "drop"), expected("c > 0", "warn"),
    ),
    "at_times": changed(
        "warn or fail",
        f"SELECT id, at FROM {STREAM}", expected("at < now()", "drop"), expected("at < now()", "warn"),
    ),
    "looked_up": query(
        "put the other inputs into stream() too: then all of them drive the result",
        JOINED.format("table('people')"), JOINED.format("stream(table('people'))"),
    ),
    "as_of": query(
        "write CAST({} AS TIMESTAMP)",
        PAST.format("e.who"), PAST.format("CAST(e.who AS TIMESTAMP)"),
    ),
    "no_stream": transformed(
        "make it from the parameters, which are streams; or leave `streaming=True` out",
        "no_stream", "events.sparkSession.range(3)", "events.select('id')",
    ),
    "uncast": transformed(
        "cast it in the function: col('{}').cast('{}')",
        "uncast", "events.select('id')", "events.select(col('id').cast('int'))", schema="id int",
    ),
    "unbounded": transformed(
        "give it one in the function: df.withWatermark(column, delay); or, with keys, output_mode='update'",
        "unbounded", "events.groupBy('n').count()", "events.withWatermark('at', '1 minute').groupBy('at').count()",
    ),
    "in_update": transformed(
        "the decorator's output_mode sets `append` or `update`",
        "in_update", BOTH, f"streaming=True, output_mode='append' | {BOTH}",
        keys=["id"],
    ),
}  # fmt: skip
VIEWS = {
    "names": query("name them: … AS x", f"SELECT id, n AS id FROM {EVENTS}", f"SELECT id, n AS x FROM {EVENTS}"),
    "place": query("name the column", f"SELECT id FROM {EVENTS} ORDER BY 5", f"SELECT id FROM {EVENTS} ORDER BY id"),
    "limited": strict(
        "rank the rows with row_number() and filter by it",
        f"SELECT id FROM (SELECT id FROM {EVENTS} ORDER BY id LIMIT 1)",
        f"SELECT id FROM (SELECT id, row_number() OVER (ORDER BY id) AS r FROM {EVENTS}) WHERE r = 1",
    ),
    "using": strict(
        "write the condition with ON, and coalesce the columns",
        f"SELECT id, a.n FROM {EVENTS} a FULL JOIN {EVENTS} b USING (id)",
        f"SELECT coalesce(a.id, b.id) AS id, a.n FROM {EVENTS} a FULL JOIN {EVENTS} b ON a.id = b.id",
    ),
    "lateral": strict(
        "name them: … AS value",
        f"SELECT id, col FROM {EVENTS} LATERAL VIEW explode(array(1, 2)) l",
        f"SELECT id, col FROM {EVENTS} LATERAL VIEW explode(array(1, 2)) l AS col",
    ),
    "not_in": strict(
        "write NOT EXISTS",
        f"SELECT id FROM {EVENTS} WHERE (id, n) NOT IN (SELECT id, n FROM {EVENTS} WHERE n > 2)",
        f"SELECT id FROM {EVENTS} e WHERE NOT EXISTS (SELECT 1 FROM {EVENTS} o WHERE o.id = e.id AND o.n > 2)",
    ),
    "in_or": strict(
        "write it as a join, or as a condition of its own",
        f"SELECT id FROM {EVENTS} e WHERE n = 1 OR EXISTS (SELECT 1 FROM table('people') p WHERE p.who = e.who)",
        f"SELECT id FROM {EVENTS} e WHERE EXISTS (SELECT 1 FROM table('people') p WHERE p.who = e.who)",
    ),
    "scalar": strict(
        "aggregate it: max(…)",
        f"SELECT id, (SELECT name FROM table('people') WHERE who = 'a') AS x FROM {EVENTS}",
        f"SELECT id, (SELECT max(name) FROM table('people') WHERE who = 'a') AS x FROM {EVENTS}",
    ),
    "random": strict(
        "leave out rand(), uuid() and the like",
        f"SELECT id, rand() AS r FROM {EVENTS}",
        f"SELECT id, n AS r FROM {EVENTS}",
    ),
}  # fmt: skip
CASES = TABLES | VIEWS


def write(root: Path, *, good: bool) -> None:
    """The project with all definitions, wrong or as the hints say."""
    conf = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    tables: dict[str, Any] = {name: one.good if good else one.bad for name, one in TABLES.items()}
    tables["people"] = {"seed": "people.csv", "keys": ["who"]}
    tables["first"] = {"sql": f"SELECT id, who, at FROM {STREAM} WHERE id = 1", "keys": ["id"]}
    tables["past"] = {
        "from": EVENTS,
        "apply": {"keys": ["id"], "sequence_by": "_position", "history": "all"},
    }
    project: dict[str, Any] = {
        "name": "lab",
        "code": "lab.py",
        "spark": {"conf": conf},
        "sources": {
            "landing": {
                "type": "files",
                "path": "./landing",
                "schema": "id bigint, who string, n bigint, at timestamp",
            },
            "other": {"type": "files", "path": "./landing", "schema": "id bigint, valid_from string"},
            "another": {"type": "files", "path": "./landing", "schema": "id bigint, since string"},
        },
        "topics": {
            "events": {"from": "landing"},
            "named": {"from": "other"},
            "renamed": {"from": "another"},
        },
        "tables": tables,
        "views": {name: one.good if good else one.bad for name, one in VIEWS.items()},
    }
    (root / "headwater.yml").write_text(yaml.safe_dump(project, sort_keys=False), encoding="utf-8")
    (root / "lab.py").write_text(MODULE + "".join(one.code[good] for one in TABLES.values()), encoding="utf-8")


@pytest.mark.usefixtures("spark")
@follows(*(one.hint for one in CASES.values()))
def test_what_the_hint_of_a_failed_flow_says_helps(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    rows = [(1, "a", 1), (2, "b", 2), (2, "b", 3), (3, None, None)]

    def land(number: int) -> None:
        events = ({"id": id + 10 * number, "who": who, "n": n, "at": "2026-01-01T00:00:00Z"} for id, who, n in rows)
        (tmp_path / "landing" / f"{number}.json").write_text("\n".join(map(json.dumps, events)), encoding="utf-8")

    land(0)
    (tmp_path / "people.csv").write_text("who,name\na,Ann\nb,Bea\n", encoding="utf-8")
    write(tmp_path, good=False)
    _failures(tmp_path)  # a view is built in full at first, whatever its policy
    land(1)
    failed = _failures(tmp_path)
    wanted = {*(f"tables.{name}" for name in TABLES), *(f"views.{name}" for name in VIEWS)}
    assert set(failed) == wanted, (wanted - set(failed), failed)
    write(tmp_path, good=True)
    assert _failures(tmp_path, "--apply") == {}


def _failures(root: Path, *options: str) -> dict[str, str]:
    ran = headwater("run", "--once", "--json", "--project", root, *options)
    assert ran.events, ran.err
    return {one["flow"]: one["error"] for one in ran.events if one["event"] == "failed"}
