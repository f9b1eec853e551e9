"""Values and statements at the edges: what can be shown is shown, alike by every way, and the rest has its error."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError
from tests.support import Answer, headwater

PROJECT = "name: edges\nsources: {a: {type: append}}\ntopics: {days: {from: a}}\n"


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("edges")
    (found / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def lake(root: Path) -> Iterator[Lake]:
    with Lake.open(root) as opened:
        opened.topic("days").append([{"id": 1, "name": "a"}])
        yield opened


def ask(root: Path, sql: str, *options: str) -> Answer:
    return headwater("query", sql, *options, "--project", root)


def problem(root: Path, sql: str, *options: str) -> dict[str, Any]:
    """What the command says is wrong."""
    answer = ask(root, sql, "--json", *options)
    assert answer.code in (1, 2) and "Traceback" not in answer.err, (sql[:100], answer)
    found: dict[str, Any] = json.loads(answer.err[answer.err.index("{") :])["errors"][0]
    return found


SHOWN: list[tuple[str, Any, Any]] = [
    ("array()", [], []),
    ("map()", {}, {}),
    ("array(array())", [[]], [[]]),
    ("named_struct('x', map())", {"x": {}}, {"x": {}}),
    ("map('k', array())", {"k": []}, {"k": []}),
    ("map(1, map())", {1: {}}, {"1": {}}),
    ("array(NULL)", [None], [None]),
    ("map_from_arrays(array(), array())", {}, {}),
    ("map(struct(1), 2)", [({"col1": 1}, 2)], [[{"col1": 1}, 2]]),
    ("map(array(1), 2)", [([1], 2)], [[[1], 2]]),
    ("array(map(struct(1), 2))", [[({"col1": 1}, 2)]], [[[{"col1": 1}, 2]]]),
    ("interval '1' day", datetime.timedelta(days=1), 86400.0),
    ("interval '106751991' day", datetime.timedelta(days=106751991), 9223372022400.0),
    ("cast(interval '1' month AS string)", "INTERVAL '1' MONTH", "INTERVAL '1' MONTH"),
    ("cast(make_date(20000, 1, 1) AS string)", "+20000-01-01", "+20000-01-01"),
    ("cast(date_add(date'9999-12-31', 1) AS string)", "+10000-01-01", "+10000-01-01"),
    ("cast(date_add(date'0001-01-01', -1) AS string)", "0000-12-31", "0000-12-31"),
    ("date'9999-12-31'", datetime.date(9999, 12, 31), "9999-12-31"),
    ("date'0001-01-01'", datetime.date(1, 1, 1), "0001-01-01"),
    ("timestamp_ntz'9999-12-31 23:59:59.999999'", datetime.datetime.max, None),
    ("cast('1' || repeat('0', 37) AS decimal(38, 0))", None, "1" + "0" * 37),
    ("cast(1 AS decimal(38, 38)) IS NULL", True, True),
]
"""An expression, its value in Python and in JSON; None: not looked at."""


def test_edge_values_are_shown(root: Path, lake: Lake) -> None:
    sql = "SELECT " + ", ".join(f"{expression} AS c{at}" for at, (expression, *_) in enumerate(SHOWN))
    (row,) = lake.sql(sql).rows()
    found = ask(root, sql, "--output", "json").json[0]
    for at, (expression, value, in_json) in enumerate(SHOWN):
        assert value is None or row[f"c{at}"] == value, expression
        assert in_json is None or found[f"c{at}"] == in_json, expression
    for output in ("table", "csv", "ndjson"):
        assert ask(root, sql, "--output", output).code == 0, output
    assert not ask(root, f"EXPLAIN ANALYZE {sql}").code


BEYOND = [
    ("make_date(20000, 1, 1)", "+20000-01-01"),
    ("date_add(date'9999-12-31', 1)", "+10000-01-01"),
    ("date_sub(date'0001-01-01', 1)", "0000-12-31"),
    ("date'9999-12-31' + interval '1' day", "+10000-01-01"),
    ("add_months(date'9999-12-31', 1)", "+10000-01-31"),
    ("cast('-0044-03-15' AS date)", "-0044-03-15"),
    ("timestamp_seconds(999999999999)", "+33658-09-27T01:46:39Z"),
    ("timestamp_seconds(-99999999999)", "-1199-02-15T14:13:21Z"),
    ("timestamp_micros(9223372036854775807)", "+294247-01-10T04:00:54.775807Z"),
    ("timestamp_ntz'9999-12-31 23:59:59.999999' + interval '1' day", "+10000-01-01T23:59:59.999999"),
    ("array(date_add(date'9999-12-31', 1))", ["+10000-01-01"]),
    ("named_struct('d', date_add(date'9999-12-31', 1))", {"d": "+10000-01-01"}),
    ("map('k', array(date_add(date'9999-12-31', 1)))", {"k": ["+10000-01-01"]}),
    ("map(date_add(date'9999-12-31', 1), 1)", {"+10000-01-01": 1}),
]
"""What Python has no value for, and how programs and people read it."""


def test_times_beyond_python_are_shown_as_text(root: Path, lake: Lake) -> None:
    sql = "SELECT " + ", ".join(f"{expression} AS c{at}" for at, (expression, _) in enumerate(BEYOND))
    (row,) = ask(root, sql, "--output", "json").json
    for at, (expression, text) in enumerate(BEYOND):
        assert row[f"c{at}"] == text, expression
    for output in ("table", "csv"):
        assert "+20000-01-01" in ask(root, sql, "--output", output).out
    assert lake.sql(sql).arrow().num_rows == 1


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_times_beyond_python_are_an_error_there(root: Path, lake: Lake, engine: Any) -> None:
    """Both engines say the same of values that are known only when the rows are read."""
    day = "date_add(date'9999-12-31', cast(id AS int))"
    sql = f"SELECT id, {day} AS d FROM topic('days')"
    with pytest.raises(HeadwaterError, match=r"'d' .*\+10000-01-01.*VALUE_OUT_OF_RANGE"):
        lake.sql(sql, engine=engine).rows()
    assert [row["d"] for row in ask(root, sql, "--output", "json", "--engine", engine).json] == ["+10000-01-01"]
    for changed in (f"cast({day} AS string)", f"date_format({day}, 'yyyy-MM-dd')"):
        rows = lake.sql(f"SELECT {changed} AS d FROM topic('days')").rows()
        assert rows == [{"d": "+10000-01-01"}], changed


UNSHOWN = {
    "interval '1' month": "UNSUPPORTED",
    "make_interval(1)": "UNSUPPORTED",
    "make_interval(0, 0, 0, 1)": "UNSUPPORTED",
    "array(interval '1' year)": "UNSUPPORTED",
    "named_struct('a', make_interval(1))": "UNSUPPORTED",
    "map(1, interval '1-2' year to month)": "UNSUPPORTED",
    "struct()": "UNSUPPORTED",
    "'\ud800'": "INVALID_SQL",
    "'\udc41x'": "INVALID_SQL",
    "{{ 0.1BD": "INVALID_SQL",
}


def test_what_no_result_holds_is_said(root: Path, lake: Lake) -> None:
    for expression, code in UNSHOWN.items():
        for engine in ("auto", "spark"):
            found = problem(root, f"SELECT {expression} AS a", "--engine", engine)
            assert found["code"] == code and found["hint"], (expression, found)
        with pytest.raises(HeadwaterError) as caught:
            lake.sql(f"SELECT {expression} AS a").rows()
        assert str(caught.value.code) == code, expression
        assert not set(problem(root, f"EXPLAIN ANALYZE SELECT {expression}") if code == "INVALID_SQL" else ())  - {
            "code", "message", "file", "line", "path", "hint", "column", "excerpt"
        }  # fmt: skip


def chain(word: str, parts: int, one: str = "1") -> str:
    return f" {word} ".join([one] * parts)


DEEP = {
    "+": f"SELECT {chain('+', 5000)}",
    "||": "SELECT " + chain("||", 5000, "'a'"),
    "AND": "SELECT 1 WHERE " + chain("AND", 5000, "1 = 1"),
    "OR": "SELECT id FROM topic('days') WHERE " + chain("OR", 3000, "id = 1"),
    "UNION": chain("UNION ALL", 1000, "SELECT 1 AS a"),
    "(": "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "abs(": "SELECT " + "abs(" * 3000 + "1" + ")" * 3000,
    "CASE": "SELECT " + "CASE WHEN true THEN " * 2000 + "1" + " END" * 2000,
    "NOT": "SELECT " + "NOT " * 3000 + "true",
    "-": "SELECT " + "- " * 3000 + "1",
    "[0]": "SELECT array(1)" + "[0]" * 3000,
    ".": "SELECT a" + ".b" * 3000,
    "::": "SELECT 1" + "::int" * 3000,
    "array<": "SELECT cast(NULL AS " + "array<" * 1000 + "int" + ">" * 1000 + ")",
    "FROM (": "SELECT * FROM (" * 300 + "SELECT 1 AS a" + ")" * 300,
    "lambda": "SELECT " + "transform(array(1), x -> " * 300 + "1" + ")" * 300,
    "JOIN": "SELECT 1 AS a FROM (SELECT 1 AS a) t" + " JOIN (SELECT 1 AS a) t USING (a)" * 1000,
}


@pytest.mark.parametrize("form", DEEP)
def test_depth_is_bounded(root: Path, lake: Lake, form: str) -> None:
    """Before any engine is asked: by the same error for each."""
    sql = DEEP[form]
    for options in ((), ("--engine", "spark"), ("--engine", "duckdb"), ("--read-only",)):
        assert problem(root, sql, *options)["code"] == "QUERY_TOO_DEEP", (form, options)
    for before in ("EXPLAIN ", "EXPLAIN ANALYZE ", "EXPLAIN CREATE MATERIALIZED VIEW v AS "):
        assert problem(root, before + sql)["code"] == "QUERY_TOO_DEEP", (form, before)
    with pytest.raises(HeadwaterError, match="QUERY_TOO_DEEP"):
        lake.sql(sql)


def test_what_is_long_and_not_deep_is_answered(root: Path, lake: Lake) -> None:
    for sql, rows in {
        "SELECT 1 + " + chain("+", 300): [{"a": 301}],
        "SELECT 1 AS a WHERE " + chain("AND", 300, "1 = 1"): [{"a": 1}],
        "SELECT 1 AS a WHERE 5 IN (" + ", ".join(map(str, range(50_000))) + ")": [{"a": 1}],
        f"SELECT count(*) AS a FROM topic('days') WHERE id IN ({', '.join(map(str, range(50_000)))})": [{"a": 1}],
        "SELECT sum(a) AS a FROM VALUES " + ", ".join(["(1)"] * 5000) + " AS v(a)": [{"a": 5000}],
    }.items():
        found = [{"a": value} for row in lake.sql(sql).rows() for value in row.values()]
        assert found == rows, sql[:60]


@pytest.mark.parametrize("rest", [" /* */ ; --x", "; -- x", " ; /* x */ ;", ";;", "/* x */", "\n--x\n;\n--y", " -- ;"])
def test_comments_and_semicolons_around_a_statement(root: Path, lake: Lake, rest: str) -> None:
    for statement in ("SELECT 1 AS a", "EXPLAIN SELECT 1 AS a", "EXPLAIN ANALYZE SELECT 1 AS a", "SHOW TOPICS"):
        answer = ask(root, statement + rest, "--read-only")
        assert answer.code == 0, (statement, rest, answer.err)
    assert lake.sql("/* a */ -- b\n SELECT 1 AS a" + rest).rows() == [{"a": 1}]
    assert problem(root, "; --x" + rest)["code"] == "INVALID_SQL"


def test_limits_of_any_size(root: Path, lake: Lake) -> None:
    sql = "SELECT id FROM topic('days')"
    assert ask(root, sql, "--limit", "0", "--output", "json").json == []
    assert ask(root, sql, "--limit", str(2**31 - 1), "--output", "json").json == [{"id": 1}]
    for engine in ("auto", "duckdb", "spark"):
        for limit in ("-1", str(2**31), "9" * 20):
            assert ask(root, sql, f"--limit={limit}", "--engine", engine).code == 2, limit
    for wrong in (-1, 2**31, 10**30):
        with pytest.raises(HeadwaterError, match="INVALID_VALUE"):
            lake.sql(sql, limit=wrong)
    for written in (str(2**31), "9" * 20, "-1", "1.5", "1e3", "NULL"):
        for engine in ("auto", "spark"):
            answer = ask(root, f"{sql} LIMIT {written}", "--engine", engine)
            assert answer.code in (0, 1, 2) and "INTERNAL" not in answer.err, (written, answer)
    for timeout in ("99999999999999999999", "1e400", "²", "-1", "99999999999d", "9" * 400):
        answer = ask(root, sql, f"--timeout={timeout}")
        assert "INTERNAL" not in answer.err and "Traceback" not in answer.err, (timeout, answer)


def test_versions_and_times_of_any_size(root: Path, lake: Lake) -> None:
    moments = [
        "VERSION AS OF " + "9" * 30,
        "VERSION AS OF " + "9" * 5000,
        "VERSION AS OF '" + "9" * 30 + "'",
        "TIMESTAMP AS OF '9999-12-31T23:59:59-23:00'",
        "TIMESTAMP AS OF '0001-01-01T00:00:00+23:00'",
    ]
    for moment in moments:
        for engine in ("auto", "spark"):
            answer = ask(root, f"SELECT id FROM topic('days') {moment}", "--engine", engine)
            assert "INTERNAL" not in answer.err and "Traceback" not in answer.err, (moment[:50], answer)
    for ends in ("0, " + "9" * 30, "'0001-01-01T00:00:00+23:00'"):
        answer = ask(root, f"SELECT id FROM changes('days', {ends})")
        assert "INTERNAL" not in answer.err, answer.err


ODD = [
    "regexp_extract(name, '(', 1)",
    "regexp_extract(name, '[a', 0)",
    "name RLIKE '('",
    "regexp_replace(name, '*', 'b')",
    "isnull()",
    "isnotnull()",
    "mean()",
    "some()",
    "every()",
    "cardinality()",
    "weekday()",
    "now(1)",
    "current_timestamp(3)",
    "current_date(1)",
    "isnull(id, id)",
    "mean(id, id)",
    "NULL - interval '1' day",
    "interval '1' hour + NULL",
    "CAST(NULL AS date) + interval '1' week",
    "date_add(NULL, 1)",
    "date_add(date'2026-01-01', NULL)",
    "1e400",
    "-1e400",
    "1e-400",
    "to_date(name, 'nonsense')",
    "from_utc_timestamp(timestamp'2026-01-01', 'Nowhere/Land')",
    "timestamp_millis(9223372036854775807)",
    "make_dt_interval(999999999999)",
]
"""What one engine or the other can't do, or has nothing to do it with."""


def test_both_engines_say_the_same_of_odd_calls(root: Path, lake: Lake) -> None:
    """DuckDB leaves to Spark what it can't translate; what it does translate has Spark's rows."""
    different = {}
    for expression in ODD:
        sql = f"SELECT {expression} AS a FROM topic('days')"
        found = [ask(root, sql, "--engine", engine, "--output", "json") for engine in ("auto", "spark")]
        for answer in found:
            assert "INTERNAL" not in answer.err and "Traceback" not in answer.err, (expression, answer.err)
        if len({(answer.code, answer.out) for answer in found}) > 1:
            different[expression] = found
    assert different == {}
    log = root / ".headwater" / "logs" / "headwater.log"
    assert not log.exists() or '"defect"' not in log.read_text(encoding="utf-8")
