"""What native readers tell of a table is what Spark tells; where a format does not say that it can, it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from headwater.core.errors import Unsupported
from headwater.core.model import CommitTag, TableStats
from headwater.formats.base import Capability, Lookup
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable
from headwater.schema.columns import TableColumn, columns_of
from tests.conformance.lab import Lab
from tests.conformance.test_writing import ANN, BOB, CYD, TYPES, full_rows

STEPS = [CommitTag("topics.people", 1, step, {"source": {"batch": step}}) for step in range(3)]


def spark_columns(table: SparkTable) -> tuple[TableColumn, ...]:
    return columns_of(json.loads(table.schema().json()))


ASKED: dict[Lookup, tuple[Callable[[NativeTable], Any], Callable[[SparkTable], Any]]] = {
    Lookup.HISTORY: (
        lambda table: [table.history(), table.history(1), [table.committed_at(c.version) for c in table.history()]],
        lambda table: [table.history(), table.history(1), [table.committed_at(c.version) for c in table.history()]],
    ),
    Lookup.LANDED: (
        lambda table: [table.landed(step) for step in STEPS],
        lambda table: [table.landed(step) for step in STEPS],
    ),
    Lookup.SCHEMA: (lambda table: table.columns(), spark_columns),
    Lookup.LAYOUT: (lambda table: table.layout(), lambda table: table.layout()),
    Lookup.FILES: (
        lambda table: sorted(table.files(), key=lambda file: file.path),
        lambda table: sorted(table.files(), key=lambda file: file.path),
    ),
    Lookup.STATS: (lambda table: comparable(table.stats()), lambda table: comparable(table.stats())),
}


def comparable(stats: TableStats) -> TableStats:
    """Without what is an estimate, and with moments as moments: Spark gives them in this machine's zone, unnamed."""
    columns = tuple(replace(one, distinct=None, min=moment(one.min), max=moment(one.max)) for one in stats.columns)
    return replace(stats, columns=columns)


def moment(value: Any) -> Any:
    # By name: NaN is not even itself.
    return repr(value.astimezone(timezone.utc) if isinstance(value, datetime) else value)


def same_answers(lab: Lab, table: SparkTable) -> None:
    for lookup, (native, spark) in ASKED.items():
        if lookup in lab.fmt.lookups:
            assert_same(native(lab.native(table)), spark(table), lookup)
        else:
            with pytest.raises(Unsupported):
                native(lab.native(table))
    assert lab.native(table).exists()


def assert_same(told: Any, by_spark: Any, lookup: Lookup) -> None:
    if isinstance(told, TableStats):
        for one, other in zip(told.columns, by_spark.columns, strict=True):
            assert one == other
    assert told == by_spark, lookup


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.APPEND])
def test_a_table_that_grows(lab: Lab) -> None:
    table = lab.table("id int, name string, amount decimal(12,2), day date", partition_by=["day"])
    same_answers(lab, table)
    days = [datetime(2026, 1, day).date() for day in (1, 2)]
    ddl = "id int, name string, amount decimal(12,2), day date"
    table.append(lab.frame([(*ANN, days[0]), (*BOB, days[1])], ddl), STEPS[0])
    table.append(lab.frame([(*CYD, None)], ddl), STEPS[1])
    same_answers(lab, table)


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.APPEND, Capability.PARTITION])
def test_partitions_of_several_types(lab: Lab) -> None:
    ddl = "id int, word string, ok boolean, small smallint, number bigint"
    table = lab.table(ddl, partition_by=["word", "ok", "small", "number"])
    rows = [
        (1, "a/b c=d%", True, 5, 2**40),
        (2, "longer than seven", False, -3, -1),
        (3, None, None, None, None),
        (4, "Straße", True, 0, 0),
    ]
    table.append(lab.frame(rows, ddl), STEPS[0])
    same_answers(lab, table)


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.REPLACE])
def test_a_table_that_was_replaced(lab: Lab) -> None:
    table = lab.table()
    table.append(lab.frame([ANN, BOB]), STEPS[0])
    table.replace(lab.frame([CYD]), STEPS[1])
    same_answers(lab, table)


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.APPEND])
def test_every_type(lab: Lab) -> None:
    table = lab.table(TYPES)
    table.append(lab.frame(full_rows(), TYPES))
    same_answers(lab, table)


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.UPSERT])
def test_a_table_by_keys(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([ANN, BOB, CYD]), STEPS[0])
    table.upsert(lab.deletes([(1, None, None, True), (2, "Bobby", None, False)]), STEPS[1])
    table.compact()
    same_answers(lab, table)


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.APPEND, Capability.ADD_COLUMNS, Capability.EXPIRE])
def test_a_table_that_has_changed_and_forgotten(lab: Lab) -> None:
    table = lab.table()
    for step in STEPS[:2]:
        table.append(lab.frame([ANN]), step)
    wider = "id int, name string, amount decimal(12,2), place struct<city: string, `at`: timestamp>"
    from tests.conformance.lab import schema

    table.evolve(schema(wider))
    table.append(lab.frame([(1, "Eve", None, ("Ulm", None))], wider), STEPS[2])
    table.expire(datetime.now(timezone.utc))
    same_answers(lab, table)
