"""Tables of every format and shape, read by DuckDB as Spark reads them; one version from start to end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import Layout
from headwater.core.state import STORED
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.query.engines import answer
from headwater.warehouse import Warehouse
from tests.query.comparing import differences
from tests.query.lab import fill, project

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = (
    "id int, day date, part string, ts timestamp, amount decimal(10,2), tags array<string>, who struct<name:string>"
)


def row(n: int, part: str | None = "a b", amount: str | None = "1.50") -> tuple[Any, ...]:
    from decimal import Decimal

    return (
        n,
        date(2024, 1, 1 + n % 5),
        part,
        datetime(2024, 1, 1, n % 24, 0, 0, n, tzinfo=timezone.utc),
        None if amount is None else Decimal(amount),
        None if n % 4 == 0 else ["x", None, "é"],
        None if n % 3 == 0 else (f"n{n}",),
    )


def same(warehouse: Warehouse, sql: str) -> str:
    """Both engines give the same; what the fast one is."""
    fast, slow = answer(warehouse, sql), answer(warehouse, sql, engine="spark")
    assert not differences(fast.arrow(), slow.arrow(), sql)
    assert fast.versions == slow.versions
    return fast.engine


@pytest.fixture(params=sorted(format.name for format in FORMATS))
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Warehouse]:
    warehouse = project(tmp_path, request.param)
    yield warehouse
    warehouse.close()


def test_every_format_evolved_and_changed(lake: Warehouse) -> None:
    format = lake.format(Kind.TABLE, "things")
    keyed = format.can(Capability.UPSERT)
    layout = Layout(keys=("id",) if keyed else (), partition_by=("day",) if format.name != "paimon" else ())
    fill(lake, "things", SCHEMA, [[row(n) for n in range(8)], [row(n, None, None) for n in range(8, 12)]], layout)
    table = lake.table(Kind.TABLE, "things")
    before = answer(lake, "SELECT count(*) AS n, sum(amount) AS s FROM things WHERE day >= '2024-01-02'")
    then = datetime.now(timezone.utc)
    time.sleep(0.01)  # formats count milliseconds
    if keyed:
        changed = lake.spark.createDataFrame(
            [(*row(3, "z", "9.99"), False), (*row(5), True)], f"{SCHEMA}, _deleted boolean"
        )
        table.upsert(changed)
    else:
        table.append(lake.spark.createDataFrame([row(20, "z", "9.99")], SCHEMA))
    first = before.rows()
    assert before.rows() == first  # read again: at the same version
    wider = lake.spark.createDataFrame([(*row(30), 7)], f"{SCHEMA}, extra int")
    table.evolve(wider.schema)
    table.append(wider)
    assert same(lake, "SELECT * FROM things") == "duckdb"
    assert same(lake, "SELECT day, part, count(*) AS n, max(extra) AS e FROM things GROUP BY day, part") == "duckdb"
    (version,) = before.versions.values()
    assert same(lake, f"SELECT * FROM things VERSION AS OF {version}") == "duckdb"
    assert same(lake, f"SELECT * FROM things TIMESTAMP AS OF '{then.isoformat()}'") == "duckdb"
    earlier = answer(lake, f"SELECT * FROM things TIMESTAMP AS OF '{then.isoformat()}'")
    assert earlier.versions == before.versions and len(earlier.rows()) == 12
    moved = answer(lake, f"SELECT CAST(sum(_weight) AS INT) AS n FROM changes('things', {version})").rows()
    assert moved == [{"n": len(answer(lake, "SELECT id FROM things").rows()) - 12}]


def test_deletion_vectors_and_merge_on_read(spark: SparkSession, tmp_path: Path) -> None:
    for format, options in (
        ("delta", {"delta.enableDeletionVectors": "true"}),
        ("iceberg", {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}),
    ):
        lake = project(tmp_path / format, format)
        fill(lake, "things", SCHEMA, [[row(n) for n in range(12)]], Layout(keys=("id",), options=options))
        address = lake.address(Kind.TABLE, "things")
        name = f"delta.`{address.path}`" if format == "delta" else str(address.table)
        lake.spark.sql(f"DELETE FROM {name} WHERE id IN (2, 3, 7)")
        result = answer(lake, "SELECT id FROM things ORDER BY id")
        assert [each["id"] for each in result] == [0, 1, 4, 5, 6, 8, 9, 10, 11]
        assert result.engine == "duckdb"
        lake.close()


def test_partitions_with_odd_values(spark: SparkSession, tmp_path: Path) -> None:
    for format in ("delta", "parquet", "iceberg"):
        lake = project(tmp_path / format, format)
        parts = ["a b", "x/y=z", "100%", "é", None, "it's", "", "a:b"]
        rows = [row(n, parts[n % len(parts)]) for n in range(16)]
        fill(lake, "things", SCHEMA, [rows], Layout(partition_by=("part",)))
        assert same(lake, "SELECT id, part FROM things") == "duckdb"
        assert same(lake, "SELECT id FROM things WHERE part IN ('x/y=z', '100%') OR part IS NULL") == "duckdb"
        lake.close()


def test_a_view_is_read_as_it_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    lake = project(tmp_path, "delta")
    fill(lake, "things", SCHEMA, [[row(n) for n in range(12)]])
    record = lake.record(Kind.TABLE, "things")
    assert record is not None
    shown = f"SELECT `id`, `amount` FROM {STORED} WHERE `part` = 'a b' ORDER BY `id` DESC NULLS LAST LIMIT 5"
    lake.state.put(replace(record, hidden=("part",), shown=shown))
    assert same(lake, "SELECT * FROM things") == "duckdb"
    assert [each["id"] for each in answer(lake, "SELECT id FROM things WHERE id < 100")] == [11, 10, 9, 8, 7]
    with pytest.raises(HeadwaterError, match="no column 'part'"):
        answer(lake, "SELECT part FROM things")
    lake.close()


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet"])
def test_what_is_shown_of_a_version_before_a_column_was_added(spark: SparkSession, tmp_path: Path, format: str) -> None:
    lake = project(tmp_path, format)
    fill(lake, "things", "id int, part string", [[(1, "a"), (2, "b")]])
    table = lake.table(Kind.TABLE, "things")
    before = table.version()
    wider = lake.spark.createDataFrame([(3, "a", 7)], "id int, part string, extra int")
    table.evolve(wider.schema)
    table.append(wider)
    after = table.version()
    record = lake.record(Kind.TABLE, "things")
    assert record is not None
    lake.state.put(replace(record, hidden=("part",), shown=f"SELECT `id`, `extra` FROM {STORED} ORDER BY `id` DESC"))
    assert same(lake, "SELECT * FROM things") == "duckdb"
    assert same(lake, f"SELECT * FROM things VERSION AS OF {before}") == "duckdb"
    assert answer(lake, f"SELECT * FROM things VERSION AS OF {before}").columns == ["id"]
    with pytest.raises(HeadwaterError, match="extra"):
        answer(lake, f"SELECT extra FROM things VERSION AS OF {before}")
    changes = lake.changes(Kind.TABLE, "things", start=before, end=after).collect()
    assert [row.asDict() for row in changes] == [{"id": 3, "extra": 7, "_weight": 1}]
    lake.close()


def test_a_refreshed_view_is_seen_by_the_next_query(spark: SparkSession, tmp_path: Path) -> None:
    """The same text again and again, from kept handles, plans and prepared statements: each time what is there now."""
    (tmp_path / "headwater.yml").write_text(
        "name: seen\ntables: {things: {keys: [id], schema: 'id int, n int'}}\n"
        "views: {totals: {sql: 'SELECT count(*) AS rows, sum(n) AS n FROM things'}}\n"
    )
    sql = "SELECT rows, n FROM mv('totals')"
    with Lake.open(tmp_path) as lake:
        lake.sql("INSERT INTO things VALUES (1, 10)")
        lake.view("totals").refresh()
        first = lake.sql(sql)
        for _ in range(3):
            again = lake.sql(sql)
            assert (again.engine, again.rows()) == ("duckdb", [{"rows": 1, "n": 10}])
        lake.sql("INSERT INTO things VALUES (2, 20)")
        assert lake.sql(sql).rows() == [{"rows": 1, "n": 10}]
        lake.view("totals").refresh()
        assert lake.sql(sql).rows() == [{"rows": 2, "n": 30}]
        assert lake.sql(sql).arrow().to_pylist() == [{"rows": 2, "n": 30}]
        assert first.rows() == first.rows() == [{"rows": 1, "n": 10}]  # at the version that it began with
        assert lake.sql(sql, engine="spark").rows() == [{"rows": 2, "n": 30}]


@pytest.mark.parametrize("format", ["delta", "parquet"])
def test_a_table_made_anew_is_not_mistaken_for_the_old_one(spark: SparkSession, tmp_path: Path, format: str) -> None:
    lake = project(tmp_path, format)
    fill(lake, "things", SCHEMA, [[row(1)], [row(2)]])
    assert len(answer(lake, "SELECT id FROM things ORDER BY id", engine="duckdb").rows()) == 2
    lake.table(Kind.TABLE, "things").drop()
    fill(lake, "things", SCHEMA, [[row(7)], [row(8)]])
    assert [each["id"] for each in answer(lake, "SELECT id FROM things ORDER BY id", engine="duckdb")] == [7, 8]
    lake.close()


def test_what_is_not_there_is_said_without_spark(tmp_path: Path) -> None:
    lake = project(tmp_path, "delta")
    with pytest.raises(HeadwaterError, match="'things' has no data yet"):
        answer(lake, "SELECT * FROM things")
    with pytest.raises(HeadwaterError, match="did you mean 'things'"):
        answer(lake, "SELECT * FROM thing")
    assert lake._spark is None
    lake.close()
