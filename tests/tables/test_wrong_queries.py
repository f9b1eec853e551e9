"""Queries of tables that are wrong: the message points to the line of the user's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import headwater
from tests.tables.lab import SCHEMA

PROJECT = f"""\
name: lab
sources: {{landing: {{type: files, path: ./landing, schema: "{SCHEMA}"}}}}
topics: {{events: {{from: landing}}}}
"""
WRONG = {
    "column": ("e.whoo", "there is no column 'e.whoo'; did you mean 'who'?"),
    "function": ("uper(e.who) AS x", "there is no function 'uper'; did you mean 'upper'?"),
    "types": ("e.n + array(1) AS x", "[INVALID_SQL]"),
    "twice": ("e.id", "two columns of the result have the name 'id'"),
    "reserved": ("e.n AS _hw_id", "names that begin with _hw_ are Headwater's own"),
    "void": ("array(NULL) AS x", "column 'x' is NULL in every row, and of no type; give it one"),
}


def _sql(selected: str) -> str:
    return f"    sql: |\n      SELECT e.id,\n        {selected}\n      FROM stream(topic('events')) e\n"


@pytest.mark.usefixtures("spark")
def test_a_column_that_is_not_there_is_told_with_its_line(tmp_path: Path) -> None:
    tables = "".join(f"  {name}:\n{_sql(selected)}" for name, (selected, _) in WRONG.items())
    file = "/*\nkeys: [id]\n*/\nSELECT id\nFROM stream(topic('events'))\nWHERE nn > 1\n"
    # A text that is no time would be valid at none.
    tables += "  h: {from: topic('events'), apply: {keys: [id], history: all, delete_when: null}}\n"
    tables += "  as_of:\n    sql: |\n      WITH e AS (SELECT * FROM stream(topic('events')))\n      SELECT e.id\n"
    tables += "      FROM e JOIN table('h')\n      FOR SYSTEM_TIME AS OF e.who k ON k.id = e.id\n"
    tables += "  as_cast: {sql: \"SELECT e.id FROM stream(topic('events')) e JOIN table('h')"
    tables += ' FOR SYSTEM_TIME AS OF CAST(e.who AS TIMESTAMP) k ON k.id = e.id"}\n'
    view = "views:\n  seen:\n    sql: |\n      SELECT id,\n        whom\n      FROM topic('events')\n"
    text = f"{PROJECT}tables:\n{tables}{view}"
    (tmp_path / "headwater.yml").write_text(text, encoding="utf-8")
    for folder in ("landing", "tables"):
        (tmp_path / folder).mkdir()
    (tmp_path / "tables" / "filed.sql").write_text(file, encoding="utf-8")
    (tmp_path / "landing" / "1.json").write_text('{"id": 1}\n', encoding="utf-8")
    assert headwater("check", "--project", tmp_path).code == 0
    ran = headwater("run", "--once", "--json", "--project", tmp_path)
    failed = {one["flow"]: one for one in ran.events if one["event"] == "failed"}
    assert set(failed) == {*(f"tables.{name}" for name in [*WRONG, "filed", "as_of"]), "views.seen"}
    lines = text.splitlines()
    told, line = failed["tables.as_of"], lines.index("      FOR SYSTEM_TIME AS OF e.who k ON k.id = e.id") + 1
    assert told["code"] == "INVALID_SQL" and told["error"].startswith(f"headwater.yml:{line} tables.as_of.sql: "), told
    assert "e.who is string, and no time" in told["error"] and "CAST(e.who AS TIMESTAMP)" in told["error"], told
    for name, (_, says) in WRONG.items():
        line = lines.index("      SELECT e.id,", lines.index(f"  {name}:")) + 2
        told = failed[f"tables.{name}"]
        assert told["code"] == "INVALID_SQL" and says in told["error"], told
        assert told["error"].startswith(f"headwater.yml:{line} tables.{name}.sql: "), told
        assert " pos " not in told["error"] and "\n" not in told["error"], told
    assert (
        failed["tables.filed"]["error"].startswith("tables/filed.sql:6 ") and "'nn'" in failed["tables.filed"]["error"]
    )
    line = lines.index("        whom") + 1
    assert failed["views.seen"]["error"].startswith(f"headwater.yml:{line} views.seen.sql: there is no column 'whom'")


@pytest.mark.parametrize(
    ("table", "line", "code", "says"),
    [
        (
            "  t:\n    sql: |\n      SELECT id\n      FROM stream(topic('events'))\n      WHERE n AND AND id\n",
            9,
            "INVALID_SQL",
            "near 'AND'",
        ),
        ("  t:\n    sql: |\n      SELECT id\n      FROM stream(topic('event'))\n", 8, "UNKNOWN_REFERENCE", "'events'"),
        (
            "  t:\n    sql: |\n      SELECT e.id\n      FROM stream(topic('events')) e\n"
            "      JOIN table('h') FOR SYSTEM_TIME AS OF e.at ON h.id = e.id\n"
            "  h: {from: topic('events'), apply: {keys: [id], sequence_by: at, history: all}}\n",
            9,
            "INVALID_SQL",
            "needs a name of its own",
        ),
        ("  t:\n    sql: SELECT * FROM topics.events\n    watermark: {late: drop}\n", 7, "MISSING_KEY", "'column'"),
        (
            "  t:\n    sql: SELECT * FROM topics.events\n    schema: id bigint\n",
            5,
            "INVALID_VALUE",
            "cast in the query",
        ),
        ("  t:\n    keys: [idd]\n    schema: id bigint\n", 6, "INVALID_VALUE", "did you mean 'id'?"),
        ("  t:\n    keys: [id]\n    schema: id,\n", 7, "INVALID_VALUE", "'id,' is not a schema"),
        ("  t:\n    keys: [ID]\n    schema: id bigint\n", 6, "INVALID_VALUE", "did you mean 'id'?"),
        ("  t:\n    sql: SELECT id FROM topics.events\n    keys: [Id]\n", 7, "INVALID_VALUE", "did you mean 'id'?"),
        (
            "  t: {from: topic('events'), apply: {keys: [ID], sequence_by: at}}\n",
            5,
            "INVALID_VALUE",
            "did you mean 'id'?",
        ),
        (
            "  t:\n    sql: |\n      SELECT id\n      FROM stream(topic('events'))\n      LIMIT 3\n",
            9,
            "INVALID_SQL",
            "table 't' has a LIMIT without an ORDER BY",
        ),
        (
            "  t:\n    sql: |\n      SELECT id\n      FROM topics.events\n"
            "      WHERE id IN (SELECT id FROM topics.events LIMIT 3)\n",
            9,
            "INVALID_SQL",
            "table 't' has a LIMIT without an ORDER BY",
        ),
        (
            "  t:\n    sql: |\n      SELECT id\n      FROM stream(topic('events'))\n      TABLESAMPLE (5 PERCENT)\n",
            9,
            "INVALID_SQL",
            "table 't': TABLESAMPLE gives something else each time",
        ),
        (
            "  t:\n    from: topic('events')\n    apply:\n      keys: [id]\n      sequence_by: at\n"
            "      delete_when: at < now()\n",
            10,
            "INVALID_VALUE",
            "now() depends on the time",
        ),
        (
            "  t:\n    keys: [id]\n    schema: id bigint\n    expect: {few: {check: id < 5}}\n",
            8,
            "INVALID_VALUE",
            "expectations are for tables made by `sql` or `transform`",
        ),
        (
            "  t:\n    from: topic('events')\n    apply: {keys: [id], sequence_by: at}\n"
            "    watermark: {column: at, delay: 1m}\n",
            8,
            "INVALID_VALUE",
            "a watermark is for tables made by `sql` or `transform`",
        ),
    ],
)
def test_what_can_be_known_before_is_told_by_check(tmp_path: Path, table: str, line: int, code: str, says: str) -> None:
    (tmp_path / "headwater.yml").write_text(f"{PROJECT}tables:\n{table}", encoding="utf-8")
    answer = headwater("check", "--json", "--project", tmp_path)
    assert answer.code == 2
    first = answer.json["problems"][0]
    assert (first["file"], first["line"], first["code"]) == ("headwater.yml", line, code), first
    assert says in f"{first['message']}; {first['hint']}", first


@pytest.mark.parametrize(
    ("selected", "carets", "says", "hint"),
    [
        ("rand(7) AS x", "rand", "rand() gives something else each time", "hash"),
        ("concat(who, uuid()) AS x", "uuid", "uuid() gives", "hash"),
        ("monotonically_increasing_id() AS x", "monotonically_increasing_id", "gives something else", "hash"),
        ("current_timestamp AS x", "current_timestamp", "depends on the time", "_ingested_at"),
        ("date(now()) AS x", "now", "now() depends on the time", "_ingested_at"),
        ("unix_timestamp() - unix_timestamp(at) AS x", "unix_timestamp", "depends on the time", "_ingested_at"),
        ("localtimestamp AS x", "localtimestamp", "depends on the time", "_ingested_at"),
        ("n + datediff(curdate(), DATE'today') AS x", "curdate", "depends on the time", "_ingested_at"),
        ("DATE'today' AS x", "'today'", "DATE 'today' depends on the time", "_ingested_at"),
    ],
)
def test_rows_that_a_rebuild_would_not_make_again(
    tmp_path: Path, selected: str, carets: str, says: str, hint: str
) -> None:
    table = f"  t:\n    sql: |\n      SELECT id,\n        {selected}\n      FROM stream(topic('events'))\n"
    (tmp_path / "headwater.yml").write_text(f"{PROJECT}tables:\n{table}", encoding="utf-8")
    answer = headwater("check", "--json", "--project", tmp_path)
    first = answer.json["problems"][0]
    assert answer.code == 2 and (first["file"], first["line"], first["code"]) == ("headwater.yml", 8, "INVALID_SQL")
    assert "table 't'" in first["message"] and says in first["message"] and hint in first["hint"], first
    line, under = first["excerpt"].split("\n")
    assert line[under.index("^") : under.rindex("^") + 1] == carets, first
    ran = headwater("run", "--once", "--json", "--project", tmp_path)
    assert ran.code == 2 and says in ran.err, "nothing runs"


def test_names_that_only_look_like_the_clock_are_columns(tmp_path: Path) -> None:
    names = "e.now, e.`current_date`, `rand` AS x, e.random, 'now' AS w, date(n) AS d, unix_timestamp(e.at) AS u"
    sql = f"SELECT {names} FROM stream(topic('events')) e WHERE e.uuid > DATE'2026-01-01'"
    (tmp_path / "headwater.yml").write_text(f'{PROJECT}tables:\n  t: {{sql: "{sql}"}}\n', encoding="utf-8")
    answer = headwater("check", "--json", "--project", tmp_path)
    assert answer.code == 0, answer.out


def test_a_streaming_query_has_its_checks_inside(tmp_path: Path) -> None:
    code = "from headwater import transform\n\n\n@transform(streaming=True)\ndef t(events):\n    return events\n"
    more = "    watermark: {column: at, delay: 1m}\n    expect: {few: {check: n < 5}}\n"
    text = f"{PROJECT}code: lab.py\ntables:\n  t:\n    transform: t\n{more}"
    (tmp_path / "headwater.yml").write_text(text, encoding="utf-8")
    (tmp_path / "lab.py").write_text(code, encoding="utf-8")
    found = headwater("check", "--json", "--project", tmp_path).json["problems"]
    assert [(one["code"], one["line"]) for one in found] == [("UNSUPPORTED", 8), ("UNSUPPORTED", 9)]
    assert "withWatermark" in found[0]["hint"] and "filter in the function" in found[1]["hint"]
