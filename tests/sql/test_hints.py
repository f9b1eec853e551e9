"""What the hints of commands and statements say is done, and it helps: one project, from its first command on."""

# ruff: noqa: E501 - a case stands on as few lines as it can

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import TerminalError, UsageError
from tests.hints.followed import follows
from tests.hints.printed import pattern
from tests.support import headwater

PROJECT = """
name: shop
spark: {conf: {spark.sql.codegen.wholeStage: 'false', spark.sql.codegen.factoryMode: NO_CODEGEN}}
queries: {max_rows: 500}
sources:
  landing: {type: files, path: ./landing}
  declared: {type: files, path: ./landing, schema: "id bigint, event_date string"}
  api: {type: append}
topics:
  events: {from: landing}
  kept: {from: landing, keep_raw: true}
  renamed: {from: declared}
  rows: {from: api}
tables:
  countries: {keys: [code], schema: "code string, name string"}
  history: {from: topic('events'), apply: {keys: [id], sequence_by: _position, history: all}}
views:
  by_hand: {sql: SELECT id FROM topic('events'), refresh: {mode: manual}}
  asked: {sql: SELECT id FROM topic('events'), refresh: {mode: on_query, max_staleness: 1ms}}
"""
AS_OF = "SELECT e.id FROM topic('events') e JOIN table('history') {}"
SQL = "query --output json"
FAIL = f"{SQL} 'SELECT * FROM asked' --set headwater.stale=fail"
Edit = tuple[str, str]
BEFORE: list[tuple[str | Edit, ...]] = [
    ("name '{}' where you read it", "check", f"{SQL} 'SELECT 1 AS a'"),
    ("run it first: headwater run --once", f'{SQL} "SELECT * FROM events"', "run --once", f'{SQL} "SELECT * FROM events"'),
    ("refresh it first: headwater mv refresh {}", f'{SQL} "SELECT * FROM by_hand"', "mv refresh by_hand", f'{SQL} "SELECT * FROM by_hand"'),
    ("headwater mv refresh {}", "mv verify asked", "mv refresh asked", "mv verify asked"),
    (
        "load it first: headwater table load {} FILE",
        f'{SQL} "SELECT * FROM countries"', "table load countries countries.csv", f'{SQL} "SELECT * FROM countries"',
    ),
    (
        "append to it first: headwater topic append {} FILE",
        f'{SQL} "SELECT * FROM rows"', "topic append rows more.json", f'{SQL} "SELECT * FROM rows"',
    ),
]  # fmt: skip
"""What is told of a project that has no data yet: a hint, a command that gets it, and commands that do what it says."""
STEPS: list[tuple[str | Edit, ...]] = [
    ("a topic that takes rows has a source of `type: append`", "topic append events more.json", "topic append rows more.json"),
    (
        "join it with AND is_current",
        f'{SQL} "{AS_OF.format("FOR SYSTEM_TIME AS OF PROCTIME() h ON h.id = e.id")}"',
        f'{SQL} "{AS_OF.format("h ON h.id = e.id AND is_current")}"',
    ),
    ("give a folder, or take ICEBERG", *(f"""query "EXPLAIN EXPORT topic('events') TO {to} 'jdbc://lake/bi/events'" """ for to in ("PAIMON", "ICEBERG"))),
    ("a reference table has `keys`, and no `from`, `sql` or `transform`", "table load history countries.csv", "table load countries countries.csv"),
    (
        "say --to lake.copies.orders",
        "parquet convert events --format iceberg --to copies", "parquet convert events --format iceberg --to lake.copies.orders",
    ),
    ("say --to ./{}", "parquet convert events --to copies.events", "parquet convert events --to ./copies.events"),
    (
        "a topic can only be replayed into a table that it drives: `apply`, `sql` or a `transform` on changes; …",
        "topic replay events --into countries", "topic replay events --into history",
    ),
    (
        "`keep_raw: true` keeps them from now on; `headwater flow rebuild {} --yes` reads the …",
        "topic remap events --yes",
        ("events: {from: landing", "events: {from: landing, keep_raw: true"), "flow rebuild events --yes", "run --once", "topic remap events --yes",
    ),
    ("--dry-run shows which; confirm with --yes", ("kept: {", "kept: {filter: id > 1, "), "topic remap kept", "topic remap kept --dry-run", "topic remap kept --yes"),
    ("a letter, then letters, digits, _ . and -, 100 at most", "topic tag events '1 x'", "topic tag events x-1"),
    ("--replace moves the label", "topic tag events x-1", "topic tag events x-1 --replace"),
    ("a name is [a-z][a-z0-9_]*", "mv create My-View 'SELECT id FROM events'", "mv create mine 'SELECT id FROM events'"),
    ("--replace, or CREATE OR REPLACE, rebuilds it", "mv create mine 'SELECT id FROM events'", "mv create mine 'SELECT id FROM events' --replace", "mv create above 'SELECT id FROM mine'"),
    ("change it there", "mv create by_hand 'SELECT 1 AS a'", ("by_hand: {sql: SELECT id", "by_hand: {sql: SELECT id AS a"), "mv refresh by_hand", f"{SQL} \"SELECT a FROM mv('by_hand')\""),
    ("drop those first", "mv drop mine --yes", "mv drop above --yes", "mv drop mine --yes"),
    ("refresh it: headwater mv refresh {}", FAIL, ("max_staleness: 1ms", "max_staleness: 1h"), "mv refresh asked", FAIL),
    (
        "allow it with --may-refresh, or take the rows as they are: --set headwater.stale=serve",
        ("max_staleness: 1h", "max_staleness: 1ms"),
        f"{SQL} 'SELECT * FROM asked' --read-only", f"{SQL} 'SELECT * FROM asked' --read-only --may-refresh",
        f"{SQL} 'SELECT * FROM asked' --read-only --set headwater.stale=serve",
    ),
    ("name the columns: INSERT INTO x (a, b) …", *(f"query \"INSERT INTO countries {names} SELECT 'no'\"" for names in ("", "(code)"))),
    ("`headwater dlq list` has them", "dlq show nowhere", "dlq list"),
    ("say so with --yes", "dlq drop events", "dlq drop events --yes"),
    ("confirm with --yes; `deduplicate_by` leaves out rows that are already there", "flow reset kept", "flow reset kept --yes"),
    ("confirm with --yes", "flow rebuild kept", "flow rebuild kept --yes"),
    ("leave it out for the default", "parquet compact events --target-file-size 0", "parquet compact events"),
    ("--engine spark answers it", f"{SQL} 'SELECT soundex(\"a\") AS a' --engine duckdb", f"{SQL} 'SELECT soundex(\"a\") AS a' --engine spark"),
    ("add a LIMIT, or allow more: queries.max_rows and queries.max_bytes", f"{SQL} 'SELECT id FROM range(900)'", f"{SQL} 'SELECT id FROM range(900) LIMIT 400'", ("max_rows: 500", "max_rows: 1000"), f"{SQL} 'SELECT id FROM range(900)'"),
    ("give it a field: struct(1 AS a)", f"{SQL} 'SELECT struct() AS s' --engine spark", f"{SQL} 'SELECT struct(1 AS a) AS s' --engine spark"),
    (
        "read it as text: cast(… AS string)",
        f"{SQL} 'SELECT make_ym_interval(1, 2) AS a' --engine spark", f"{SQL} 'SELECT cast(make_ym_interval(1, 2) AS string) AS a' --engine spark",
    ),
    ("write the text in UTF-8", f"{SQL} 'SELECT \"\udcff\" AS a'", f"{SQL} 'SELECT \"ÿ\" AS a'"),
    ("leave it out to have all rows", f"{SQL} 'SELECT 1 AS a' --limit 99999999999999999999", f"{SQL} 'SELECT 1 AS a'"),
    ("leave --drop-slot out", "topic drop rows --drop-slot --yes", "topic drop rows --yes"),
    (
        "its rows were put in by hand: `headwater table drop {} --yes`, and load them again",
        ("countries: {keys: [code],", "countries: {keys: [name],"), "plan",
        "table drop countries --yes", "table load countries countries.csv",
    ),
    (
        "say which rows come first",
        ("by_hand: {sql: SELECT id AS a FROM topic('events')", "by_hand: {sql: SELECT id AS a FROM topic('events') LIMIT 2"), "check",
        ("LIMIT 2", "ORDER BY a LIMIT 2"), "check",
    ),
]  # fmt: skip
"""The same of a project that has data. A pair is a text of the project file, and what takes its place."""
NOTED = ("name '{}'", "its rows were")
"""What a command says that succeeds."""


