"""Small batches appended without Spark are what Spark would have appended."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.core.model import CommitTag
from headwater.core.spec import ParquetOptions
from headwater.formats.base import Capability
from tests.conformance.lab import PEOPLE, Lab, rows, schema, weighed
from tests.conformance.test_writing import ANN, BOB, CYD, TYPES, full_rows

GIVEN = [Capability.APPEND, Capability.COMMIT_TAGS]
HAD = [*GIVEN, Capability.NATIVE_APPEND]
"""For tests that a format may pass by refusing."""


def batch(values: Iterable[tuple[Any, ...]], ddl: str = PEOPLE) -> pa.Table:
    """Rows as the driver has them after it has collected a small frame."""
    wanted = to_arrow_schema(schema(ddl))
    columns = list(zip(*values, strict=True)) or [()] * len(wanted)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, wanted, strict=True)]
    return pa.Table.from_arrays(arrays, names=wanted.names)


def step(number: int, flow: str = "topics.x/odd name's") -> CommitTag:
    return CommitTag(flow, 1, number, {"offset": number})


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_each_side_sees_the_others_steps(lab: Lab) -> None:
    table = lab.table()
    native = lab.native(table)
    first = native.append(batch([ANN]), step(0))
    assert table.landed(step(0)) == first == table.version() == native.version()
    assert table.append(lab.frame([ANN]), step(0)) == first
    second = table.append(lab.frame([BOB]), step(1))
    assert native.append(batch([BOB]), step(1)) == second
    third = native.append(batch([CYD]), step(2))
    assert native.append(batch([CYD]), step(2)) == third and native.append(batch([ANN]), step(0)) == first
    assert lab.native(table).append(batch([CYD]), step(2)) == third
    assert table.landed(step(3)) is None and table.landed(CommitTag("topics.x/odd name's", 2, 0)) is None
    assert rows(table.read()) == rows(lab.frame([ANN, BOB, CYD]))
    told = [(c.version, c.rows_added, c.commit_tag) for c in table.history() if c.commit_tag is not None]
    assert told == [(third, 1, step(2)), (second, 1, step(1)), (first, 1, step(0))]


@pytest.mark.capability(Capability.NATIVE_APPEND, given=[*GIVEN, Capability.CHANGES])
def test_changes_and_old_versions(lab: Lab) -> None:
    table = lab.table()
    native = lab.native(table)
    start = table.append(lab.frame([ANN]))
    middle = native.append(batch([BOB, CYD]), step(0))
    end = native.append(batch([]), step(1))
    assert table.landed(step(1)) == end == table.version()
    assert rows(table.read(middle)) == rows(lab.frame([ANN, BOB, CYD]))
    assert weighed(table.changes(start, end)) == rows(lab.frame([BOB, CYD]))
    assert weighed(table.changes(middle, end)) == Counter()


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_every_type_comes_back_and_is_found_by_its_value(lab: Lab) -> None:
    """Files are skipped by their statistics: a bound that is a little off would hide a row."""
    table = lab.table(TYPES)
    native = lab.native(table)
    values = lab.frame(full_rows(), TYPES)
    collected = pa.Table.from_batches(values._collect_as_arrow())
    native.append(collected.slice(0, 1), step(0))
    native.append(collected.slice(1), step(1))
    assert rows(table.read()) == rows(values)
    found = table.read()
    full = values.limit(1).collect()[0]
    names = ("t", "i1", "i2", "i4", "i8", "f4", "f8", "n", "s", "b", "d", "ts")
    filters = {name: F.col(name) == F.lit(full[name]) for name in names}
    filters["NaN is larger than any number"] = F.expr("f8 > 1e300")
    filters["between"] = F.expr("n > 12345678901234567890.123456788 AND n < 12345678901234567890.123456790")
    filters["nested"] = F.expr("st.y.z = 'z'")
    hits = [found.where(condition).select(F.lit(what).alias("what")) for what, condition in filters.items()]
    assert sorted(row.what for row in reduce(DataFrame.union, hits).collect()) == sorted(filters)


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_exact_bounds_inside_structs_and_of_long_texts(lab: Lab) -> None:
    ddl = "id int, s struct<n:decimal(30,10),f:double>, long string, n decimal(15,3)"
    table = lab.table(ddl)
    n, long, fifteen = Decimal("12345678901234567890.1234567891"), "z" * 500, Decimal("999999999999.999")
    lab.native(table).append(batch([(1, {"n": n, "f": float("nan")}, long, fifteen)], ddl), step(0))
    found = table.read()
    assert found.where(f"s.n = {n}").count() == found.where("s.f > 1").count() == 1
    assert found.where(F.col("long") == long).count() == found.where(f"n = {fifteen}").count() == 1


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_columns_go_by_name_at_every_depth(lab: Lab) -> None:
    ddl = "id int, name string, s struct<a:int,b:struct<c:string,d:int>>, l array<struct<x:int,y:int>>"
    table = lab.table(ddl)
    given = pa.table(
        {
            "l": pa.array([[{"y": 2, "x": 1}, None]], pa.list_(pa.struct([("y", pa.int32()), ("x", pa.int32())]))),
            "s": pa.array([{"b": {"d": 7}, "a": 1}]),
            "id": pa.array([5], pa.int32()),
        }
    )
    lab.native(table).append(given, step(0))
    assert rows(table.read()) == rows(lab.frame([(5, None, (1, (None, 7)), [(1, 2), None])], ddl))


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_what_does_not_fit_is_refused_and_nothing_written(lab: Lab) -> None:
    table = lab.table("id int, s struct<a:int>")
    native = lab.native(table)
    inner = pa.array([{"a": 1, "aa": 2}], pa.struct([("a", pa.int32()), ("aa", pa.int32())]))
    for given, told in (
        (pa.table({"id": [1], "idd": [1]}), "did you mean 'id'"),
        (pa.table({"s": inner}), "no column 'aa'"),
        (pa.table({"id": [2**31]}), "'id'"),
        (pa.table({"id": ["one"]}), "'id'"),
    ):
        with pytest.raises(HeadwaterError) as caught:
            native.append(given, step(0))
        assert caught.value.code is Code.SCHEMA_MISMATCH and told in str(caught.value)
    assert table.read().count() == 0 and table.landed(step(0)) is None


@pytest.mark.capability(Capability.NATIVE_APPEND, given=[*GIVEN, Capability.PARTITION, Capability.ADD_COLUMNS])
def test_partitions_and_added_columns(lab: Lab) -> None:
    ddl = "id int, day date, tenant string, n int, ok boolean"
    table = lab.table(ddl, partition_by=["day", "tenant", "n", "ok"])
    native = lab.native(table)
    values = [
        (1, date(2026, 1, 1), "a", 7, True),
        (2, date(2026, 1, 2), "a/b=c %d:é", -1, False),
        (3, None, None, None, None),
        (4, date(2026, 1, 1), "a", 7, True),
    ]
    native.append(batch(values, ddl), step(0))
    table.append(lab.frame(values, ddl), step(1))
    assert rows(table.read()) == rows(lab.frame([*values, *values], ddl))
    assert table.read().where("tenant = 'a/b=c %d:é' and day = '2026-01-02'").count() == 2
    wider = f"{ddl}, extra struct<x:int>"
    table.evolve(schema(wider))
    native.append(batch([(5, date(2026, 1, 1), "a", 7, True, {"x": 1})], wider), step(2))
    assert table.read().where("extra.x = 1").count() == 1 and table.read().count() == 9
    live = [(f.partition["tenant"], f.rows) for f in table.files()]
    assert sum(rows or 0 for _, rows in live) == 9 and {tenant for tenant, _ in live} == {"a", "a/b=c %d:é", None}


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_two_engines_at_once_lose_nothing(lab: Lab) -> None:
    table = lab.table("id int")
    failures: list[BaseException] = []

    def spark_side() -> None:
        for i in range(8):
            table.append(lab.frame([(i,)], "id int"), CommitTag("spark", 1, i))

    def native_reader() -> None:
        native = lab.native(table)
        for i in range(30):
            native.append(batch([(1000 + i,)], "id int"), CommitTag("light", 1, i))

    def guarded(work: Any) -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (spark_side, native_reader)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = sorted(row.id for row in table.read().collect())
    assert found == [*range(8), *range(1000, 1030)]


@pytest.mark.capability(Capability.NATIVE_APPEND, given=GIVEN)
def test_a_table_made_again_under_a_warm_handle(lab: Lab) -> None:
    table = lab.table()
    native = lab.native(table)
    for i in range(3):
        native.append(batch([ANN]), step(i))
    table.drop()
    with pytest.raises(HeadwaterError) as caught:
        native.append(batch([ANN]), step(3))
    assert caught.value.code is Code.NO_SUCH_RELATION
    again = lab.open(table.address)
    again.create(schema("id int, other string"))
    for i in range(4):
        again.append(lab.frame([(i, "x")], "id int, other string"), CommitTag("g", 1, i))
    native.append(batch([(9, "y")], "id int, other string"), step(0))
    assert again.read().count() == 5 and again.landed(step(0)) == again.version()


@pytest.mark.capability(Capability.NATIVE_APPEND, given=[*GIVEN, Capability.COMPACT])
def test_codecs_and_compaction(lab: Lab) -> None:
    for codec in ("none", "snappy", "gzip", "lz4", "zstd"):
        table = lab.table(parquet=ParquetOptions.model_validate({"compression": codec, "dictionary": False}))
        lab.native(table).append(batch([ANN]), step(0))
        assert rows(table.read()) == rows(lab.frame([ANN])), codec
    lab.native(table).append(batch([BOB]), step(1))
    table.compact()
    lab.native(table).append(batch([CYD]), step(2))
    assert rows(table.read()) == rows(lab.frame([ANN, BOB, CYD]))


@pytest.mark.capability(Capability.UPSERT, given=HAD)
def test_beside_updates_and_deletes(lab: Lab) -> None:
    for options in ({}, dict(lab.fmt.merge_on_read)):
        expected: list[tuple[Any, ...]] = [BOB]
        table = lab.table(keys=["id"], options=options)
        table.upsert(lab.frame([ANN, BOB]))
        table.upsert(lab.deletes([(1, None, None, True)]))
        with suppress(Unsupported):  # exact or refused
            lab.native(table).append(batch([CYD]), step(0))
            expected = [BOB, CYD]
        assert rows(table.read()) == rows(lab.frame(expected))
        table.upsert(lab.deletes([(2, None, None, True)]))
        assert rows(table.read()) == rows(lab.frame(expected[1:]))


@pytest.mark.capability(Capability.APPEND, given=HAD)
def test_odd_names_are_exact_or_refused(lab: Lab) -> None:
    for ddl in ("`a.b` int, `select` double, `Größe` decimal(20,2)", "`a b` int, `c,d` double, `e=f` decimal(20,2)"):
        table = lab.table(ddl)
        value = (1, float("nan"), Decimal("123456789012345678.25"))
        expected = 0
        with suppress(Unsupported):
            lab.native(table).append(batch([value], ddl), step(0))
            expected = 1
        assert rows(table.read()) == rows(lab.frame([value] * expected, ddl))
        last = f"`{table.schema().names[-1]}`"
        assert table.read().where(f"{last} = 123456789012345678.25").count() == expected


@pytest.mark.capability(Capability.APPEND, given=HAD)
def test_times_at_the_edges_of_a_file(lab: Lab) -> None:
    ddl = "ts timestamp, plain timestamp_ntz"
    table = lab.table(ddl)
    stamp = datetime(2026, 3, 29, 1, 30, 0, 999_999)
    old = datetime(1969, 12, 31, 23, 59, 59, 999_999)
    expected = 0
    with suppress(Unsupported):
        given = [(t.replace(tzinfo=timezone.utc), t) for t in (old, stamp)]
        lab.native(table).append(batch(given, ddl), step(0))
        expected = 1
    for t in (old, stamp):
        for name, kind in (("ts", "TIMESTAMP"), ("plain", "TIMESTAMP_NTZ")):
            assert table.read().where(f"{name} = {kind}'{t}'").count() == expected, (name, t)
