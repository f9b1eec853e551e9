"""How changes are applied: what is remembered for how long, what is read for them, and what can't be applied."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.errors import Code, HeadwaterError, Where
from headwater.core.model import CommitTag
from headwater.core.spec import Table, layout_of
from headwater.core.spec.base import placed
from headwater.flows.ledger import Intent
from headwater.flows.step import Step
from headwater.formats.base import LakeContext
from headwater.formats.registry import FORMATS
from headwater.tables.apply.changes import truncations_of
from headwater.tables.apply.shape import Shape, shape_of
from headwater.tables.apply.spans import spans
from headwater.tables.apply.target import ApplyTarget
from headwater.tables.apply.truncation import TRUNCATED, noted, remembered
from headwater.warehouse import shown as as_shown
from tests.hints.followed import follows
from tests.tables.apply_lab import Event, Row, frame, shown

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
NOW = datetime(2026, 2, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    """A session for many plans over a few rows."""
    session = spark.newSession()
    for name, value in QUICK.items():
        session.conf.set(name, value)
    return session


def place(key: str) -> Where:
    return Where("headwater.yml", 7, f"tables.customers.{key}")


class Kept:
    """A real table, step by step."""

    def __init__(self, spark: SparkSession, context: LakeContext, format: str, name: str, **rules: Any) -> None:
        made = Table.model_validate({"from": "topic('x')", "apply": {"keys": ["id"], **rules}})
        self.definition = placed(made, name, place(""))
        found = FORMATS.get(format)
        self.table = found.spark(spark, found.address(context, "tables", name), context)
        self.shapes: list[Shape] = []
        self.number = 0
        self.positions: dict[str, Any] = {}
        self.open()

    def open(self) -> None:
        self.target = ApplyTarget(
            self.table, self.definition, layout_of(self.definition), place, lambda: None, self.shapes.append
        )

    def intent(self, df: DataFrame, at: datetime) -> Intent:
        assert self.definition.apply is not None
        shape = shape_of(self.definition.apply, df.schema, place)
        told = remembered(self.positions)
        if shape.captured:
            told = noted(told, truncations_of(df, shape), shape)
        return Intent(1, self.number, self.positions, {TRUNCATED: [one.to_json() for one in told]}, "", at)

    def step(self, df: DataFrame, at: datetime = NOW) -> tuple[Intent, CommitTag]:
        intent = self.intent(df, at)
        step = Step("tables.x", intent)
        self.target.commit(df, step)
        self.positions, self.number = dict(intent.end), self.number + 1
        return intent, step.commit_tag

    def shown(self) -> set[tuple[Any, ...]]:
        return shown(as_shown(self.table.read(), self.shapes[-1].shown).collect())


def test_deletes_are_remembered_for_their_time(quick: SparkSession, context: LakeContext) -> None:
    kept = Kept(quick, context, "delta", "tombstones", tombstones="1h")
    kept.step(frame(quick, [Event(2, "i", 0, after=Row(1, "a", "d")), Event(5, "d", 0, before=Row(1, None, None))]))
    kept.step(frame(quick, [Event(3, "u", 0, after=Row(1, "late", "d")), Event(4, "i", 0, after=Row(2, "b", "d"))]))
    assert kept.shown() == {(2, "b", "d")}
    assert kept.table.read().count() == 2, "the delete is a hidden row"
    kept.step(frame(quick, [Event(6, "u", 0, after=Row(2, "c", "d"))]), NOW + timedelta(hours=2))
    assert kept.table.read().count() == 1, "after its time it is not"


@pytest.mark.parametrize(("history", "kept_of_them"), [("latest", ["10"]), ("all", ["5", "10", "9"])])
def test_truncates_that_no_change_can_meet_any_more_are_forgotten(
    quick: SparkSession, context: LakeContext, history: str, kept_of_them: list[str]
) -> None:
    kept = Kept(quick, context, "delta", f"truncated_{history}", sequence_by="n", history=history)

    def step(*changes: tuple[int, str, int | None]) -> None:
        rows = [(n, op, f"{kept.number}-{n}", NOW, None, None if id_ is None else (id_,)) for n, op, id_ in changes]
        topic = "n int, _op string, _position string, event_timestamp timestamp"
        kept.step(quick.createDataFrame(rows, f"{topic}, before struct<id: bigint>, after struct<id: bigint>"))

    step((4, "i", 1), (5, "t", None), (6, "i", 2))
    step((10, "t", None), (11, "i", 3))
    step((9, "t", None), (8, "i", 4), (12, "i", 5))  # late, and older
    assert [one[0] for one in kept.positions[TRUNCATED]] == kept_of_them
    step((3, "i", 6), (7, "i", 7))
    there = as_shown(kept.table.read(), kept.shapes[-1].shown)
    there = there.where("is_current") if history == "all" else there
    assert {row.id for row in there.collect()} == {3, 5}


def test_a_new_column_of_the_topic_is_one_of_the_table(quick: SparkSession, context: LakeContext) -> None:
    kept = Kept(quick, context, "delta", "wider", sequence_by="n")
    kept.step(quick.createDataFrame([(1, 1, "a")], "id bigint, n bigint, v string"))
    first = kept.shapes[-1].shown
    kept.step(quick.createDataFrame([(2, 1, "b", 7)], "id bigint, n bigint, v string, more int"))
    assert kept.shown() == {(1, 1, "a", None), (2, 1, "b", 7)} and kept.shapes[-1].shown != first
    before = kept.table.landed(CommitTag("tables.x", 1, 0))
    assert shown(as_shown(kept.table.read(before), kept.shapes[-1].shown).collect()) == {(1, 1, "a")}


ROWS = "id bigint, n bigint, gone boolean, v string"


def test_compared_rows_are_deleted_after_their_time_or_at_once(quick: SparkSession, context: LakeContext) -> None:
    hour = Kept(quick, context, "delta", "rows_hour", sequence_by="n", delete_when="gone", tombstones="1h")
    none = Kept(quick, context, "delta", "rows_none", sequence_by="n", delete_when="gone", tombstones="0s")
    for kept in (hour, none):
        kept.step(quick.createDataFrame([(1, 1, False, "a"), (2, 1, False, "b")], ROWS))
        kept.step(quick.createDataFrame([(1, 3, True, "a"), (3, 1, True, "c")], ROWS))
        assert kept.shown() == {(2, 1, False, "b")}
    assert (hour.table.read().count(), none.table.read().count()) == (3, 1)
    hour.step(quick.createDataFrame([(1, 2, False, "late"), (2, 2, False, "c")], ROWS))
    assert hour.shown() == {(2, 2, False, "c")}
    hour.step(quick.createDataFrame([(2, 3, False, "d")], ROWS), NOW + timedelta(hours=2))
    assert hour.table.read().count() == 1
    _, commit_tag = hour.step(quick.createDataFrame([(2, -1, False, "old")], ROWS))
    assert hour.shown() == {(2, 3, False, "d")}, "what is older than all that is known changes nothing"
    assert hour.target.landed(commit_tag)


def test_files_without_the_keys_of_a_step_are_not_read(quick: SparkSession, context: LakeContext) -> None:
    kept = Kept(quick, context, "delta", "far", sequence_by="n", delete_when="gone")
    kept.step(quick.createDataFrame([(id_, 1, False, "a") for id_ in range(9)], ROWS))
    (early,) = kept.table.files()
    kept.step(quick.createDataFrame([(id_, 1, False, "a") for id_ in range(100, 109)], ROWS))
    Path(early.path).unlink()
    kept.step(quick.createDataFrame([(104, 2, False, "b"), (107, 2, True, "b"), (200, 2, False, "b")], ROWS))
    expected = {**dict.fromkeys((100, 101, 102, 103, 105, 106, 108), 1), 104: 2, 200: 2}
    there = as_shown(kept.table.read().where("id >= 100"), kept.shapes[-1].shown)
    assert {row.id: row.n for row in there.collect()} == expected


def test_ranges_hold_every_key_and_leave_out_what_is_far(quick: SparkSession) -> None:
    day = "date'1969-12-01' + CAST(id AS int)"
    kinds = {
        "number": "id - 50",
        "text": "concat('ü', lpad(CAST(id AS string), 6, '0'))",
        "day": day,
        "moment": f"CAST({day} AS timestamp) + INTERVAL 1 MICROSECOND",
        "price": "CAST(id * 0.01 AS decimal(20, 2))",
        "flag": "id > 0",
    }
    every = quick.range(1000).selectExpr("id", *(f"{made} AS {name}" for name, made in kinds.items()))
    keys = every.where("id BETWEEN 100 AND 149 OR id BETWEEN 500 AND 549 OR id = 700")
    for name in kinds:
        found = spans(keys, [name], 101, "t")
        if name == "flag":
            assert found is None, "which has no ranges"
            continue
        assert found is not None
        ids = {row.id for row in every.alias("t").where(found).select("id").collect()}
        assert ids >= {*range(100, 150), *range(500, 550), 700}
        assert not ids & {*range(80), *range(720, 1000)}
        if name == "number":
            assert len(ids) < 150
    both = spans(keys, ["number", "text"], 2_000_000, "t")
    assert both is not None
    assert every.alias("t").where(both).count() == 601, "of very many keys the first and the last are known"
    tiny = quick.range(-128, 128).selectExpr("CAST(id AS tinyint) AS id")
    ends = spans(tiny.where("id < -120 OR id > 120"), ["id"], 15, "t")
    assert ends is not None
    assert tiny.alias("t").where(ends).where("id < -120 OR id > 120").count() == 15, "no end is beyond its type"


@follows("order by a timestamp, or have one of {}")
def test_a_history_has_the_time_of_each_change(quick: SparkSession, context: LakeContext) -> None:
    rules = {"sequence_by": "n", "history": "all"}
    with pytest.raises(HeadwaterError):
        Kept(quick, context, "delta", "bad", **rules).step(quick.createDataFrame([(1, 1)], "id bigint, n bigint"))
    timed = quick.createDataFrame([(1, 1)], "id bigint, n bigint").withColumn("at", F.current_timestamp())
    for number, more in enumerate(({"sequence_by": "at"}, {})):
        kept = Kept(quick, context, "delta", f"good{number}", **{**rules, **more})
        kept.step(timed.withColumnRenamed("at", "event_timestamp") if not more else timed)
        assert kept.table.read().count() == 1


@pytest.mark.parametrize(
    ("rules", "ddl", "row", "code", "said"),
    [
        (
            {"keys": ["idd"]},
            "id bigint, n bigint",
            (1, 1),
            Code.INVALID_VALUE,
            "no column 'idd'; did you mean 'id'",
        ),
        ({"sequence_by": "m"}, "id bigint, n bigint", (1, 1), Code.INVALID_VALUE, "no column 'm'"),
        ({}, "id bigint, n bigint", (None, 1), Code.NULL_KEY, "1 changes for tables.bad have no value for a key (id)"),
        ({}, "id bigint, n bigint", (1, None), Code.NO_SEQUENCE, "no value for 'n', which orders them"),
        ({"delete_when": "gon"}, "id bigint, n bigint, gone boolean", (1, 1, True), Code.INVALID_SQL, "delete_when"),
        ({"history": "all"}, "id bigint, n bigint", (1, 1), Code.INVALID_VALUE, "a history needs the time"),
        ({"deletes": "soft"}, "id bigint, n bigint, is_deleted int", (1, 1, 1), Code.INVALID_VALUE, "'is_deleted'"),
    ],
)
def test_bad_input_is_told_with_its_place(
    quick: SparkSession, context: LakeContext, rules: Any, ddl: str, row: Any, code: Code, said: str
) -> None:
    kept = Kept(quick, context, "delta", "bad", **{"sequence_by": "n", **rules})
    with pytest.raises(HeadwaterError) as caught:
        kept.step(quick.createDataFrame([row], ddl))
    assert caught.value.code is code
    assert said in str(caught.value) and "headwater.yml:7 tables.customers.apply" in str(caught.value)
    assert not Path(str(kept.table.address.path)).exists() or kept.table.read().isEmpty()
