"""Columns added and widened, partitions of every kind."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import functions as F

from headwater.core.errors import Code, HeadwaterError
from headwater.formats.base import Capability
from headwater.formats.evolution import can_widen
from tests.conformance.lab import PEOPLE, Lab, rows, schema
from tests.hints.followed import follows

WIDENINGS: list[tuple[str, str, Any]] = [
    ("tinyint", "smallint", 7),
    ("smallint", "int", 7),
    ("int", "bigint", 7),
    ("int", "double", 7),
    ("float", "double", 0.5),
    ("decimal(5,2)", "decimal(10,2)", Decimal("1.25")),
    ("date", "timestamp", None),
]


@pytest.mark.capability(Capability.ADD_COLUMNS, given=[Capability.APPEND])
def test_columns_are_added_at_every_depth(lab: Lab) -> None:
    before = "id int, who struct<city:string>, lines array<struct<sku:string>>"
    after = "id int, who struct<city:string,zip:int>, lines array<struct<sku:string,n:int>>, extra double"
    table = lab.table(before)
    table.append(lab.frame([(1, ("Rome",), [("a",)])], before))
    table.evolve(schema(after))
    assert table.schema().simpleString() == schema(after).simpleString()
    table.append(lab.frame([(2, ("Oslo", 5), [("b", 3)], 0.5)], after))
    expected = [(1, ("Rome", None), [("a", None)], None), (2, ("Oslo", 5), [("b", 3)], 0.5)]
    assert rows(lab.open(table.address).read()) == rows(lab.frame(expected, after))


@pytest.mark.capability(Capability.ADD_COLUMNS, given=[Capability.UPSERT])
def test_a_keyed_table_takes_a_new_column(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([(1, "Ann", None), (2, "Bob", None)]))
    wider = f"{PEOPLE}, extra string"
    table.evolve(schema(wider))
    table.evolve(schema(wider))  # nothing to do the second time
    table.upsert(lab.frame([(2, "Bob", None, "e")], wider))
    assert rows(table.read()) == rows(lab.frame([(1, "Ann", None, None), (2, "Bob", None, "e")], wider))


@pytest.mark.capability(Capability.ADD_COLUMNS)
def test_a_column_that_the_new_schema_lacks_stays(lab: Lab) -> None:
    table = lab.table()
    table.evolve(schema("id int, extra string"))
    assert table.schema().names == ["id", "name", "amount", "extra"]


@pytest.mark.capability(Capability.ADD_COLUMNS, given=[Capability.APPEND])
@follows("{} widens {}; otherwise rebuild the table with the new type", here=False)
def test_a_type_is_widened_where_stated_and_else_refused(lab: Lab) -> None:
    before = ", ".join(f"v{i} {old}" for i, (old, _, _) in enumerate(WIDENINGS))
    table = lab.table(before)
    first = lab.frame([tuple(value for _, _, value in WIDENINGS)], before)
    table.append(first)
    for i, (old, new, _) in enumerate(WIDENINGS):
        kept = table.schema()[f"v{i}"].dataType
        wider = schema(f"v{i} {new}")
        if kept.simpleString() != old:
            continue  # a format without small integers keeps them as larger ones from the start
        if can_widen(lab.fmt, kept, wider[0].dataType):
            table.evolve(wider)
            assert table.schema()[f"v{i}"].dataType == wider[0].dataType
            continue
        with pytest.raises(HeadwaterError) as caught:
            table.evolve(wider)
        assert caught.value.code is Code.SCHEMA_MISMATCH and f"'v{i}'" in str(caught.value)
        assert "otherwise rebuild the table" in str(caught.value)
        assert table.schema()[f"v{i}"].dataType == kept
        assert lab.table(f"v{i} {new}").schema()[f"v{i}"].dataType == wider[0].dataType
    after = table.schema()
    table.append(lab.frame([(None,) * len(WIDENINGS)], before).select(*(F.col(f.name).cast(f.dataType) for f in after)))
    widened = first.select(*(F.col(f.name).cast(f.dataType) for f in after))
    nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in after]
    assert rows(table.read()) == rows(widened.union(widened.select(*nothing)))


@pytest.mark.capability(Capability.WIDEN_COLUMNS)
def test_some_type_can_be_widened(lab: Lab) -> None:
    assert lab.fmt.widenings, "no pair of types is stated"


@pytest.mark.capability(Capability.ADD_COLUMNS)
def test_a_type_that_narrows_is_refused(lab: Lab) -> None:
    table = lab.table("id bigint, v string")
    with pytest.raises(HeadwaterError) as caught:
        table.evolve(schema("id int, v string"))
    assert caught.value.code is Code.SCHEMA_MISMATCH


@pytest.mark.capability(Capability.PARTITION, given=[Capability.APPEND, Capability.FILES])
def test_partitions_hold_odd_and_missing_values(lab: Lab) -> None:
    ddl = "id int, day string, v double"
    values = ["2026-01-01", "01", "a/b=c %d", "ä ö", None]
    table = lab.table(ddl, partition_by=["day"])
    assert table.layout().partition_by == ("day",)
    frame = lab.frame([(i, day, 0.5) for i, day in enumerate(values)], ddl)
    table.append(frame)
    assert rows(table.read()) == rows(frame)
    assert rows(table.read().where("day = '01'")) == rows(frame.where("day = '01'"))
    assert rows(table.read().where("day IS NULL")) == rows(frame.where("day IS NULL"))
    assert {file.partition["day"] for file in table.files()} == set(values)


@pytest.mark.capability(Capability.PARTITION, given=[Capability.UPSERT])
def test_a_partitioned_table_is_upserted_by_key(lab: Lab) -> None:
    ddl = "id int, day string, v int"
    table = lab.table(ddl, keys=["day", "id"], partition_by=["day"])
    table.upsert(lab.frame([(1, "a", 1), (2, "a", 1), (1, "b", 1)], ddl))
    table.upsert(lab.deletes([(1, "a", 2, False), (1, "b", None, True), (3, "c", 3, False)], ddl))
    assert rows(table.read()) == rows(lab.frame([(1, "a", 2), (2, "a", 1), (3, "c", 3)], ddl))


@pytest.mark.capability(Capability.PARTITION_TRANSFORMS, given=[Capability.APPEND, Capability.FILES])
def test_partitions_by_expression(lab: Lab) -> None:
    ddl = "id int, at timestamp"
    table = lab.table(ddl, partition_by=["date(at)"])
    frame = lab.frame([(1, datetime(2026, 1, 1, 5)), (2, datetime(2026, 1, 1, 23)), (3, datetime(2026, 1, 2))], ddl)
    table.append(frame)
    assert rows(table.read()) == rows(frame)
    assert len({tuple(file.partition.values()) for file in table.files()}) == 2


@pytest.mark.capability(Capability.EVOLVE_PARTITIONING, given=[Capability.APPEND, Capability.FILES])
def test_partitioning_changes_for_what_comes(lab: Lab) -> None:
    table = lab.table("id int, day string")
    table.append(lab.frame([(1, "a"), (2, "b")], "id int, day string"))
    table.repartition(["day"])
    assert table.layout().partition_by == ("day",)
    table.append(lab.frame([(3, "a"), (4, "b")], "id int, day string"))
    assert rows(table.read()) == rows(lab.frame([(1, "a"), (2, "b"), (3, "a"), (4, "b")], "id int, day string"))
    assert {"a", "b"} <= {file.partition.get("day") for file in table.files()}


def test_a_column_that_is_not_there_is_named(lab: Lab) -> None:
    with pytest.raises(HeadwaterError) as caught:
        lab.table(partition_by=["nmae"], z_order_by=["idd"])
    found = [str(problem) for problem in caught.value.problems]
    assert any("no column 'nmae'; did you mean 'name'?" in text for text in found)
    assert any("'idd'" in text or "z-order" in text for text in found)
