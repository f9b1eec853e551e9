"""Statements on a lake: queries, time travel, views, what is there, and errors at their place."""

from __future__ import annotations

import pytest

from headwater.api.lake import Lake
from tests.sql.lab import Bench


def test_rows_at_versions_and_between_them(bench: Bench) -> None:
    first, last = bench.versions()
    assert len(bench.rows(f"SELECT * FROM topic('events') VERSION AS OF {first}")) == 2
    later = f"SELECT event_id FROM topics.events VERSION AS OF {last}"
    earlier = f"SELECT event_id FROM topics.events VERSION AS OF {first}"
    assert bench.rows(f"{later} EXCEPT {earlier};") == [{"event_id": "e3"}]
    changes = bench.rows(f"SELECT event_id, _weight FROM changes('topics.events', {first}, {last})")
    assert changes == [{"event_id": "e3", "_weight": 1}]
    assert len(bench.rows("SELECT * FROM changes('events', NULL)")) == 3


def test_a_label_stands_for_a_version(bench: Bench) -> None:
    first, _ = bench.versions()
    told = bench.do("topic", "tag", "events", "audit", "--version", str(first), "--json")
    assert told.code == 0, told.err
    assert told.json["version"] == first
    assert len(bench.rows("SELECT * FROM events VERSION AS OF 'audit'")) == 2
    assert bench.rows("SELECT event_id FROM changes('events', 'audit')") == [{"event_id": "e3"}]
    problem = bench.refused("SELECT * FROM topic('events') VERSION AS OF 'adit'")
    assert (problem["code"], problem["hint"]) == ("NO_SUCH_VERSION", "did you mean 'audit'?")
    assert problem["column"] == 15
    problem = bench.refused("SELECT *\nFROM topic('events') VERSION AS OF 99")
    assert (problem["code"], problem["line"], problem["column"]) == ("NO_SUCH_VERSION", 2, 36)
    problem = bench.refused("SELECT * FROM changes('events', 0, 99)", "--engine", "spark")
    assert (problem["code"], problem["column"]) == ("NO_SUCH_VERSION", 15)


@pytest.mark.parametrize("sql", ["SELECT * FROM changes('events')", "SELECT * FROM topic(events)"])
def test_what_a_name_is_asked_by_is_pointed_at(bench: Bench, sql: str) -> None:
    problem = bench.refused(sql)
    assert (problem["code"], problem["line"], problem["column"]) == ("INVALID_SQL", 1, 15)


@pytest.mark.parametrize("engine", ["spark", "duckdb"])
def test_a_name_inside_of_a_query_stays_inside(bench: Bench, engine: str) -> None:
    sql = """WITH e AS (SELECT event_id FROM events WHERE amount > 5)
        SELECT count(*) AS n FROM (WITH e AS (SELECT * FROM events) SELECT event_id FROM e) JOIN e USING (event_id)"""
    assert bench.rows(sql, "--engine", engine, "--limit", "5") == [{"n": 1}]
    sql = "SELECT (WITH e AS (SELECT 7 AS x) SELECT max(x) FROM e) AS n, (SELECT count(*) FROM events) AS m"
    assert bench.rows(f"WITH e AS (SELECT 1 AS x) {sql}, x FROM e", "--engine", engine, "--limit", "5") == [
        {"n": 7, "m": 3, "x": 1}
    ]


def test_windows_of_time(bench: Bench) -> None:
    sql = (
        "SELECT window.start AS start, count(*) AS n FROM events GROUP BY window(event_timestamp, '1 hour') ORDER BY 1"
    )
    assert bench.rows(sql) == [{"start": "2026-01-05T08:00:00Z", "n": 2}, {"start": "2026-01-05T09:00:00Z", "n": 1}]