@pytest.mark.usefixtures("spark")
@follows(*(str(hint) for hint, *_ in (*BEFORE, *STEPS) if not str(hint).startswith("its rows were")))
@follows("its rows were put in by hand: `headwater table drop {} --yes`, and load them again", here=False)
def test_what_the_hint_of_a_command_says_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    rows = "".join(json.dumps({"id": id, "event_date": "x"}) + "\n" for id in range(4))
    for name in ("landing/1.json", "more.json"):
        (tmp_path / name).write_text(rows, encoding="utf-8")
    (tmp_path / "countries.csv").write_text("code,name\nno,Norway\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for hint, *steps in (*BEFORE, *STEPS):
        wrong = True
        for step in steps:
            if isinstance(step, tuple):
                text = Path("headwater.yml").read_text(encoding="utf-8")
                assert step[0] in text, step
                Path("headwater.yml").write_text(text.replace(*step), encoding="utf-8")
                continue
            answer = headwater(*shlex.split(step))
            if wrong:
                assert bool(answer.code) is not str(hint).startswith(NOTED), (hint, step, answer)
                assert pattern(str(hint)).search(answer.out + answer.err), (hint, step, answer)
            else:
                assert answer.code == 0, (hint, step, answer.err)
            wrong = False


@pytest.mark.usefixtures("spark")
@follows(
    "auto, duckdb or spark",
    "read it as text, cast({} AS string), or in Arrow: .batches(), .to_arrow()",
    "use .to_arrow()",
    "a topic keeps what came, a view follows its query: read an earlier version of it instead",
)
def test_what_the_hint_of_a_method_says_helps(tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text("name: shop\nsources: {api: {type: append}}\ntopics: {rows: {from: api}}\n")
    with Lake.open(tmp_path) as lake:
        for number in range(2):
            assert lake.topic("rows").append({"id": number}).committed
        far = "SELECT timestamp_seconds(999999999999) AS a, date_add(date'9999-12-31', 1) AS b"
        with pytest.raises(UsageError):
            lake.sql(far, engine="dukdb")  # type: ignore[arg-type]
        for engine in ("auto", "spark"):
            result = lake.sql(far, engine=engine)
            for read in (result.to_dicts, result.to_pandas):
                with pytest.raises(TerminalError):
                    read()
            assert result.to_arrow().num_rows == len(list(result.batches())) == 1
            texts = lake.sql("SELECT cast(timestamp_seconds(999999999999) AS string) AS a", engine=engine)
            assert texts.to_dicts() == [{"a": "+33658-09-27 01:46:39"}]
        topic = lake.topic("rows")
        with pytest.raises(UsageError):
            topic.restore(topic.history()[-1].version)
        assert {topic.df(found.version).count() for found in topic.history()} >= {1, 2}
