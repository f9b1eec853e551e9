"""What a project says, checked before anything runs."""

from __future__ import annotations

import pytest

from headwater.core.errors import Code
from headwater.core.model import Kind
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.project.graph import Name, graph_of
from headwater.project.load.loader import load_project
from headwater.project.runnable import not_runnable
from tests.project.conftest import BASE, Find, Write, places

TOPIC = BASE + "topics: {orders: {from: landing}}\n"
"""Three lines that are right."""


def test_a_cycle_is_named(find: Find) -> None:
    problems = find(
        TOPIC + "tables:\n  a: {sql: \"select * from table('b')\"}\n  b: {sql: select * from tables.c join orders}\n"
        "  c: {sql: 'with x as (select * from a) select * from x'}\n  d: {sql: select * from d}\n"
    )
    assert [(p.code, str(p.where)) for p in problems] == [
        (Code.CYCLE, "headwater.yml:5 tables.a"),
        (Code.CYCLE, "headwater.yml:8 tables.d"),
    ]
    assert "tables.a → tables.b → tables.c → tables.a" in problems[0].message


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("tables: {t: {sql: \"select * from topic('order')\"}}", Code.UNKNOWN_REFERENCE, "did you mean 'orders'?"),
        ("tables: {t: {sql: select * from topics.order}}", Code.UNKNOWN_REFERENCE, "no topic 'order'"),
        ("tables: {t: {sql: select * from ordres}}", Code.UNKNOWN_REFERENCE, "did you mean 'orders'?"),
        ("tables: {t: {sql: select * from landing}}", Code.UNKNOWN_REFERENCE, "'landing' is a source"),
        ("views: {v: {sql: \"select * from table('orders')\"}}", Code.UNKNOWN_REFERENCE, "topic('orders')"),
        ("views: {v: {sql: select * from lake.sales.orders}}", Code.UNKNOWN_REFERENCE, "not in this lake"),
        ("views: {v: {sql: 'select * from delta.`/tmp/x`'}}", Code.UNKNOWN_REFERENCE, "not in this lake"),
        (
            "tables: {t: {from: \"topic('ordes')\", apply: {keys: id}}}",
            Code.UNKNOWN_REFERENCE,
            "tables.t.from: there is no topic 'ordes'",
        ),
        ("tables: {t: {from: topic(orders), apply: {keys: id}}}", Code.INVALID_VALUE, "write topic('x')"),
        ("tables: {t: {from: orders}}", Code.INVALID_VALUE, "`from` and `apply` come together"),
        ("tables: {t: {sql: select 1 as a, from: orders}}", Code.INVALID_VALUE, "not `from` and `sql`"),
        ("tables: {t: {owner: me}}", Code.INVALID_VALUE, "give `sql`, `transform`, `seed`"),
        ("tables: {t: {seed: nothing.csv}}", Code.UNKNOWN_REFERENCE, "there is no file nothing.csv"),
        ("tables: {t: {transform: f}}", Code.UNKNOWN_REFERENCE, "there is no @transform 'f'"),
        ("tables: {t: {from: orders, apply: {keys: []}}}", Code.INVALID_VALUE, "should not be empty"),
        (
            "tables: {t: {from: orders, apply: {keys: id, delete_when: 'op = = 1'}}}",
            Code.INVALID_SQL,
            "tables.t.apply.delete_when",
        ),
        (
            "tables: {t: {sql: 'select a from orders', expect: {b_known: {check: b IS NOT NULL}}}}",
            Code.INVALID_SQL,
            "the table has no column 'b'; known: a",
        ),
        ("tables: {t: {sql: select a from orders, keys: [aa]}}", Code.INVALID_VALUE, "no column 'aa'"),
        ("views: {v: {sql: select a from orders, partition_by: [b]}}", Code.INVALID_VALUE, "no column 'b'"),
        ("views: {v: {sql: 'select * from stream(orders)'}}", Code.INVALID_SQL, "leave stream() out"),
        ("views: {v: {sql: drop table x}}", Code.INVALID_SQL, "should be one SELECT"),
        ("views: {v: {sql: select 1 as a; select 2 as b}}", Code.INVALID_SQL, "should be one SELECT"),
        ("views: {v: {sql: select * from topic(orders)}}", Code.INVALID_SQL, "takes one name in quotes"),
        ("views: {v: {sql: select 1 as a, refresh: {mode: periodic}}}", Code.INVALID_VALUE, "come together"),
        (
            "views: {v: {sql: select 1 as a, refresh: {max_staleness: 5m, mode: manual}}}",
            Code.INVALID_VALUE,
            "on_query",
        ),
        ("views: {v: {sql: select 1 as a, path: x, table: y}}", Code.INVALID_VALUE, "not both"),
        (
            "exports: {e: {from: orders, format: iceberg, to: lak.bi.orders}}",
            Code.UNKNOWN_REFERENCE,
            "there is no catalog 'lak'; did you mean 'lake'?",
        ),
        ("exports: {e: {from: order, format: delta, to: ./x}}", Code.UNKNOWN_REFERENCE, "exports.e.from"),
        ("exports: {e: {from: orders, format: excel, to: ./x}}", Code.UNKNOWN_FORMAT, "exports.e.format"),
        ("monitors: {m: {on: orders, freshness: 5m, notify: ops}}", Code.UNKNOWN_REFERENCE, "no alert 'ops'"),
        ("monitors: {m: {on: topics.x, freshness: 5m}}", Code.UNKNOWN_REFERENCE, "monitors.m.on"),
    ],
)
def test_what_does_not_fit_together(find: Find, text: str, code: Code, says: str) -> None:
    problems = find(TOPIC + text + "\n")
    assert [p.code for p in problems] == [code]
    assert says in str(problems[0])
    assert str(problems[0].where).startswith("headwater.yml:4 ")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("topics: {t: {fom: landin, partition_by: 5}}", ["partition_by", "fom", "from"]),
        ("topics: {t: {from: landin, schema: {mismatsh: fail, new_column: no}}}", ["new_column", "mismatsh", "from"]),
        ("topics: {t: {from: landin, deduplicate_within: 1d, zzz: 1}}", ["zzz", "t", "from"]),
        ("topics: {t: {from: landin, include_events: a, exclude_events: a}}", ["t", "from"]),
        (
            "tables: {t: {from: topic('orders'), apply: {keys: id, zzz: 1, delete_when: a = = b}}}",
            ["zzz", "delete_when"],
        ),
        ("tables: {t: {sql: select * from nosuch, expect: {e: {chek: b b b}}}}", ["chek", "check", "sql"]),
        ("tables: {t: {sql: select 1 as a, seed: x.csv, zzz: 1}}", ["zzz", "t", "seed"]),
        (
            "views: {v: {spl: select * from nosuch, refresh: {every: 5m, mode: manual, foo: 1}}}",
            ["spl", "foo", "refresh", "sql"],
        ),
        ("sources: {more: {type: files, pth: ./x, schema: id}}", ["pth", "schema"]),
        ("runtime: {zzz: 1, lease: soon}\nviews: {v: {sql: select * from nosuch}}", ["lease", "zzz", "sql"]),
    ],
)
def test_one_mistake_hides_no_other(find: Find, text: str, wrong: list[str]) -> None:
    base = BASE if text.startswith("topics") else TOPIC if not text.startswith("sources") else "name: shop\n"
    found = [str(problem.where).rpartition(".")[2] for problem in find(base + text + "\n")]
    assert sorted(found) == sorted(wrong)


