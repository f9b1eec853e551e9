"""Every hint that a project file or a query gets helps: what it says is done, and the problem is gone."""

# ruff: noqa: E501 - a case stands on as few lines as it can

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from headwater.core.errors import HeadwaterError
from headwater.sql.moments import parse_time
from headwater.sql.parse import parse_statement
from headwater.sql.references import parse_query
from headwater.sql.rewrite import with_relations
from tests.project.conftest import BASE, Find
from tests.project.hints import hints, pattern

TOPIC = BASE + "topics: {orders: {from: landing}}\n"


@dataclass(frozen=True)
class Case:
    """A project that is wrong, the hint that it gets, and what the hint says to write instead."""

    bad: str
    hint: str
    old: str
    new: str
    base: str = TOPIC
    files: Mapping[str, str] = field(default_factory=dict)


STREAMING = (
    "from headwater import transform\n\n\n@transform(streaming=True)\ndef f(orders):\n    return orders.select('id')\n"
)
TWO_MAPPERS = (
    "from headwater import mapper\n\n\n@mapper(group='a')\ndef one(event):\n    return {'id': event['id']}\n\n\n"
    "@mapper(group='GROUP')\ndef two(event):\n    return {'id': event['id']}\n"
)
_LOOKED_UP = (
    "tables:\n  h: {{from: topic('orders'), apply: {{keys: [id], sequence_by: _position{}}}}}\n"
    "  t: {{sql: \"SELECT e.id FROM stream(topic('orders')) e JOIN table('h') FOR SYSTEM_TIME AS OF {} h "
    'ON h.id = e.id"}}\n'
)
CASES = {
    "a history looked up as of now": Case(
        _LOOKED_UP.format(", history: all", "PROCTIME()"),
        "name the time of the row: FOR SYSTEM_TIME AS OF a column",
        "PROCTIME()",
        "e.event_timestamp",
    ),
    "no history to look into": Case(
        _LOOKED_UP.format("", "e.event_timestamp"),
        "or look up its latest state: AS OF PROCTIME()",
        "AS OF e.event_timestamp",
        "AS OF PROCTIME()",
    ),
    "an unknown key": Case("wharehouse: ./x", "did you mean 'warehouse'?", "wharehouse", "warehouse"),
    "an unknown choice": Case("format: detla", "did you mean 'delta'?", "detla", "delta"),
    "a warehouse": Case(
        "warehouse: ftp://x", "it is a local folder, s3://, abfss://, gs:// or hdfs://", "ftp://", "s3://"
    ),
    "a text that is a number": Case("description: 5", "put it in quotes", "5", "'5'"),
    "a variable": Case("description: ${A B}", "write ${NAME}", "${A B}", "'${A:-b}'"),
    "a variable without a value": Case("description: ${NOPE}", "give a default: ${NOPE:-…}", "${NOPE}", "${NOPE:-…}"),
    "an escaped variable": Case("description: 'a ${ b'", "or $${ for ${", "${", "$${"),
    "a key that stands twice": Case("format: delta\nformat: delta", "first on line 4", "format: delta\nformat", "format"),
    "a tab": Case("views:\n\tv: {sql: select 1 as a}", "indent with spaces, not tabs", "\t", "  "),
    "a text with a colon": Case(
        "description: a: b", "goes in quotes", "a: b", "'a: b'"
    ),
    "a variable in braces": Case(
        "spark: {master: local[2], conf: {a: ${X:-1}}}", "inside { } a text with a comma or ${…} goes in quotes",
        "local[2], conf: {a: ${X:-1}}", "'local[2]', conf: {a: '${X:-1}'}",
    ),
    "a name": Case("views: {'My View': {sql: select 1 as a}}", "'my_view' would do", "'My View'", "my_view"),
    "two definitions of a name": Case(
        "include: [more.yml]", "first at headwater.yml:3", "orders", "others", base=TOPIC,
        files={"more.yml": "topics: {orders: {from: landing}}\n"},
    ),
    "an include of an include": Case(
        "include: [more.yml]", "only the project file includes others", "include", "views", files={"more.yml": "include: {}\n"}
    ),
    "sql above the sql": Case(
        "", "remove `sql`", "sql: select 2 as a", "", files={"views/v.sql": "/* sql: select 2 as a */\nselect 1 as a\n"}
    ),
    "a source": Case("tables: {t: {from: topic('order'), apply: {keys: id}}}", "did you mean 'orders'?", "'order'", "'orders'"),
    "what a from names": Case(
        "tables: {t: {from: 'topic(orders)', apply: {keys: id}}}", "write topic('x'), table('x') or mv('x')",
        "'topic(orders)'", "topic('orders')",
    ),
    "a source that is read": Case(
        "tables: {t: {sql: select * from landing}}", "'landing' is a source; tables read", "* from landing", "* from orders"
    ),
    "of another kind": Case("views: {v: {sql: select * from table('orders')}}", "did you mean topic('orders')?", "table(", "topic("),
    "not unique": Case(
        "tables: {orders: {keys: [id], schema: id bigint}}\nviews: {v: {sql: select * from orders}}",
        "write topic('orders') or table('orders')", "from orders", "from topic('orders')",
    ),
    "elsewhere": Case(
        "views: {v: {sql: select * from lake.sales.orders}}", "a source of type `table` takes in somebody else's table",
        "from lake.sales.orders", "from theirs",
        base="name: shop\nsources: {up: {type: table, format: iceberg, table: lake.sales.orders}}\ntopics: {theirs: {from: up}}\n",
    ),
    "a circle": Case(
        "views: {a: {sql: select * from mv('b')}, b: {sql: select * from mv('a')}}", "one of them has to read something else",
        "mv('a')", "topic('orders')",
    ),
    "stream() in a view": Case("views: {v: {sql: select * from stream(orders)}}", "leave stream() out", "stream(orders)", "orders"),
    "a view below a table": Case(
        "views: {v: {sql: select id from orders}}\ntables: {t: {sql: select id from mv('v')}}", "make this a view, or that one a table",
        "views: {v: {sql: select id from orders}}\ntables: {t: {sql: select id from mv('v')}}",
        "tables: {v: {sql: select id from orders}, t: {sql: select id from table('v')}}",
    ),
    "as of a time": Case(
        "tables: {k: {from: topic('orders'), apply: {keys: id}}, "
        "t: {sql: 'select o.id from stream(orders) o left join k for system_time as of o.at h on h.id = o.id'}}",
        "set `apply: {history: all}` on it", "{keys: id}", "{keys: id, history: all}",
    ),
    "expectations of changes": Case(
        "tables: {t: {from: topic('orders'), apply: {keys: id}, expect: {a: {check: id > 1}}}}",
        "write a table `SELECT * FROM table('t')` that has them", ", expect: {a: {check: id > 1}}}}",
        "}, u: {sql: SELECT * FROM table('t'), expect: {a: {check: id > 1}}}}",
    ),
    "a schema": Case("tables: {t: {keys: [id], schema: 'id: bigint,'}}", "write `id bigint, name string`", "id: bigint,", "id bigint, name string"),
    "a table without its schema": Case(
        "topics: {t: {from: crm}}", "one of public.a, public.b", "from: crm", "from: crm, table: public.a",
        base="name: shop\nsources: {crm: {type: postgres_cdc, dsn: 'postgresql://u@h/d', tables: [public.a, public.b]}}\n",
    ),
    "files that two topics clear": Case(
        "topics: {a: {from: landing}, b: {from: landing}}", "give each topic a folder of its own, or keep the files",
        ", after: delete", "", base=BASE.replace("./landing", "./landing, after: delete"),
    ),
    "mappers without code": Case(
        "topics: {orders: {from: landing, mappers: shop}}", "`code` names the file with them", "topics:", "code: shop.py\ntopics:",
        base=BASE, files={"shop.py": "from headwater import mapper\n\n\n@mapper\ndef f(event):\n    return {'id': event['id']}\n"},
    ),
    "a capability": Case(
        "tables: {t: {format: parquet, from: topic('orders'), apply: {keys: id}}}", "have this", "parquet", "delta"
    ),
    "a codec": Case("views: {v: {format: hudi, sql: select 1 as a, parquet: {compression: brotli}}}", "it has ", "brotli", "zstd"),
    "a path for a name": Case(
        "topics: {t: {from: up}}", "give `path`", "table: a.b", "path: ./b",
        base="name: shop\nsources: {up: {type: table, format: delta, table: a.b}}\n",
    ),
    "a watermark of a stream": Case(
        "code: shop.py\ntables: {t: {transform: f, watermark: {column: at, delay: 1m}}}",
        "the function sets it: df.withWatermark(column, delay)", ", watermark: {column: at, delay: 1m}", "",
        files={"shop.py": STREAMING},
    ),
    "expectations of a stream": Case(
        "code: shop.py\ntables: {t: {transform: f, expect: {a: {check: id > 1}}}}", "filter in the function",
        ", expect: {a: {check: id > 1}}", "", files={"shop.py": STREAMING},
    ),
    "two mappers of an event": Case(
        "code: shop.py\ntopics: {t: {from: landing, mappers: [a, GROUP]}}", "the groups 'a' and 'GROUP' have one each",
        "[a, GROUP]", "[a]", base=BASE, files={"shop.py": TWO_MAPPERS},
    ),
    "a second mapper": Case(
        "code: shop.py", "first at shop.py:", "group='a'", "group='b'",
        files={"shop.py": TWO_MAPPERS.replace("GROUP", "a").replace("'a'", "'a'", 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_a_hint_of_check_says_helps(find: Find, case: str) -> None:
    one = CASES[case]
    text = one.base + one.bad + "\n"
    given = [problem.hint or "" for problem in find(text, one.files)]
    assert any(one.hint in hint for hint in given), given
    where = [*one.files.values(), text]
    assert any(one.old in written for written in where)
    mended = {name: written.replace(one.old, one.new, 1) for name, written in one.files.items()}
    text = text if mended != dict(one.files) else text.replace(one.old, one.new, 1)
    assert [str(problem) for problem in find(text, mended)] == []


STATEMENTS = {
    "SELECT * FROM topics.orders WHERE": ("", "SELECT * FROM topics.orders"),
    "SELEC * FROM topics.orders": ("did you mean SELECT?", "SELECT * FROM topics.orders"),
    "DESCRIBE HISTORY lake.orders": ("write topics.x, tables.x or views.x", "DESCRIBE HISTORY topics.orders"),
    "SELECT " + "(" * 3000 + "1" + ")" * 3000: ("it may be nested too deeply", "SELECT (1)"),
}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text[:30])
def test_what_a_hint_of_a_statement_says_helps(statement: str) -> None:
    hint, mended = STATEMENTS[statement]
    with pytest.raises(HeadwaterError) as caught:
        parse_statement(statement)
    assert hint in (caught.value.problem.hint or ""), caught.value.problem
    parse_statement(mended)


def test_what_the_hint_of_a_time_says_helps() -> None:
    with pytest.raises(HeadwaterError) as caught:
        parse_time("17.10.2026")
    assert caught.value.problem.hint == "write 2026-10-17 or 2026-10-17 12:30:00"
    assert parse_time("2026-10-17") < parse_time("2026-10-17 12:30:00")


SHADOWED = "give the query in WITH another name"


def test_what_the_hint_of_a_shadowed_name_says_helps() -> None:
    sql = "WITH own_orders AS (SELECT 1 AS a) SELECT * FROM topic('orders')"
    with pytest.raises(HeadwaterError) as caught:
        with_relations(parse_query(sql), lambda reference, at: f"own_{reference.name}")
    assert caught.value.problem.hint == SHADOWED
    with_relations(parse_query(sql.replace("own_orders", "mine")), lambda reference, at: f"own_{reference.name}")


ELSEWHERE = {
    "its rows were put in by hand: headwater table drop {}, and load them again": "test_plan.py",
    "take another name, or drop it first: DROP MATERIALIZED VIEW": "test_plan.py",
    "take it out": "test_nothing_done.py",
    "nothing is expired": "test_nothing_done.py",
    "choose another folder, or remove it": "test_commands.py",
    "go to the project's folder, give --project PATH, or begin one with `headwater init DIR`": "test_files.py",
}
"""Hints of the project that other tests follow."""


def test_no_hint_of_the_project_is_left_out() -> None:
    """A new hint in `project` or `sql` wants a case here. Those of other packages need Spark or a service to be seen."""
    said = [one.hint for one in CASES.values()] + [hint for hint, _ in STATEMENTS.values()]
    said += ["write 2026-10-17 or 2026-10-17 12:30:00", SHADOWED]
    for text, modules in hints().items():
        if not any(module.startswith(("project/", "sql/")) for module in modules) or text in ELSEWHERE:
            continue
        parts = [part for part in text.split("{}") if part.strip()]
        covered = [
            hint
            for hint in said
            if hint and (pattern(text).search(hint) or any(hint.strip() in p or p in hint for p in parts))
        ]
        assert covered, f"no case follows the hint of {sorted(modules)}: {text}"
