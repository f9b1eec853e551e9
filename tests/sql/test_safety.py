"""What SQL that is served to others may not do. No Spark."""

from __future__ import annotations

import pytest

from headwater.core.errors import Code
from headwater.sql.functions import SAFE
from headwater.sql.parse import parse_statement
from headwater.sql.places import InvalidSql
from headwater.sql.safety import require_read_only


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM topic('x') WHERE a IN (1, 2) AND NOT exists (SELECT 1 FROM tables.y)",
        "WITH a AS (SELECT 1 AS n) SELECT * FROM a JOIN range(10) r ON a.n = r.id",
        "SELECT CASE WHEN a THEN b END, cast(a AS decimal(10, 2)), a::string, a || b, transform(c, x -> x + 1) FROM x",
        "SELECT sum(a) OVER (PARTITION BY b), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), count(DISTINCT a) FROM x",
        "SELECT date_trunc('hour', ts), ts - interval '1 day', current_date, extract(year FROM ts) FROM x GROUP BY 1",
        "SELECT window(ts, '1 hour'), approx_count_distinct(a), from_json(b, 'x int') FROM x GROUP BY window",
        "SELECT t.z FROM x LATERAL VIEW explode(y) t AS z",
        "SELECT * FROM changes('x', 1, 2)",
        "SELECT to_utc_timestamp(a, 'UTC'), from_utc_timestamp(a, 'UTC'), localtimestamp(), shiftleft(a, 1) FROM x",
        "SELECT get_json_object(a, '$.b[*].c'), CAST(b AS STRUCT<c: INT NOT NULL COMMENT 'd'>) FROM x",
        "SELECT /*+ BROADCAST(a) */ * FROM x a JOIN y ON a.i = y.i",
        "EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1",
        "EXPLAIN EXPORT topic('x') TO DELTA 'y'",
        "SHOW TOPICS",
        "DESCRIBE HISTORY x",
    ],
)
def test_questions(sql: str) -> None:
    require_read_only(parse_statement(sql), sql)


@pytest.mark.parametrize(
    ("sql", "blamed"),
    [
        ("SELECT java_method('java.lang.System', 'getenv', 'HOME')", "java_method"),
        ("SELECT a, `reflect`('java.lang.Runtime', 'x') FROM x", "`reflect`"),
        ("SELECT system.builtin.reflect('a', 'b')", "reflect"),
        ("SELECT 1 WHERE current_user() = 'root'", "current_user"),
        ("SELECT current_database", "current_database"),
        ("SELECT session_user", "SELECT"),
        ("SELECT input_file_name() FROM x", "input_file_name"),
        ("SELECT 1 FROM x ORDER BY transform(a, y -> reflect('b', y))", "reflect"),
        ("SELECT xpath_string(a, 'b') FROM x", "xpath_string"),
        ("SELECT * FROM parquet.`/etc/x`", "parquet"),
        ("SELECT * FROM lake.sales.orders", "lake"),
        ("WITH passwd AS (SELECT 1) SELECT * FROM text.passwd", "text"),
        ("SELECT * FROM identifier('csv.`/etc/passwd`')", "identifier"),
        ("SELECT * FROM read_files('/etc/passwd')", "read_files"),
        ("SELECT * FROM stack(1, TABLE(text.`/etc/passwd`))", "TABLE"),
        ("SELECT * FROM x FOR UPDATE", "SELECT"),
        ("SELECT /*+ REPARTITION(reflect('a', 'b')) */ * FROM x", "SELECT"),
        ("SELECT TRANSFORM(a) USING 'cat' FROM x", "a) USING"),
        ("INSERT INTO tables.x VALUES (1)", "INSERT"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE"),
        ("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT java_method('a', 'b')", "java_method"),
        ("DROP MATERIALIZED VIEW v", "DROP"),
        ("REFRESH MATERIALIZED VIEW v", "REFRESH"),
        ("EXPORT topic('x') TO DELTA 'y'", "EXPORT"),
        ("SET headwater.engine = spark", "SET"),
    ],
)
def test_anything_else_is_refused_at_its_place(sql: str, blamed: str) -> None:
    with pytest.raises(InvalidSql) as caught:
        require_read_only(parse_statement(sql), sql)
    assert caught.value.code is Code.NOT_ALLOWED
    assert caught.value.problem.where is not None
    column = caught.value.problem.where.column
    assert column is not None and sql[column - 1 :].startswith(blamed)


def test_a_very_long_statement_is_refused() -> None:
    sql = f"SELECT '{'a' * 100_000}'"
    with pytest.raises(InvalidSql, match="characters at most"):
        require_read_only(parse_statement(sql), sql)


def test_every_function_on_the_list_may_be_called() -> None:
    refused: dict[str, str] = {}
    for name in SAFE:
        for count in range(6):
            sql = f"SELECT {name}({', '.join('abcdef'[:count])}) FROM x"
            try:
                require_read_only(parse_statement(sql), sql)
            except InvalidSql as error:
                if error.code is Code.NOT_ALLOWED:
                    refused.setdefault(name, str(error))
            else:
                refused.pop(name, None)
                break
    assert not refused


def test_what_sqlglot_stumbles_over_is_refused() -> None:
    sql = "SELECT regexp_replace(a, b) FROM x"
    with pytest.raises(InvalidSql, match="can't be translated"):
        require_read_only(parse_statement(sql), sql)