def test_a_key_that_only_resembles_another_is_not_taken_for_it(find: Find) -> None:
    problems = find(TOPIC + "tables: {t: {form: topic('orders'), keys: id}}\n")
    assert places(problems) == [("UNKNOWN_KEY", "headwater.yml:4 tables.t.form")]


def test_a_bare_name_has_to_be_unique(find: Find) -> None:
    problems = find(TOPIC + "tables: {orders: {keys: [id]}}\nviews: {v: {sql: select * from orders}}\n")
    assert places(problems) == [("UNKNOWN_REFERENCE", "headwater.yml:5 views.v.sql")]
    assert problems[0].hint == "write topic('orders') or table('orders')"


def test_tables_do_not_read_views(find: Find) -> None:
    problems = find(TOPIC + "views: {v: {sql: select * from orders}}\ntables: {t: {sql: \"select * from mv('v')\"}}\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:5 tables.t.sql")]


def test_sql_mistakes_stand_on_their_own_line(find: Find) -> None:
    problems = find(
        TOPIC + "views:\n  v:\n    sql: |\n      SELECT a\n      FROM topic('orders')\n      JOIN topic('x')\n"
    )
    assert places(problems) == [("UNKNOWN_REFERENCE", "headwater.yml:9 views.v.sql")]


@pytest.mark.parametrize(("history", "count"), [("latest", 1), ("all", 0)])
def test_temporal_joins_need_a_history(find: Find, history: str, count: int) -> None:
    problems = find(
        TOPIC
        + f"tables:\n  k: {{from: orders, apply: {{keys: [id], history: {history}}}}}\n  v:\n    sql: >-\n"
        + "      select o.a from stream(orders) o\n"
        + "      join table('k') for system_time as of o.ts k on o.id = k.id\n"
    )
    assert len(problems) == count
    assert all(p.code is Code.UNSUPPORTED and "history: all" in str(p.hint) for p in problems)


def test_time_travel_is_no_temporal_join(find: Find) -> None:
    text = "views: {v: {sql: \"select * from topic('orders') timestamp as of '2026-01-01'\"}}\n"
    assert find(TOPIC + text) == []


def test_a_cdc_topic_names_a_captured_table(find: Find) -> None:
    source = "name: x\nsources: {crm: {type: postgres_cdc, dsn: d, tables: [public.a, public.b]}}\n"
    assert places(find(source + "topics: {t: {from: crm}}\n")) == [("MISSING_KEY", "headwater.yml:3 topics.t")]
    problems = find(source + "topics: {t: {from: crm, table: public.aa}}\n")
    assert places(problems) == [("UNKNOWN_REFERENCE", "headwater.yml:3 topics.t.table")]
    assert find(source + "topics: {t: {from: crm, table: public.b}}\n") == []


