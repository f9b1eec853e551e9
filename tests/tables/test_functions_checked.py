"""What a function makes is checked as what a query makes is: columns, late events, expectations and keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tables.lab import Lab, event

pytestmark = pytest.mark.usefixtures("spark")

CODE = """\
from headwater import transform
from pyspark.sql import functions as F


@transform
def small(events):
    return events.select(F.col("n").cast("int").alias("n"), "id", F.upper("who").alias("who"))


@transform("wide")
def wide(events):
    return events.select("id", "who", "n", F.lit(1).alias("extra"))


@transform("void")
def void(events):
    return events.select("id", F.lit(None).alias("x"))


@transform("streamed", streaming=True)
def streamed(events):
    return events.select("id", F.col("n").cast("int").alias("n"))


@transform("hasty", streaming=True, output_mode="append")
def hasty(events):
    return events.groupBy("who").count()
"""
CHECKED: dict[str, Any] = {
    "transform": "small",
    "schema": "id bigint, who string, n bigint",
    "keys": ["id", "who"],
    "watermark": {"column": "at", "delay": "10m", "late": "quarantine"},
    "expect": {"few": {"check": "n < 5", "on_violation": "drop"}},
}


def test_rows_of_a_function_are_looked_at(tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"checked": CHECKED, "unique": {"transform": "small", "keys": ["id"]}}, code=CODE)
    lab.fed(event(1, 30), event(2, 31, n=9))
    lab.fed(event(3, 1, n=3), event(4, 32), event(5, 33))
    assert lab.rows("checked") == [(1, "A", 1), (4, "A", 1), (5, "A", 1)], (
        "in the order of the schema, and of its types"
    )
    assert lab.checks("checked") == {
        "watermark": "2026-01-01T00:23:00+00:00",
        "late": 1,
        "violations": {"few": 1},
    }
    columns = lab.answer("table", "describe", "checked", "--json").json["columns"]
    assert [(one["name"], one["type"]) for one in columns] == [("id", "bigint"), ("who", "string"), ("n", "bigint")]
    assert [one["reason"] for one in lab.dead_letters("checked")] == ["late"]
    assert lab.answer("dlq", "replay", "tables.checked").code == 0
    assert lab.rows("checked", "id") == [(1,), (3,), (4,), (5,)]

    failed = lab.failed(event(6, 34, who=None), event(4, 35, "b"))
    null, twice = failed["tables.checked"], failed["tables.unique"]
    assert null["code"] == "NULL_KEY" and '{"id":6,"who":null,"n":1}' in null["error"], null
    assert twice["code"] == "DUPLICATE_KEY" and "tables.unique.keys" in twice["error"], twice
    assert '{"n":1,"id":4,"who":"A"}' in twice["error"] and '{"n":1,"id":4,"who":"B"}' in twice["error"], twice


def test_other_columns_than_those_declared(tmp_path: Path) -> None:
    wrong = {
        "more": ({"transform": "wide", "schema": "id bigint, who string, n bigint"}, "it gives a column 'extra'"),
        "less": ({"transform": "small", "schema": "id bigint, who string, n bigint, at timestamp"}, "no column 'at'"),
        "narrow": (
            {"transform": "small", "schema": "id int, who string, n bigint"},
            "is bigint, and `schema` declares int",
        ),
        "void": ({"transform": "void"}, "column 'x' is NULL in every row, and of no type"),
        "fits": ({"transform": "streamed", "schema": "id bigint, n bigint"}, ""),
        "streams": ({"transform": "streamed", "schema": "id bigint, m int"}, "no column 'm', which `schema` declares"),
        "unwatched": ({"transform": "hasty"}, "df.withWatermark(column, delay)"),
    }
    lab = Lab(tmp_path, {name: table for name, (table, _) in wrong.items()}, code=CODE)
    failed = lab.failed(event(1, 0))
    assert set(failed) == {f"tables.{name}" for name, (_, says) in wrong.items() if says}
    for name, (_, says) in wrong.items():
        if says:
            told = failed[f"tables.{name}"]
            assert told["code"] == "TRANSFORM_FAILED" and says in told["error"] and "lab.py:" in told["error"], told
    assert lab.rows("fits") == [(1, 1)]
