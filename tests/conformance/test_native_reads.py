"""The native side gives Spark's rows, without a JVM."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pyarrow as pa
import pytest

from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.formats.base import Capability
from tests.conformance.lab import PEOPLE, Lab, rows, schema
from tests.conformance.test_writing import ANN, BOB, CYD, TYPES


def native_rows(lab: Lab, reader: pa.RecordBatchReader, ddl: str) -> Counter[str]:
    """Arrow rows through the same comparison: as a Spark frame of the declared schema."""
    table = reader.read_all()
    wanted = schema(ddl)
    assert table.schema.names == wanted.names
    columns = [[_plain(value, column.type) for value in column.to_pylist()] for column in table.columns]
    return rows(lab.spark.createDataFrame(list(zip(*columns, strict=True)), wanted))


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.APPEND])
def test_the_latest_and_any_version(lab: Lab) -> None:
    table = lab.table()
    native = lab.native(table)
    assert native_rows(lab, native.read(), PEOPLE) == rows(table.read())
    first = table.append(lab.frame([ANN]))
    between = table.history(limit=1)[0].committed_at + timedelta(microseconds=500)
    table.append(lab.frame([BOB, CYD]))
    assert native.version() == table.version()
    assert native_rows(lab, native.read(), PEOPLE) == rows(table.read())
    assert native_rows(lab, native.read(first), PEOPLE) == rows(table.read(first))
    assert native.version_at(between) == table.version_at(between)
    assert native_rows(lab, native.read(columns=["amount", "id"]), "amount decimal(12,2), id int") == rows(
        table.read().select("amount", "id")
    )
    with pytest.raises(HeadwaterError) as caught:
        native.read(987_654_321)
    assert caught.value.code is Code.NO_SUCH_VERSION


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.APPEND])
def test_every_type(lab: Lab) -> None:
    from tests.conformance.test_writing import full_rows

    table = lab.table(TYPES)
    table.append(lab.frame(full_rows(), TYPES))
    reader = lab.native(table).read()
    stamp = reader.schema.field("ts").type
    assert (stamp.unit, stamp.tz) == ("us", "UTC")
    assert native_rows(lab, reader, TYPES) == rows(table.read())


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.UPSERT])
def test_after_updates_and_deletes(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([ANN, BOB, CYD]))
    table.upsert(lab.deletes([(1, None, None, True), (2, "Bobby", None, False)]))
    assert native_rows(lab, lab.native(table).read(), PEOPLE) == rows(table.read())


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.UPSERT, Capability.CHANGES_MERGE_ON_READ])
def test_merge_on_read_is_exact_or_refused(lab: Lab) -> None:
    table = lab.table(keys=["id"], options=dict(lab.fmt.merge_on_read))
    table.upsert(lab.frame([ANN, BOB, CYD]))
    table.upsert(lab.deletes([(1, None, None, True), (2, "Bobby", None, False)]))
    found: Counter[str] | None = None
    with suppress(Unsupported):
        found = native_rows(lab, lab.native(table).read(), PEOPLE)
    assert found is None or found == rows(table.read())


@pytest.mark.capability(Capability.NATIVE_READ, given=[Capability.PARTITION, Capability.ADD_COLUMNS])
def test_partitions_and_added_columns(lab: Lab) -> None:
    ddl, wider = "id int, day string", "id int, day string, extra struct<x:int>"
    table = lab.table(ddl, partition_by=["day"])
    table.append(lab.frame([(1, "01"), (2, None), (3, "a/b=c %d")], ddl))
    table.evolve(schema(wider))
    table.append(lab.frame([(4, "01", (1,)), (5, "z", None)], wider))
    assert native_rows(lab, lab.native(table).read(), wider) == rows(table.read())


def _plain(value: object, arrow_type: pa.DataType) -> object:
    """Arrow's Python values as Spark takes them: maps as dicts, timestamps without a zone, in the machine's own."""
    if value is not None and pa.types.is_map(arrow_type):
        return dict(value)  # type: ignore[call-overload]
    if hasattr(value, "tzinfo") and getattr(value, "tzinfo", None) is not None:
        return value.astimezone().replace(tzinfo=None)  # type: ignore[attr-defined]
    return value