def test_two_definitions_in_one_place(find: Find) -> None:
    problems = find(BASE + "topics:\n  a: {from: landing, path: ./x}\n  b: {from: landing, path: x/}\n")
    assert places(problems) == [("DUPLICATE_NAME", "headwater.yml:5 topics.b.path")]


def test_columns_of_a_declared_schema(find: Find) -> None:
    source = "name: x\nsources: {l: {type: files, path: x, schema: 'id bigint, at timestamp'}}\n"
    problems = find(source + "topics: {t: {from: l, partition_by: [event_dat], z_order_by: [id]}}\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 topics.t.partition_by")]
    assert problems[0].hint == "did you mean 'event_date'?"


@pytest.mark.parametrize("ddl", ["id", "id bigint,", "bigint", "id nothing_known", "id decimal(12"])
def test_what_is_no_schema(find: Find, ddl: str) -> None:
    problems = find(f"name: x\nsources: {{l: {{type: files, path: x, schema_hints: '{ddl}'}}}}\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:2 sources.l.schema_hints")]


def test_the_columns_of_a_seed_are_in_its_header(find: Find) -> None:
    text = "name: x\ntables: {t: {seed: t.csv, keys: [cod]}}\n"
    problems = find(text, {"t.csv": "code,name\nDE,Germany\n"})
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:2 tables.t.keys")]
    assert problems[0].hint == "did you mean 'code'?"


NEEDS = {
    Capability.UPSERT: "tables: {x: {from: orders, apply: {keys: [id]}}}",
    Capability.REPLACE: "views: {x: {sql: select * from orders}}",
    Capability.PARTITION_TRANSFORMS: "views: {x: {sql: select * from orders, partition_by: ['date(ts)']}}",
    Capability.CLUSTER: "tables: {x: {sql: select * from orders, z_order_by: a}}",
    Capability.BLOOM_FILTER: "tables: {x: {sql: select * from orders, parquet: {bloom_filter: a}}}",
    Capability.STATISTICS: "tables: {x: {sql: select * from orders, parquet: {statistics: false}}}",
    Capability.EXPIRE: "tables: {x: {sql: select * from orders, retain: {versions: 1d}}}",
    Capability.CHANGES: "views: {x: {sql: select * from orders, refresh: {policy: incremental_strict}}}",
}


@pytest.mark.parametrize("format", FORMATS.names())
@pytest.mark.parametrize("capability", NEEDS, ids=lambda c: c.name)
def test_a_format_is_asked_only_for_what_it_has(find: Find, format: str, capability: Capability) -> None:
    problems = find(TOPIC + f"format: {format}\n{NEEDS[capability]}\n")
    chosen = FORMATS.get(format)
    refused = [p for p in problems if chosen.refusal(capability) in p.message]
    assert bool(refused) is not chosen.can(capability)
    for problem in refused:
        assert problem.code is Code.UNSUPPORTED
        having = [other.title for other in FORMATS if other.can(capability)]
        assert all(title in (problem.hint or "") for title in having)


@pytest.mark.parametrize("format", FORMATS.names())
def test_a_codec_that_a_format_lacks_is_refused(find: Find, format: str) -> None:
    for codec in ("none", "snappy", "gzip", "lz4", "zstd", "brotli"):
        text = f"topics: {{t: {{from: landing, format: {format}, parquet: {{compression: {codec}}}}}}}\n"
        expected = [] if codec in FORMATS.get(format).codecs else ["headwater.yml:3 topics.t.parquet.compression"]
        assert [str(p.where) for p in find(BASE + text)] == expected


@pytest.mark.parametrize("format", FORMATS.names())
def test_rows_go_by_age_where_a_format_removes_any(find: Find, format: str) -> None:
    problems = find(
        BASE + f"topics: {{t: {{from: landing, format: {format}, retain: {{rows: 90d, dead_letters: 30d}}}}}}\n"
    )
    expected = [] if FORMATS.get(format).can(Capability.REPLACE) else ["headwater.yml:3 topics.t.retain.rows"]
    assert [str(problem.where) for problem in problems] == expected


def test_the_order_of_a_project(write: Write) -> None:
    text = "views: {c: {sql: select * from b}}\n"
    text += 'tables: {b: {sql: "select * from a, orders"}, a: {sql: select * from orders}}\n'
    graph = graph_of(load_project(write(TOPIC + text)))
    assert graph.order() == [Name(Kind.TABLE, "a"), Name(Kind.TABLE, "b"), Name(Kind.VIEW, "c")]


def test_what_cannot_run_yet_is_a_note(write: Write) -> None:
    text = TOPIC + "tables: {t: {keys: [id]}}\nmonitors: {m: {on: topic('orders'), freshness: 5m}}\n"
    notes = not_runnable(load_project(write(text)))
    assert places(notes) == [("NOT_RUNNABLE_YET", "headwater.yml:5 monitors.m")]
