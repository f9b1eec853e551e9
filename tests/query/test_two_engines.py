"""One answer, whichever engine gives it: queries at random and by hand, over every type, on both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from headwater.core.model import Kind
from headwater.query.duckdb.translation.terms import Refused
from headwater.query.engines import answer
from headwater.schema.arrow import as_spark
from headwater.spark.session import fork
from headwater.warehouse import Warehouse
from tests.query.comparing import differences
from tests.query.generating import Generator
from tests.query.lab import OTHERS, THINGS, fill, others, project, things

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = 240
LEAST_FAST = 0.9
"""The share of the generated queries that DuckDB has to answer: else the comparison proves little."""

NAMED = [
    "SELECT count(*), count(i), sum(i), min(s), max(dt), avg(e), count(DISTINCT u) FROM things",
    "SELECT u, count(1) FROM things GROUP BY u",
    "SELECT id, i + 1, i * j, id = 3, i <> 3, NOT bo, bo AND true, st.x, arr[0], upper(u), length(s) FROM things",
    "SELECT things.id, things.st.y, 'text', 7, true, cast(i AS string), abs(i), i IS NULL, i IS NOT NULL FROM things",
    "SELECT date_trunc('hour', ts), year(dt), coalesce(i, 0), - i, i / 2, i % 2 FROM things",
    "SELECT * FROM things",
    "SELECT ID, things.Dec, St.X, ID + 1, count(Bo) OVER () AS N FROM things",
    "SELECT Q.Id, count(*) FROM (SELECT iD, I AS Other FROM things) q GROUP BY q.ID",
    "SELECT K, a.V AS w FROM others a JOIN (SELECT j AS k, id FROM things) b USING (K)",
    "SELECT t.*, o.v FROM things t JOIN others o ON t.j = o.k",
    "SELECT * FROM others a JOIN (SELECT j AS k, id FROM things) b USING (k)",
    "SELECT * FROM others a FULL JOIN (SELECT j AS k, id FROM things) b USING (k)",
    "SELECT id AS a, a + 1 AS b, b * 2 AS c FROM things",
    "SELECT upper(u) AS u, count(*) AS n FROM things GROUP BY u",
    "SELECT u AS v, count(*) AS n FROM things GROUP BY v HAVING n > 3 AND v IS NOT NULL",
    "SELECT bo, sum(i) AS i FROM things GROUP BY bo ORDER BY i",
    "SELECT i FROM things UNION ALL SELECT l FROM things",
    "SELECT id FROM things ORDER BY dec DESC NULLS LAST, id LIMIT 7 OFFSET 2",
    "SELECT id FROM things WHERE d > 5 OR d <> 1",
    "SELECT id FROM things WHERE NOT d <= 5",
    "SELECT id, d FROM things WHERE ts > now() - interval '1 hour' OR dt >= current_date - interval '3650 days'",
    "SELECT id FROM things VERSION AS OF 1",
    "SELECT id, st FROM things VERSION AS OF 3 EXCEPT SELECT id, st FROM things VERSION AS OF 2",
    "WITH a AS (SELECT id, i FROM things), b AS (SELECT i, count(*) AS n FROM a GROUP BY i) "
    "SELECT a.id, b.n FROM a LEFT JOIN b ON a.i <=> b.i",
    "SELECT id FROM things v0 WHERE EXISTS (SELECT 1 FROM others o WHERE o.k = v0.j AND o.v > 500)",
    "SELECT id, (SELECT max(v) FROM others) AS most FROM things WHERE i > (SELECT min(k) FROM others)",
    "SELECT 1 AS one, 'x' AS x, 2.50 AS d, 1e3 AS e, NULL = 1 AS n, DATE '2024-02-29' AS day",
    "SELECT count(*) AS n FROM things WHERE 1 = 0",
    "SELECT id, avg(dec) OVER (PARTITION BY u ORDER BY id) AS a, f > 0.5 AS b, coalesce(dec, 0) AS c FROM things",
    "SELECT sum(i) AS s, max(s) AS m, count(i) AS c FROM things WHERE id < 0",
]

DIFFERENT = [
    "SELECT dec / fine AS x FROM things", "SELECT cast(s AS int) AS x FROM things",
    "SELECT cast(d AS string) AS x FROM things",
    "SELECT cast(ts AS string) AS x FROM things", "SELECT substring(s, 0, 2) AS x FROM things",
    "SELECT log(e) AS x FROM things",
    "SELECT substring(s, -2) AS x FROM things", "SELECT left(s, -1) AS x FROM things",
    "SELECT reverse(s) AS x FROM things",
    "SELECT regexp_replace(s, '(a)', '$1$1') AS x FROM things", "SELECT percentile(i, 0.5) AS x FROM things",
    "SELECT s RLIKE 'a$' AS x FROM things", "SELECT s LIKE 'a\\%' AS x FROM things", "SELECT cast('2024' AS date) AS x",
    "SELECT array_distinct(arr) AS x FROM things", "SELECT to_json(st) AS x FROM things",
    "SELECT first(s) AS x FROM things",
    "SELECT months_between(dt, day) AS x FROM things", "SELECT dt - day AS x FROM things",
    "SELECT id = '3' AS x FROM things",
    "SELECT date_format(ts, 'SSS') AS x FROM things", "SELECT collect_list(i) AS x FROM things", "SELECT rand() AS x",
    "SELECT explode(arr) AS x FROM things", "SELECT to_utc_timestamp(ts, 'Asia/Tokyo') AS x FROM things",
    "SELECT round(e, -1) AS x FROM things", "SELECT j IN (SELECT k FROM others) AS x FROM things",
    "SELECT current_user() AS x",
    "SELECT id + 1 IN (1, 2) FROM things", "SELECT u FROM things GROUP BY ALL",
    "SELECT count(DISTINCT i, j) AS x FROM things",
    "SELECT * FROM things TABLESAMPLE (10 PERCENT)", "SELECT id FROM things, LATERAL explode(arr)",
    "SELECT m FROM things UNION SELECT m FROM things",
]  # fmt: skip


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int) -> Iterator[Warehouse]:
    warehouse = project(tmp_path_factory.mktemp("engines"), "delta")
    rows = things(seed, 80)
    fill(warehouse, "things", THINGS, [rows[:30], rows[30:60], rows[60:]])
    fill(warehouse, "others", OTHERS, [others(seed, 25)])
    yield warehouse
    warehouse.close()


@pytest.fixture(scope="module")
def reference(lake: Warehouse) -> SparkSession:
    """One session for all queries: the tables as views of it, without codegen."""
    session = fork(lake.spark)
    for name in ("things", "others"):
        lake.rows(Kind.TABLE, name, session).cache().createTempView(name)
    return session


def by_spark(session: SparkSession, sql: str) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    df = session.sql(sql)
    schema = to_arrow_schema(df.schema)
    table = pa.Table.from_batches(df._collect_as_arrow(), schema=schema)
    return as_spark(table.to_reader()).read_all()


def test_generated_queries_have_one_answer(lake: Warehouse, reference: SparkSession, seed: int) -> None:
    generator = Generator(seed)
    fast, wrong, refused = 0, [], []
    for _ in range(QUERIES):
        sql = generator.query()
        try:
            found = answer(lake, sql, engine="duckdb").arrow()
        except Refused as error:
            refused.append(f"{error.reason}: {sql}")
            continue
        fast += 1
        different = differences(found, by_spark(reference, sql), sql)
        if different:
            wrong.append("\n".join([sql, *different[:3]]))
    assert not wrong, f"HEADWATER_SEED={seed}\n" + "\n\n".join(wrong[:5])
    assert fast >= LEAST_FAST * QUERIES, "\n".join(refused[:10])


@pytest.mark.parametrize("sql", NAMED)
def test_names_types_and_rows_are_sparks(lake: Warehouse, sql: str) -> None:
    fast = answer(lake, sql, engine="duckdb")
    slow = answer(lake, sql, engine="spark")
    assert not differences(fast.arrow(), slow.arrow(), sql)
    assert fast.schema == slow.schema
    assert fast.versions == slow.versions


def test_what_differs_is_not_for_duckdb(lake: Warehouse) -> None:
    taken = []
    for sql in DIFFERENT:
        try:
            answer(lake, sql, engine="duckdb")
            taken.append(sql)
        except Refused:
            continue
    assert not taken


def test_what_duckdb_can_not_finish_is_answered_by_spark(lake: Warehouse) -> None:
    result = answer(lake, "SELECT id, big + big AS x, upper(s) AS y FROM things ORDER BY id")
    assert result.engine == "spark"
    assert "DuckDB could not finish it" in result.reason
    rows = result.rows()
    assert len(rows) == 80
    assert {row["x"] for row in rows} > {-2, 0}  # 2 * (2^63 - 1) wraps around in Spark


def test_a_result_in_every_shape(lake: Warehouse) -> None:
    result = answer(lake, "SELECT id, ts, dec, m, st FROM things WHERE id < 40 ORDER BY id")
    assert result.engine == "duckdb" and "without Spark" in result.reason
    assert result.columns == ["id", "ts", "dec", "m", "st"]
    assert result.arrow().num_rows == len(result.rows()) == len(result.pandas()) == result.polars().height == 40
    assert [row["id"] for row in result] == list(range(40))
    assert sum(batch.num_rows for batch in result.batches()) == 40
    assert result.df().count() == 40
    spark = answer(lake, "SELECT id, ts, dec, m, st FROM things WHERE id < 40 ORDER BY id", engine="spark")
    assert spark.schema == result.schema
    assert spark.rows() == result.rows()
    assert answer(lake, "SELECT id FROM things WHERE id < 0", engine="spark").arrow().num_rows == 0
