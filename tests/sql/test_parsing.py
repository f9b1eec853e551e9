"""Headwater's SQL, parsed: every statement, and errors that point into the text. No Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from headwater.core.errors import Code
from headwater.core.model import Kind
from headwater.core.spec import Refresh
from headwater.sql.names import Between, Reference
from headwater.sql.parse import is_complete, parse_condition, parse_query, parse_statement, split
from headwater.sql.places import InvalidSql
from headwater.sql.references import references
from headwater.sql.rewrite import with_limit, with_relations, with_versions
from headwater.sql.statements import (
    CreateView,
    Describe,
    DropView,
    Explain,
    ExplainView,
    ExportStatement,
    Insert,
    RefreshView,
    Select,
    SetOption,
    Show,
)

CREATE = """CREATE MATERIALIZED VIEW hourly_sales AS
SELECT date_trunc('hour', timestamp) AS hour, product_id, SUM(amount) AS total_sales, COUNT(*) AS transaction_count
FROM topic('sales') GROUP BY 1, 2 WITH (refresh = 'incremental', interval = '5 minutes');"""

EXPORT = (
    "EXPORT topic('events') TO ICEBERG 'rest://catalog/namespace/events' PARTITIONED BY (date(timestamp))"
    " WITH (format = 'parquet', compression = 'zstd');"
)

QUERIES = [
    "SELECT * FROM topic('events') WHERE timestamp > now() - interval '1 hour' AND user_id = 'user-123'"
    " AND event_type IN ('click', 'purchase') LIMIT 100;",
    "SELECT * FROM mv('hourly_sales') WHERE hour > now() - interval '24 hours' ORDER BY total_sales DESC LIMIT 10;",
    "SELECT * FROM topics.events TIMESTAMP AS OF '2026-10-17 00:00:00';",
    "SELECT * FROM topics.events VERSION AS OF 2 EXCEPT SELECT * FROM topics.events VERSION AS OF 1;",
    "SELECT date_trunc('hour', event_timestamp) AS hour, COUNT(*) AS order_count FROM topics.events"
    " WHERE event_type = 'OrderPlaced' AND event_date >= CURRENT_DATE - INTERVAL '7 days' GROUP BY hour ORDER BY hour;",
]


def select(sql: str) -> Select:
    return Select(sql, parse_query(sql))


def test_a_view_with_options_behind_its_query() -> None:
    made = parse_statement(CREATE)
    assert isinstance(made, CreateView)
    assert made.name == "hourly_sales"
    assert made.select.sql == CREATE[CREATE.index("SELECT") : CREATE.index(" WITH (")]
    assert made.refresh == Refresh(mode="periodic", every=timedelta(minutes=5), policy="incremental")


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_that_people_try(sql: str) -> None:
    assert parse_statement(sql) == select(sql.rstrip(";"))


def test_an_export() -> None:
    export = ExportStatement(
        Reference("events", Kind.TOPIC, line=1),
        "iceberg",
        "rest://catalog/namespace/events",
        ("date(timestamp)",),
        {"format": "parquet", "compression": "zstd"},
    )
    assert parse_statement(EXPORT) == export
    assert parse_statement(f"EXPLAIN {EXPORT}") == Explain(export)


V = Reference("v", Kind.VIEW, line=1)
X = Reference("x", Kind.TABLE, line=1)
MANUAL = Refresh(mode="manual")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("refresh materialized view v", RefreshView(V)),
        ("REFRESH MATERIALIZED VIEW mv('v') FULL", RefreshView(V, full=True)),
        ("DROP MATERIALIZED VIEW views.v", DropView(V)),
        ("drop materialized view if exists v;", DropView(V, if_exists=True)),
        ("EXPLAIN MATERIALIZED VIEW v", ExplainView(V)),
        ("EXPLAIN SELECT 1", Explain(select("SELECT 1"))),
        ("explain analyze select 1", Explain(select("select 1"), analyze=True)),
        ("SHOW TOPICS", Show(Kind.TOPIC)),
        ("SHOW TABLES", Show(Kind.TABLE)),
        ("show views", Show(Kind.VIEW)),
        ("SHOW MATERIALIZED VIEWS", Show(Kind.VIEW)),
        ("SHOW EXPORTS", Show("exports")),
        ("DESCRIBE x", Describe(Reference("x", line=1))),
        ("DESC table('x')", Describe(X)),
        ("DESCRIBE TABLE x", Describe(X)),
        ("DESCRIBE HISTORY tables.x", Describe(X, history=True)),
        ("INSERT INTO tables.x (a, b) VALUES (1, 2)", Insert(X, select("VALUES (1, 2)"), ("a", "b"))),
        ("INSERT INTO table('x') SELECT * FROM y", Insert(X, select("SELECT * FROM y"))),
        ("insert into x (select 1)", Insert(X, select("(select 1)"))),
        ("SET headwater.engine = spark", SetOption("headwater.engine", "spark")),
        ("SET headwater.engine", SetOption("headwater.engine")),
        ("SET", SetOption()),
        ("VALUES (1)", select("VALUES (1)")),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", CreateView("v", select("SELECT 1"), Refresh())),
        (
            "create materialized view if not exists v partitioned by (a, days(b)) as select * from t x"
            " with (refresh='manual', format=iceberg)",
            CreateView(
                "v", select("select * from t x"), MANUAL, if_not_exists=True, format="iceberg",
                partition_by=("a", "days(b)"),
            ),
        ),
        (
            "CREATE OR REPLACE MATERIALIZED VIEW v WITH (max_staleness='1m', partition_by='a, b') AS SELECT 1",
            CreateView(
                "v", select("SELECT 1"), Refresh(mode="on_query", max_staleness=timedelta(minutes=1)), replace=True,
                partition_by=("a", "b"),
            ),
        ),
    ],
)  # fmt: skip
def test_statements(sql: str, expected: object) -> None:
    assert parse_statement(sql) == expected


@pytest.mark.parametrize(
    "tail", ["", " t", " WHERE a", " ORDER BY a", " LIMIT 3", " JOIN y ON a = b", " UNION SELECT 2"]
)
def test_options_behind_any_query(tail: str) -> None:
    made = parse_statement(f"CREATE MATERIALIZED VIEW v AS SELECT 1 FROM topic('x'){tail} WITH (refresh = 'full')")
    assert isinstance(made, CreateView)
    assert made.select.sql == f"SELECT 1 FROM topic('x'){tail}"
    assert made.refresh.policy == "full"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT window(ts, '5 minutes') AS w, count(*) FROM x GROUP BY window(ts, '5 minutes')",
        "SELECT window.start AS s, n FROM x GROUP BY window, n",
        "SELECT a, sum(b) OVER w FROM x WINDOW w AS (PARTITION BY a)",
        "SELECT session_window(ts, '1 hour') FROM x GROUP BY session_window(ts, '1 hour')",
        "SELECT show, export, set, explain FROM x WHERE refresh = 1",
    ],
)
def test_words_that_are_names_too(sql: str) -> None:
    again = parse_query(parse_query(sql).sql(dialect="spark"))
    assert again == parse_query(sql)


@pytest.mark.parametrize("sql", ["export > 2", "show IS NULL", "set = 3", "explain LIKE 'a'", "window = 1"])
def test_conditions_begin_with_any_name(sql: str) -> None:
    assert parse_condition(sql).sql(dialect="spark") == sql


@pytest.mark.parametrize(
    ("sql", "message", "excerpt"),
    [
        ("select a b c from x", "near 'c'", "select a b c from x\n             ^"),
        ("select a,\n  (b\nfrom x", "near 'from'", "from x\n  ^^^^"),
        ("SELCT * FROM x", "did you mean SELECT?", "SELCT * FROM x\n          ^^^^"),
        ("select 'a", "not closed", "select 'a\n         ^"),
        ("select 1; select 2", "one statement at a time", "select 1; select 2\n            ^^^^^^"),
        ("drop table x", "no such statement", "drop table x\n  ^^^^"),
        ("show tabels", "TOPICS, TABLES, VIEWS, EXPORTS or SYSTEM", "show tabels\n       ^^^^^^"),
        ("create materialized view v select 1", "made AS a query", "view v select 1\n  " + " " * 27 + "^^^^^^"),
        ("create materialized view topics.v as select 1", "is not a view", "^^^^^^^^"),
        ("create materialized view v as select 1 with (refesh='full')", "did you mean 'refresh'?", "^^^^^^"),
        ("create materialized view v as select 1 with (refresh='fully')", "did you mean 'full'?", "^^^^^^^"),
        ("create materialized view v as select 1 with (refresh='periodic')", "come together", "^^^^^^^^^^"),
        ("create materialized view v as select 1 with (interval='5 parsecs')", "not a duration", "^^^^^^^^^^^"),
        ("create materialized view v as select 1 with (interval='5m'", "end with )", "'5m'\n"),
        ("export topic('x') to", "format of the copy", "^"),
        ("export topic('x') to delta 'y' with (compression='zst')", "did you mean 'zstd'?", "^^^^^"),
        ("insert into x", "here stands a query", "^"),
        ("refresh materialized view v now", "should end here", "^^^"),
        ("with a as (select 1) insert into x select * from a", "WITH stands before the SELECT", "^"),
    ],
)  # fmt: skip
def test_errors_point_into_the_text(sql: str, message: str, excerpt: str) -> None:
    with pytest.raises(InvalidSql) as caught:
        parse_statement(sql)
    problem = caught.value.problem
    assert problem.code is Code.INVALID_SQL
    assert message in str(problem)
    assert excerpt in (problem.excerpt or "")
    assert problem.where is not None and problem.where.line == (3 if "\n" in sql else 1)


@pytest.mark.parametrize("sql", ["SELECT map(a) FROM x", "SELECT " + "(" * 5000, "SELECT 1 + " * 3])
def test_what_the_parser_stumbles_over_is_an_error_of_ours(sql: str) -> None:
    with pytest.raises(InvalidSql):
        parse_statement(sql)


def test_the_caret_is_under_its_place_behind_tabs_and_in_long_lines() -> None:
    for sql in ("select\t\ta b c from x", f"select {'aaaa, ' * 60} a b c from x"):
        with pytest.raises(InvalidSql) as caught:
            parse_statement(sql)
        line, carets = (caught.value.problem.excerpt or "").split("\n")
        assert line[carets.index("^")] == "c"
        assert caught.value.problem.where is not None
        assert caught.value.problem.where.column == sql.index("c from") + 1


def test_statements_of_a_text() -> None:
    assert split("select 1; select ';' -- ;\n;; /* ; */ select 3") == ["select 1", "select ';'", "select 3"]
    assert is_complete("select 1;")
    assert not is_complete("select 1")
    assert not is_complete("select ';")


def test_what_a_query_reads() -> None:
    """A CTE's own query does not see the CTE."""
    found = references(parse_query("WITH t AS (SELECT * FROM t) SELECT * FROM t, changes('topics.x', 1, 'audit') c"))
    assert {(one.name, one.kind, one.changes) for one in found} == {
        ("t", None, None),
        ("x", Kind.TOPIC, Between(1, "audit")),
    }
    assert len(found) == 2
    hinted = parse_query("SELECT /*+ BROADCAST(a), MERGE(y) */ * FROM x a JOIN y ON a.i = y.i")
    assert [one.name for one in references(hinted)] == ["x", "y"]