def test_a_view_by_statements(bench: Bench) -> None:
    create = """CREATE MATERIALIZED VIEW hourly AS
        SELECT date_trunc('hour', event_timestamp) AS hour, count(*) AS n FROM topic('events') GROUP BY 1
        WITH (refresh = 'incremental', interval = '5 minutes');"""
    (plan, *_) = bench.rows(f"EXPLAIN {create}")
    assert "kept incrementally" in plan["plan"]
    (made,) = bench.rows(create)
    assert (made["view"], made["refresh_type"]) == ("hourly", "full")
    assert bench.rows("SELECT n FROM mv('hourly') ORDER BY hour") == [{"n": 2}, {"n": 1}]
    (view,) = bench.rows("SHOW VIEWS")
    assert (view["name"], view["refresh"]) == ("hourly", "periodic, incremental")
    assert [row["column"] for row in bench.rows("DESCRIBE views.hourly")] == ["hour", "n"]
    assert bench.rows("REFRESH MATERIALIZED VIEW hourly")[0]["refresh_type"] == "none"
    assert "hourly: kept incrementally" in bench.rows("EXPLAIN MATERIALIZED VIEW hourly")[0]["plan"]
    assert bench.refused(create)["code"] == "ALREADY_EXISTS"
    assert bench.rows("DROP MATERIALIZED VIEW hourly")[0]["dropped"]
    assert bench.refused("SELECT * FROM mv('hourly')")["code"] == "UNKNOWN_REFERENCE"
    assert not bench.rows("DROP MATERIALIZED VIEW IF EXISTS hourly")[0]["dropped"]


def test_rows_are_inserted_by_key(bench: Bench) -> None:
    assert bench.rows("INSERT INTO tables.countries VALUES ('no', 'Norway'), ('se', 'Sverige')")[0]["rows"] == 2
    assert bench.rows("INSERT INTO table('countries') (name, code) SELECT 'Sweden', 'se'")[0]["rows"] == 1
    rows = bench.rows("SELECT * FROM countries WHERE code IN ('no', 'se') ORDER BY code")
    assert rows == [{"code": "no", "name": "Norway"}, {"code": "se", "name": "Sweden"}]
    problem = bench.refused("INSERT INTO countries SELECT 1")
    assert (problem["code"], problem["column"]) == ("SCHEMA_MISMATCH", 13)
    assert bench.refused("INSERT INTO topics.events SELECT 1")["code"] == "USAGE"


def test_what_is_there(bench: Bench) -> None:
    (topic,) = bench.rows("SHOW TOPICS")
    assert (topic["name"], topic["from"], topic["format"]) == ("events", "landing", "delta")
    assert [row["name"] for row in bench.rows("SHOW TABLES")] == ["countries"]
    assert bench.rows("SHOW EXPORTS") == []
    columns = {row["column"]: row["type"] for row in bench.rows("DESCRIBE topic('events')")}
    assert columns["event_timestamp"] == "timestamp"


def test_who_may_only_read_is_told_no_folder_of_the_machine(bench: Bench) -> None:
    (topic,) = bench.rows("SHOW TOPICS", "--read-only")
    assert topic["location"] == "topics/events" and str(bench.root) in bench.rows("SHOW TOPICS")[0]["location"]
    (table,) = bench.rows("SHOW TABLES", "--read-only")
    assert table["location"] == "tables/countries"
    statements = ["DESCRIBE events", "DESCRIBE HISTORY events", "SHOW VIEWS", "SHOW EXPORTS"]
    statements += [f"{word} SELECT user FROM events WHERE amount > 1" for word in ("EXPLAIN", "EXPLAIN ANALYZE")]
    statements += ["EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT user FROM events", "SELECT * FROM nowhere"]
    statements += ["SELECT * FROM events VERSION AS OF 99", "SELECT * FROM changes('events', 0, 99)"]
    for statement in statements:
        for engine in ("auto", "spark"):
            answer = bench.do("query", statement, "--read-only", "--engine", engine)
            assert str(bench.root) not in answer.out + answer.err, statement


def test_an_export_is_checked_and_explained(bench: Bench) -> None:
    export = (
        "EXPORT topic('events') TO ICEBERG 'rest://catalog/namespace/events' PARTITIONED BY (date(event_timestamp))"
        " WITH (format = 'parquet', compression = 'zstd');"
    )
    told = {row["property"]: row["value"] for row in bench.rows(f"EXPLAIN {export}")}
    assert told == {
        "export": "topic('events')", "format": "iceberg", "catalog": "catalog (rest)", "namespace": "namespace",
        "table": "events", "mode": "snapshot", "partition_by": "date(event_timestamp)", "compression": "zstd",
    }  # fmt: skip
    assert bench.refused(export.replace("ICEBERG", "ICEBERK"))["hint"] == "did you mean 'iceberg'?"
    assert bench.refused(export.replace("('events')", "('event')"))["hint"] == "did you mean 'events'?"
    assert bench.refused(export.replace("zstd", "brotli"))["code"] == "UNSUPPORTED"
    problem = bench.refused(export.replace("(event_timestamp)", "(event_time)"))
    assert (problem["code"], problem["hint"]) == ("UNKNOWN_COLUMN", "did you mean 'event_type'?")


NOON = "write 2026-10-17 or 2026-10-17 12:30:00"


