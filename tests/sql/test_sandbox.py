"""SQL as an attacker would send it, through the public way for read-only queries: what is refused, and what is not."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.query.duckdb.instances import connect, folders_of
from headwater.query.spark.isolation import isolated
from headwater.query.spark.safety import require_quiet, require_safe_text
from headwater.spark.session import fork
from headwater.sql.dialect import Headwater
from headwater.sql.functions import SAFE
from headwater.sql.parse import parse_query
from tests.sql.lab import Bench

SECRET = "s3cret-dsn-password"
_FILE = "{file}"
"""Stands for a file with the secret in it."""

ESCAPES = f"""
SELECT * FROM stack(1, TABLE(text.`{_FILE}`))
SELECT * FROM stack(1, table(text.`{_FILE}`)) AS t(a)
SELECT * FROM stack(1, TABLE(csv.`{_FILE}`))
SELECT * FROM stack(1, TABLE(binaryFile.`{_FILE}`))
SELECT * FROM stack(1, TABLE(delta.`{_FILE}`))
SELECT * FROM stack(1, TABLE(parquet.`{_FILE}`))
SELECT * FROM stack(1, TABLE(json.`{_FILE}`))
SELECT * FROM stack(1, TABLE(SELECT * FROM text.`{_FILE}`))
SELECT * FROM stack(1, TABLE((SELECT * FROM text.`{_FILE}`)))
SELECT * FROM stack(1, TABLE(topics.events))
SELECT * FROM stack(1, TABLE(events))
SELECT * FROM explode(TABLE(text.`{_FILE}`))
SELECT * FROM inline(TABLE(text.`{_FILE}`))
SELECT * FROM range(TABLE(text.`{_FILE}`))
SELECT * FROM json_tuple(TABLE(text.`{_FILE}`), 'a')
SELECT * FROM events, LATERAL stack(1, TABLE(text.`{_FILE}`))
SELECT * FROM events LATERAL VIEW stack(1, TABLE(text.`{_FILE}`)) t AS a
SELECT (SELECT max(col0) FROM stack(1, TABLE(text.`{_FILE}`)))
SELECT 1 WHERE EXISTS (SELECT 1 FROM stack(1, TABLE(text.`{_FILE}`)))
WITH t AS (SELECT * FROM stack(1, TABLE(text.`{_FILE}`))) SELECT * FROM t
SELECT * FROM TABLE(text.`{_FILE}`)
SELECT * FROM TABLE(range(3))
SELECT * FROM TABLE(stack(1, TABLE(text.`{_FILE}`)))
EXPLAIN SELECT * FROM stack(1, TABLE(text.`{_FILE}`))
EXPLAIN ANALYZE SELECT * FROM stack(1, TABLE(text.`{_FILE}`))
EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT * FROM stack(1, TABLE(text.`{_FILE}`))
SELECT * FROM text.`{_FILE}`
SELECT * FROM TEXT.`{_FILE}`
SELECT * FROM `text`.`{_FILE}`
SELECT * FROM csv.`{_FILE}`
SELECT * FROM json.`{_FILE}`
SELECT * FROM orc.`{_FILE}`
SELECT * FROM avro.`{_FILE}`
SELECT * FROM parquet.`{_FILE}`
SELECT * FROM delta.`{_FILE}`
SELECT * FROM delta.`{_FILE}` VERSION AS OF 0
SELECT * FROM delta.`{_FILE}@v0`
SELECT * FROM iceberg.`{_FILE}`
SELECT * FROM hudi.`{_FILE}`
SELECT * FROM paimon.`{_FILE}`
SELECT * FROM binaryFile.`{_FILE}`
SELECT * FROM image.`{_FILE}`
SELECT * FROM jdbc.`{_FILE}`
SELECT * FROM spark_catalog.delta.`{_FILE}`
SELECT * FROM spark_catalog.default.events
SELECT * FROM lake.`{_FILE}`
SELECT * FROM lake.topics.events
SELECT * FROM lake.topics.events.files
SELECT * FROM paimon.topics.events
SELECT * FROM global_temp.x
SELECT * FROM system.text.`{_FILE}`
SELECT * FROM information_schema.tables
SELECT * FROM `org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`{_FILE}`
SELECT * FROM `{_FILE}`
SELECT * FROM '{_FILE}'
SELECT * FROM "{_FILE}"
FROM text.`{_FILE}` SELECT *
TABLE text.`{_FILE}`
SELECT * FROM (TABLE text.`{_FILE}`)
SELECT * FROM events UNION ALL TABLE text.`{_FILE}`
SELECT * FROM events UNION ALL SELECT * FROM text.`{_FILE}`
SELECT * FROM (SELECT * FROM text.`{_FILE}`)
SELECT * FROM events JOIN text.`{_FILE}` ON true
SELECT * FROM events, text.`{_FILE}`
SELECT * FROM events, LATERAL (SELECT * FROM text.`{_FILE}`)
SELECT * FROM events WHERE user IN (SELECT value FROM text.`{_FILE}`)
SELECT * FROM events WHERE user = (SELECT max(value) FROM text.`{_FILE}`)
SELECT * FROM events ORDER BY (SELECT max(value) FROM text.`{_FILE}`)
SELECT * FROM events PIVOT (max(amount) FOR user IN ('a')) JOIN text.`{_FILE}` ON true
SELECT sum(amount) OVER w FROM events WINDOW w AS (ORDER BY (SELECT max(value) FROM text.`{_FILE}`))
SELECT transform(array(1), x -> (SELECT max(value) FROM text.`{_FILE}`))
SELECT /*+ BROADCAST((SELECT * FROM text.`{_FILE}`)) */ * FROM events
SELECT /*+ REPARTITION((SELECT 2)) */ * FROM events
WITH text AS (SELECT 1) SELECT * FROM text.`{_FILE}`
WITH `text.{_FILE}` AS (SELECT 1) SELECT * FROM text.`{_FILE}`
WITH `text, {_FILE}` AS (SELECT 1) SELECT * FROM text.`{_FILE}`
WITH a AS (SELECT * FROM text.`{_FILE}`) SELECT 1
SELECT * FROM events -- ` */ UNION SELECT * FROM text.`{_FILE}` /*\\n UNION SELECT * FROM text.`{_FILE}`
SELECT * FROM identifier('text.`{_FILE}`')
SELECT * FROM IDENTIFIER('te' || 'xt.`{_FILE}`')
SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv')
SELECT * FROM read_files('{_FILE}')
SELECT * FROM read_csv('{_FILE}')
SELECT * FROM read_csv_auto('{_FILE}')
SELECT * FROM read_text('{_FILE}')
SELECT * FROM read_blob('{_FILE}')
SELECT * FROM read_json('{_FILE}')
SELECT * FROM read_parquet('{_FILE}')
SELECT * FROM parquet_scan('{_FILE}')
SELECT * FROM sniff_csv('{_FILE}')
SELECT * FROM glob('/etc/*')
SELECT * FROM delta_scan('{_FILE}')
SELECT * FROM iceberg_scan('{_FILE}')
SELECT * FROM sqlite_scan('{_FILE}', 'x')
SELECT * FROM postgres_query('{_FILE}', 'x')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM pragma_database_list()
SELECT * FROM pragma_table_info('x')
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('x')
SELECT * FROM table_changes('events', 0)
SELECT * FROM table_changes_by_path('{_FILE}', 0)
SELECT * FROM sql_keywords()
SELECT * FROM unnest(read_text('{_FILE}'))
SELECT getenv('HEADWATER_SECRET')
SELECT current_setting('home_directory')
SELECT getvariable('x')
SELECT set_config('a', 'b', false)
SELECT content FROM read_text('{_FILE}')
SELECT load_file('{_FILE}')
SELECT pg_read_file('{_FILE}')
SELECT java_method('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT try_reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT `reflect`('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT ReFlEcT('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT reflect /* */ ('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT `system`.`builtin`.`reflect`('java.lang.System', 'getenv', 'HEADWATER_SECRET')
SELECT spark_catalog.default.f(1)
SELECT system.builtin.current_user()
SELECT max(reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET')) FROM events
SELECT sum(1) OVER (ORDER BY reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET')) FROM events
SELECT sum(1) OVER w FROM events WINDOW w AS (ORDER BY reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET'))
SELECT transform(array(1), x -> reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET'))
SELECT aggregate(array(1), 0, (a, x) -> a, a -> reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET'))
SELECT * FROM VALUES (reflect('java.lang.System', 'getenv', 'HEADWATER_SECRET')) AS t(a)
SELECT * FROM events LATERAL VIEW explode(array(reflect('java.lang.System', 'getenv', 'X'))) t AS a
SELECT * FROM events LATERAL VIEW reflect('java.lang.System', 'getenv', 'X') t AS a
SELECT * FROM events PIVOT (max(reflect('a', 'b')) FOR user IN ('a'))
SELECT count(*) FILTER (WHERE reflect('a', 'b') = 'x') FROM events
SELECT * FROM events GROUP BY GROUPING SETS ((reflect('a', 'b')), ())
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY reflect('a', 'b')) FROM events
SELECT mask('a', upperChar => reflect('a', 'b'))
SELECT CASE WHEN reflect('a', 'b') = 'x' THEN 1 END
SELECT /*+ BROADCAST(reflect('a', 'b')) */ 1
SELECT * FROM events TABLESAMPLE (reflect('a', 'b') PERCENT)
SELECT * FROM events LIMIT reflect('a', 'b')
SELECT * FROM events VERSION AS OF reflect('a', 'b')
SELECT * FROM events VERSION AS OF (SELECT max(value) FROM text.`{_FILE}`)
SELECT * FROM events TIMESTAMP AS OF current_timestamp()
SELECT * FROM events TIMESTAMP AS OF (SELECT max(value) FROM text.`{_FILE}`)
SELECT * FROM changes('events', (SELECT 1))
SELECT * FROM changes('events', reflect('a', 'b'))
SELECT * FROM changes('events; DROP TABLE x', 1)
SELECT * FROM topic(reflect('a', 'b'))
SELECT * FROM topic('events', 'x')
SELECT * FROM topic('text.`{_FILE}`')
SELECT * FROM topic('`{_FILE}`')
SELECT * FROM stream(text.`{_FILE}`)
SELECT * FROM stream(TABLE(text.`{_FILE}`))
SELECT topic('events')
SELECT input_file_name() FROM events
SELECT input_file_block_start() FROM events
SELECT _metadata.file_path FROM events
SELECT current_user()
SELECT current_user
SELECT user()
SELECT session_user
SELECT user
SELECT USER
SELECT `user`
SELECT upper(user)
SELECT 1 WHERE user = 'root'
SELECT (SELECT user)
SELECT user FROM countries
SELECT transform(array(1), x -> user)
SELECT n FROM (SELECT user AS n) ORDER BY n
SELECT current_catalog()
SELECT current_database()
SELECT current_schema()
SELECT current_catalog
SELECT version()
SELECT spark_version()
SELECT xpath('<a/>', 'a')
SELECT xpath_string('<!DOCTYPE a [<!ENTITY x SYSTEM "file:{_FILE}">]><a>&x;</a>', 'a')
SELECT from_xml('<a/>', 'a int')
SELECT from_avro(x, 'y') FROM events
SELECT ai_query('a', 'b')
SELECT http_get('http://localhost')
SELECT secret('a', 'b')
SELECT TRANSFORM(user) USING 'cat {_FILE}' FROM events
SELECT MAP(user) USING 'cat' FROM events
FROM events MAP user USING 'cat' AS a
FROM events REDUCE user USING 'cat' AS a
FROM events INSERT INTO countries SELECT user, user
SELECT * INTO x FROM events
SELECT * FROM events FOR UPDATE
SELECT $HEADWATER_SECRET
SELECT ${{env:HEADWATER_SECRET}}
SELECT ${{spark.app.name}}
SELECT @x
SELECT @@version
SELECT :x
SELECT ?
SELECT * FROM events WHERE user = :x
SELECT * FROM events LIMIT ?
SELECT 1; SELECT * FROM text.`{_FILE}`
SELECT 1;;SELECT 2
SET spark.sql.runSQLOnFiles = true
SET headwater.engine = spark
RESET
USE lake
SHOW CATALOGS
SHOW DATABASES
SHOW FUNCTIONS
SHOW TBLPROPERTIES events
SHOW CREATE TABLE events
SHOW TABLES IN lake.topics
DESCRIBE text.`{_FILE}`
DESCRIBE delta.`{_FILE}`
DESCRIBE EXTENDED events
DESCRIBE FUNCTION reflect
DESCRIBE HISTORY delta.`{_FILE}`
DESCRIBE DETAIL delta.`{_FILE}`
CACHE TABLE x AS SELECT 1
REFRESH TABLE events
REFRESH `{_FILE}`
ANALYZE TABLE events COMPUTE STATISTICS
CALL lake.system.rollback_to_snapshot('x', 1)
CREATE TABLE x AS SELECT 1
CREATE TEMPORARY VIEW x AS SELECT 1
CREATE TEMPORARY VIEW x USING text OPTIONS (path '{_FILE}')
CREATE TEMPORARY FUNCTION f AS 'java.lang.Runtime'
CREATE MATERIALIZED VIEW v AS SELECT 1
CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1
REFRESH MATERIALIZED VIEW v
DROP MATERIALIZED VIEW v
DROP TABLE events
DELETE FROM events
UPDATE events SET user = 'x'
MERGE INTO countries USING events ON true WHEN MATCHED THEN DELETE
TRUNCATE TABLE events
ALTER TABLE events ADD COLUMN x int
INSERT INTO countries VALUES ('x', 'y')
INSERT OVERWRITE DIRECTORY '/tmp/x' USING csv SELECT 1
INSERT OVERWRITE TABLE countries SELECT 1, 2
LOAD DATA LOCAL INPATH '{_FILE}' INTO TABLE countries
EXPORT topic('events') TO DELTA '/tmp/x'
COPY events TO '/tmp/x'
ATTACH '{_FILE}' AS x
INSTALL httpfs
PRAGMA database_list
ADD JAR '/tmp/x.jar'
LIST FILES
EXPLAIN INSERT INTO countries VALUES ('x', 'y')
EXPLAIN EXTENDED SELECT 1
EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT reflect('a', 'b')
"""

_E: dict[str, Any] = {"event_id": "e1"}
ANSWERED: dict[str, list[dict[str, Any]]] = {
    # texts that Spark used to put the environment in for
    r"SELECT '${env:HEADWATER_SECRET}' AS a": [{"a": "${env:HEADWATER_SECRET}"}],
    r"SELECT '$\173env:HEADWATER_SECRET}' AS a": [{"a": "${env:HEADWATER_SECRET}"}],
    r"SELECT '$\u007Benv:HEADWATER_SECRET}' AS a": [{"a": "${env:HEADWATER_SECRET}"}],
    r"SELECT '\u0024\u007Benv:HEADWATER_SECRET}' AS a": [{"a": "${env:HEADWATER_SECRET}"}],
    r"SELECT '\044\173system:user.name}' AS a": [{"a": "${system:user.name}"}],
    r"SELECT '$\{spark.app.name}' AS a": [{"a": "${spark.app.name}"}],
    "SELECT '$' '{env:HEADWATER_SECRET}' AS a": [{"a": "${env:HEADWATER_SECRET}"}],
    "SELECT r'${env:HEADWATER_SECRET}' AS a": [{"a": "${env:HEADWATER_SECRET}"}],
    'SELECT "${env:HEADWATER_SECRET}" AS a': [{"a": "${env:HEADWATER_SECRET}"}],
    "SELECT 1 AS `${env:HEADWATER_SECRET}`": [{"${env:HEADWATER_SECRET}": 1}],
    "SELECT 'a;b' AS a, '--' AS b, '/*' AS c": [{"a": "a;b", "b": "--", "c": "/*"}],
    "SELECT 'it''s' AS a, 'TABLE(text.`x`)' AS b": [{"a": "its", "b": "TABLE(text.`x`)"}],
    "SELECT 1 AS a -- */ UNION SELECT 2": [{"a": 1}],
    "SELECT /* reflect('a', 'b') */ 1 AS a": [{"a": 1}],
    "SELECT 1 AS `reflect('a', 'b')`": [{"reflect('a', 'b')": 1}],
    "SELECT event_id FROM events WHERE user = 'a' AND amount = 5": [_E],
    "SELECT user FROM events WHERE event_id = 'e1'": [{"user": "a"}],
    "SELECT e.user, count(*) AS n FROM events e GROUP BY e.user ORDER BY n": [
        {"user": "b", "n": 1},
        {"user": "a", "n": 2},
    ],
    "SELECT x.user FROM (SELECT 'u' AS user) x": [{"user": "u"}],
    "WITH t AS (SELECT 'u' AS user) SELECT user FROM t": [{"user": "u"}],
    # names of our own, and names in other letters
    "WITH headwater_topic_events AS (SELECT 'x' AS event_id) SELECT event_id FROM events WHERE amount = 5": [_E],
    "WITH hw_topics_events AS (SELECT 'x' AS event_id) SELECT event_id FROM topic('events') WHERE amount = 5": [_E],
    "WITH headwater_topic_events AS (SELECT 'x' AS a) SELECT * FROM headwater_topic_events": [{"a": "x"}],
    "WITH t0 AS (SELECT 'x' AS c0), rows_t0 AS (SELECT 1) SELECT c0, event_id FROM t0, events WHERE amount = 5": [
        {"c0": "x", "event_id": "e1"}
    ],
    "WITH Events AS (SELECT 'mine' AS a) SELECT * FROM events": [{"a": "mine"}],
    "WITH EVENTS AS (SELECT 'mine' AS a) SELECT a FROM Events": [{"a": "mine"}],
    "WITH events AS (SELECT 'mine' AS a) SELECT event_id FROM topic('events') WHERE amount = 5": [_E],
    "WITH a AS (WITH events AS (SELECT 1 AS n) SELECT n FROM events) SELECT count(*) AS n FROM events, a": [{"n": 3}],
    "SELECT /*+ BROADCAST(e) */ event_id FROM events e WHERE amount = 5": [_E],
    "SELECT sum(amount) OVER w AS s FROM events WINDOW w AS (PARTITION BY user) ORDER BY s": [
        {"s": 6},
        {"s": 6},
        {"s": 7},
    ],
    "SELECT event_id FROM events QUALIFY row_number() OVER (ORDER BY amount DESC) = 2": [_E],
    "SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t(n, s) ORDER BY n": [{"n": 1, "s": "a"}, {"n": 2, "s": "b"}],
    "SELECT * FROM range(2) ORDER BY id": [{"id": 0}, {"id": 1}],
    "SELECT * FROM stack(2, 1, 2) AS t(a) ORDER BY a": [{"a": 1}, {"a": 2}],
    "SELECT col FROM explode(array(1, 2)) ORDER BY col": [{"col": 1}, {"col": 2}],
    "SELECT z FROM events LATERAL VIEW explode(array(1)) t AS z WHERE amount = 5": [{"z": 1}],
    "SELECT aggregate(array(1, 2), 0, (a, x) -> a + x) AS n": [{"n": 3}],
    "SELECT transform(array(1), x -> x + 1)[0] AS n": [{"n": 2}],
    "SELECT * FROM (SELECT user, amount FROM events) PIVOT (sum(amount) FOR user IN ('a', 'b'))": [{"a": 6, "b": 7}],
    "SELECT event_id FROM events VERSION AS OF {first} WHERE user = 'a'": [_E],
    "SELECT event_id FROM changes('topics.events', {first}, {second})": [{"event_id": "e3"}],
    "SELECT count(*) FILTER (WHERE amount > 4) AS n FROM events": [{"n": 2}],
    "SELECT mask('AbC1', upperChar => 'Q') AS a": [{"a": "QxQn"}],
    "SELECT e.event_id FROM events e JOIN LATERAL (SELECT e.amount AS n) t ON true WHERE n = 5": [_E],
    "SELECT event_id FROM events WHERE (user, amount) IN (SELECT max(user) AS u, 7 FROM events)": [{"event_id": "e2"}],
    "SELECT 1 AS a UNION ALL SELECT 2 EXCEPT SELECT 2": [{"a": 1}],
    "SELECT CAST('1' AS INT) + 1 AS a, X'41' = encode('A', 'UTF-8') AS b": [{"a": 2, "b": True}],
    "SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY amount DESC) AS p FROM events": [{"p": 6.0}],
    "SELECT regexp_replace('a$', '[$]', '-') AS a": [{"a": "a-"}],
}  # fmt: skip
"""What may be asked, with its rows."""


@pytest.fixture(scope="module")
def lake(bench: Bench, spark: SparkSession) -> Iterator[Lake]:
    with Lake.open(bench.root) as found:
        yield found


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("secret") / "passwd.txt"
    file.write_text(SECRET + "\n", encoding="utf-8")
    return file


def _cases() -> list[str]:
    return [line.replace("\\n", "\n") for line in ESCAPES.strip().splitlines()]


def test_escapes_are_refused(lake: Lake, secret: Path) -> None:
    """Every one of them, in either engine, and none with the secret in what it says."""
    answered: list[str] = []
    for case in _cases():
        sql = case.replace(_FILE, str(secret))
        for engine in ("auto", "spark"):
            try:
                rows = lake.sql(sql, read_only=True, engine=engine).rows()
            except UsageError as error:
                if SECRET in str(error):
                    answered.append(f"{sql}: {error}")
            except HeadwaterError as error:
                answered.append(f"{sql}: not refused, but failed: {error}")
            else:
                answered.append(f"{sql}: {str(rows)[:200]}")
    assert not answered, "\n".join(answered)
    assert len(_cases()) + len(ANSWERED) >= 250


def test_what_may_be_asked_has_the_same_rows_in_both_engines(
    lake: Lake, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_SECRET", SECRET)
    first, second = bench.versions()
    wrong: list[str] = []
    for case, rows in ANSWERED.items():
        sql = case.replace("{first}", str(first)).replace("{second}", str(second))
        for engine in ("auto", "spark"):
            try:
                found: object = lake.sql(sql, read_only=True, engine=engine).rows()
            except HeadwaterError as error:
                found = str(error)
            if found != rows:
                wrong.append(f"{engine}: {sql}: {found}")
    assert not wrong, "\n".join(wrong)


def test_a_text_that_takes_long_to_read_is_refused_before_it_is_read(lake: Lake) -> None:
    with pytest.raises(UsageError, match="100000 characters at most") as caught:
        lake.sql("SELECT (" * 20_000, read_only=True)
    assert caught.value.code is Code.NOT_ALLOWED


def test_no_query_of_others_is_analysed_in_a_runner_s_spark(lake: Lake) -> None:
    """Not even to explain a view: Spark computes rows of VALUES, limits and arguments while it analyses."""
    sql = "EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT * FROM VALUES (length(repeat('a', 2147483647))) AS t(a)"
    with isolated(lambda: lake._warehouse.project):
        with pytest.raises(UsageError, match="Spark of the runner") as caught:
            lake.sql(sql, read_only=True)
        assert caught.value.code is Code.NOT_ALLOWED
        lake.sql("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM events")


HOSTILE_TO_SPARK = """
SELECT * FROM text.`/etc/passwd`
SELECT * FROM stack(1, TABLE(text.`/etc/passwd`))
TABLE text.`/etc/passwd`
SELECT * FROM (TABLE text.`/etc/passwd`)
SELECT * FROM known WHERE a = (SELECT max(value) FROM csv.`/etc/passwd`)
SELECT * FROM IDENTIFIER('text.x')
SELECT IDENTIFIER('a')
SELECT :a
SELECT ?
SELECT reflect('a', 'b')
SELECT system.builtin.reflect('a', 'b')
SELECT sum(a) OVER (PARTITION BY reflect('a', 'b')) FROM known
SELECT sum(a) OVER w FROM known WINDOW w AS (PARTITION BY reflect('a', 'b'))
SELECT transform(a, x -> reflect('b', x)) FROM known
SELECT * FROM known LATERAL VIEW explode(array(reflect('a', 'b'))) t AS b
SELECT * FROM known LATERAL VIEW reflect(a) t AS b
SELECT * FROM VALUES (reflect('a', 'b')) AS t(a)
SELECT * FROM range(reflect('a', 'b'))
SELECT * FROM known PIVOT (max(reflect('a', 'b')) FOR b IN ('x'))
SELECT count(*) FILTER (WHERE reflect('a', 'b') = '1') FROM known
SELECT a FROM known GROUP BY GROUPING SETS ((reflect('a', 'b')), ())
SELECT a FROM known ORDER BY reflect('a', 'b')
SELECT a FROM known LIMIT reflect('a', 'b')
SELECT * FROM known, LATERAL (SELECT reflect('a', 'b'))
WITH a AS (WITH b AS (SELECT 1 UNION SELECT reflect('a', 'b')) SELECT * FROM b) SELECT * FROM a
SELECT /*+ REPARTITION(reflect('a', 'b')) */ 1
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY reflect('a', 'b'))
SELECT a FROM known DISTRIBUTE BY reflect('a', 'b')
SELECT struct(reflect('a', 'b') AS b).b
SELECT mask(a, upperChar => reflect('a', 'b'))
SELECT a LIKE ANY (reflect('a', 'b'), 'b')
SELECT trim(BOTH reflect('a', 'b') FROM b)
SELECT timestampadd(HOUR, reflect('a', 'b'), b)
SELECT TRANSFORM(a) USING 'cat' FROM known
FROM known INSERT INTO known SELECT a
SHOW TABLES
SET a=b
SELECT * FROM `text, /etc/passwd`
"""


def test_spark_s_own_reading_of_a_text_is_judged(lake: Lake) -> None:
    """The second lock alone: as if sqlglot had let all of these through."""
    session = fork(lake.spark)
    for sql in HOSTILE_TO_SPARK.strip().splitlines():
        with pytest.raises(UsageError) as caught:
            require_safe_text(session, sql, {"known", "a", "b", "text, /etc/passwd"})
        assert caught.value.code is Code.NOT_ALLOWED, sql
    require_safe_text(session, "SELECT sum(a) AS a FROM known k JOIN range(3) r ON k.a = r.id", {"known"})
    with pytest.raises(UsageError):
        require_quiet(session.sql("SELECT (SELECT max(a) FROM VALUES (1) AS t(a) WHERE user = 'x')"))
    require_quiet(session.sql("SELECT user FROM (SELECT 1 AS user)"))


def test_spark_knows_every_function_on_the_list(lake: Lake) -> None:
    session, odd = fork(lake.spark), []
    for name in sorted(SAFE):
        for count in range(1, 5):
            sql = f"SELECT {name}({', '.join('abcd'[:count])}) FROM known"
            try:
                query = parse_query(sql)
                require_safe_text(session, query.sql(dialect=Headwater, comments=False), {"known"})
            except UsageError as error:
                if error.code is Code.NOT_ALLOWED:
                    odd.append(f"{sql}: {error}")
            except (KeyError, PySparkException):
                continue  # it takes another number of arguments
    assert not odd


def test_queries_read_no_files_and_no_environment_whoever_asks(
    lake: Lake, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("text", "csv", "binaryFile"):
        with pytest.raises(HeadwaterError):
            lake.sql(f"SELECT * FROM stack(1, TABLE({kind}.`{secret}`))", engine="spark").rows()
    (row,) = lake.sql("SELECT '${system:user.name}' AS a", engine="spark").rows()
    assert row == {"a": "${system:user.name}"}
    assert lake.spark.sql("SELECT '${system:user.name}' AS a").collect()[0].a == "${system:user.name}"


def test_a_read_only_query_refreshes_a_view_only_if_it_may(bench: Bench) -> None:
    bench.rows("INSERT INTO countries VALUES ('se', 'Sverige')")
    bench.rows("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM countries WITH (max_staleness = '1 ms')")
    try:
        (before,) = bench.rows("SELECT n FROM mv('counted')")
        bench.rows("INSERT INTO countries VALUES ('zz', 'one more')")
        told = bench.refused("SELECT n FROM mv('counted')", "--read-only")
        assert told["code"] == "NOT_ALLOWED" and "--may-refresh" in told["hint"]
        bench.rows("EXPLAIN SELECT n FROM mv('counted')", "--read-only")
        served = ("--read-only", "--set", "headwater.stale=serve")
        assert bench.rows("SELECT n FROM mv('counted')", *served) == [before]
        (after,) = bench.rows("SELECT n FROM mv('counted')", "--read-only", "--may-refresh")
        assert after["n"] == before["n"] + 1
    finally:
        bench.rows("DROP MATERIALIZED VIEW counted")


def test_a_view_may_not_name_a_query_as_headwater_names_its_inputs(bench: Bench) -> None:
    query = "WITH hw_topics_events AS (SELECT 'x' AS a) SELECT count(*) AS n FROM events"
    assert "another name" in bench.refused(f"CREATE MATERIALIZED VIEW shadowed AS {query}")["hint"]


def test_duckdb_reads_the_lake_alone_and_its_settings_are_locked(
    lake: Lake, bench: Bench, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.sql("SELECT count(*) AS n FROM events", engine="duckdb").rows() == [{"n": 3}]
    files = [str(file) for file in (bench.root / "lake" / "topics" / "events").glob("*.parquet")]
    for memory in (None, 64 << 20):
        connection = connect(folders_of(str(bench.root / "lake"), files), memory).connection
        assert connection.execute(f"SELECT count(*) FROM read_parquet('{files[0]}')").fetchall()
        for sql in (
            f"SELECT * FROM read_text('{secret}')",
            f"SELECT * FROM read_csv('{bench.root}/lake/../headwater.yml')",
            f"SELECT * FROM '{secret}'",
            "SELECT * FROM glob('/etc/*')",
            f"COPY (SELECT 1) TO '{secret}'",
            f"ATTACH '{secret}'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access = true",
            "SET allowed_directories = ['/']",
            "SET lock_configuration = false",
            "SET temp_directory = '/tmp'",
            "SET memory_limit = '1TB'",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(sql).fetchall()
        ((spill,),) = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        folder = Path(spill).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.parent == Path(tempfile.gettempdir()) and folder.name.startswith("headwater-duckdb-")
    inside, outside = (
        folders_of("/lake", ["/lake/a.parquet"]),
        folders_of("/lake", ["/lakes/t/p=1/a", "/lakes/t/p=2/a"]),
    )
    assert (inside, outside) == ({"/lake/"}, {"/lake/", "/lakes/t"})
    assert folders_of("s3://bucket/lake", []) == frozenset()