def test_labels_become_versions() -> None:
    query = parse_query("SELECT * FROM topic('x') VERSION AS OF 'audit' UNION SELECT * FROM changes('y', 'a', 7)")
    versions = {"audit": 12, "a": 3}
    sql = with_versions(query, lambda _, label: versions[label]).sql(dialect="spark")
    assert sql == "SELECT * FROM TOPIC('x') VERSION AS OF 12 UNION SELECT * FROM CHANGES('y', 3, 7)"


def test_relations_are_put_in_with_their_moments() -> None:
    asked: list[tuple[str, object]] = []

    def place(reference: Reference, at: object) -> str:
        asked.append((str(reference), at))
        return f"placed_{len(asked)}"

    query = parse_query("SELECT x.a FROM topic('x') VERSION AS OF 3 JOIN mv('v') TIMESTAMP AS OF '2026-10-17' w ON a")
    assert with_relations(query, place) == "SELECT x.a FROM placed_1 AS `x` JOIN placed_2 AS w ON a"
    assert asked == [("topic('x')", 3), ("mv('v')", datetime(2026, 10, 17, tzinfo=timezone.utc))]


@pytest.mark.parametrize(
    ("sql", "limited"),
    [
        ("SELECT a FROM x", "SELECT a FROM x LIMIT 5"),
        ("SELECT a FROM x ORDER BY a LIMIT 3", "SELECT a FROM x ORDER BY a LIMIT 3"),
        ("SELECT a FROM x LIMIT 30", "SELECT * FROM (SELECT a FROM x LIMIT 30) AS limited LIMIT 5"),
    ],
)
def test_first_rows(sql: str, limited: str) -> None:
    assert with_limit(parse_query(sql), 5).sql(dialect="spark") == limited