@pytest.mark.parametrize(
    ("sql", "code", "hint", "caret"),
    [
        ("SELECT *\nFROM topic('evnts')", "UNKNOWN_REFERENCE", "did you mean 'events'?", "topic('evnts'"),
        ("SELECT * FROM table('events')", "UNKNOWN_REFERENCE", "did you mean topic('events')?", "table('events'"),
        ("SELECT event_id,\n  amout + 1 FROM events", "UNKNOWN_COLUMN", "did you mean 'amount'?", "amout"),
        ("SELECT e.usr FROM events e", "UNKNOWN_COLUMN", "did you mean 'user'?", "e.usr"),
        ("SELECT lenth(user) FROM events", "UNKNOWN_FUNCTION", "did you mean 'length'?", "lenth(user"),
        ("SELECT amount + array(1) FROM events", "INVALID_SQL", None, "amount + array(1)"),
        ("SELECT 1 FROM\n  Topics.EVENTS", "UNKNOWN_REFERENCE", "did you mean 'events'?", "EVENTS"),
        ("SELECT 1 FROM events VERSION AS OF -1", "INVALID_SQL", None, "1"),
        ("SELECT 1\nFROM events TIMESTAMP AS OF 'noon'", "INVALID_VALUE", NOON, "'noon'"),
    ],
)
def test_errors_point_into_the_statement(bench: Bench, sql: str, code: str, hint: str | None, caret: str) -> None:
    problem = bench.refused(sql)
    assert (problem["code"], problem["hint"]) == (code, hint)
    line, under = problem["excerpt"].split("\n")
    assert line[under.index("^") :].startswith(caret.split("\n")[0])
    assert problem["line"] == sql[: sql.index(caret)].count("\n") + 1
    shown = bench.do("query", sql)
    assert shown.code == 2
    assert under.strip() in shown.err


def test_what_spark_says_is_told_without_its_plan(bench: Bench) -> None:
    message = bench.refused("SELECT event_type, amount FROM events GROUP BY event_type")["message"]
    assert message.startswith("[MISSING_AGGREGATION]") and message.endswith("is returned.") and "#" not in message


def test_a_query_is_explained(bench: Bench) -> None:
    lines = [row["plan"] for row in bench.rows("EXPLAIN SELECT user FROM events WHERE amount > 5")]
    assert lines[0].startswith("engine: duckdb")
    assert any(line.startswith("topics.events: delta") for line in lines)
    assert any(line.strip().startswith("columns") and "2 of" in line for line in lines)
    spark = [row["plan"] for row in bench.rows("EXPLAIN ANALYZE SELECT count(*) FROM events", "--engine", "spark")]
    assert spark[0] == "engine: spark (it was asked for)"
    problem = bench.refused("EXPLAIN SELECT usr FROM events")
    assert (problem["code"], problem["column"]) == ("UNKNOWN_COLUMN", 16)


def test_settings_last_as_long_as_the_lake(bench: Bench) -> None:
    with Lake.open(bench.root) as lake:
        assert lake.sql("SET headwater.stale").rows() == [{"name": "headwater.stale", "value": "refresh"}]
        lake.sql("SET headwater.stale = serve")
        assert {"name": "headwater.stale", "value": "serve"} in lake.sql("SET").rows()
    assert bench.refused("SET headwater.stall = serve")["hint"] == "did you mean 'headwater.stale'?"
    assert bench.refused("SET headwater.stale = maybe")["code"] == "INVALID_VALUE"
    assert bench.rows("SET headwater.engine", "--set", "headwater.engine=spark")[0]["value"] == "spark"


def test_read_only(bench: Bench) -> None:
    assert len(bench.rows("SELECT * FROM events", "--read-only")) == 3
    assert bench.refused("INSERT INTO tables.countries VALUES ('x', 'y')", "--read-only")["code"] == "NOT_ALLOWED"
    assert bench.refused("SELECT java_method('a', 'b')", "--read-only")["code"] == "NOT_ALLOWED"


def test_an_on_query_view_is_refreshed_when_it_is_read(bench: Bench) -> None:
    bench.rows("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM countries WITH (max_staleness = '1 ms')")
    (before,) = bench.rows("SELECT n FROM mv('total')")
    bench.rows("INSERT INTO countries VALUES ('dk', 'Danmark')")
    (after,) = bench.rows("SELECT n FROM mv('total')")
    bench.rows("DROP MATERIALIZED VIEW total")
    assert after["n"] == before["n"] + 1
