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
    "a duration for a mapping": Case(
        "views: {v: {sql: select 1 as a, retain: 30d}}", "write `retain: {versions: 30d}`", "retain: 30d", "retain: {versions: 30d}"
    ),
    "a query for a definition": Case("views: {v: select 1 as a}", "write `v: {sql: select 1 as a}`", "v: select 1 as a", "v: {sql: select 1 as a}"),
    "a condition for a mapping": Case(
        "tables: {t: {sql: select 1 as a, expect: {b: 'a > 1, 2'}}}", "write `b: {check: 'a > 1, 2'}`", "b: 'a > 1, 2'", "b: {check: a > 1}"
    ),
    "a number for a mapping": Case("views: {v: {sql: select 1 as a, retain: 5}}", "write `retain: {versions: 30s}`", "retain: 5", "retain: {versions: 30s}"),
    "a word for options": Case("views: {v: {sql: select 1 as a, options: x}}", "write `options: {name: value}`", "options: x", "options: {}"),
    "a text with a comma": Case(
        "views: {v: {sql: select 1 as a, 2 as b}}", "put the text in quotes", "select 1 as a, 2 as b", "'select 1 as a, 2 as b'"
    ),
    "a number for a list": Case("views: {v: {sql: select 1 as a, tags: 5}}", "write `tags: ['5']`", "tags: 5", "tags: ['5']"),
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
        "views: {v: {sql: select * from lake.sales.orders}}", "a source of type `table` ingests somebody else's table",
        "from lake.sales.orders", "from theirs",
        base="name: shop\nsources: {up: {type: table, format: iceberg, table: lake.sales.orders}}\ntopics: {theirs: {from: up}}\n",
    ),
    "a circle": Case(
        "views: {a: {sql: select * from mv('b')}, b: {sql: select * from mv('a')}}", "one of them must read something else",
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

FUNCTIONS = {
    "a filter of dicts": Case(
        "@filter\ndef f(event: dict): ...", "take a headwater.Event, give a Column", "event: dict", "event: Event"
    ),
    "an upcaster of tables": Case(
        "@upcaster('A', from_version=1)\ndef f(payload: pa.Table): ...",
        "annotate the parameter with headwater.Event or dict", "pa.Table", "dict",
    ),
    "a mapper of numbers": Case(
        "@mapper\ndef f(event: int): ...",
        "annotate the parameter with headwater.Event, dict, pandas.DataFrame or pyarrow.RecordBatch", "int", "Event",
    ),
    "a mapper of unknown rows": Case(
        "@mapper\ndef f(event: dict) -> dict: ...",
        'declare it: schema="order_id string, total decimal(12,2)" in the decorator',
        "@mapper", "@mapper(schema='order_id string, total decimal(12,2)')",
    ),
    "a schema of no fields": Case(
        "@mapper(schema=int)\ndef f(event: dict): ...", "take a TypedDict, dataclass or NamedTuple", "=int", "=Row"
    ),
    "a mapper that is built in": Case(
        "f = mapper(max)", "write it as a plain function", "f = mapper(max)", "@mapper\ndef f(event: Event): ..."
    ),
    "a transform of anything": Case(
        "@transform\ndef f(*inputs): ...",
        "a parameter is named after the topic or table that it takes: def visits(clicks, customers)", "*inputs", "orders",
    ),
}  # fmt: skip
HEAD = """from typing import TypedDict
import pyarrow as pa
from headwater import Event, filter, mapper, transform, upcaster

class Row(TypedDict):
    a: int

"""


@pytest.mark.parametrize("case", FUNCTIONS)
def test_what_a_hint_of_a_function_says_helps(find: Find, case: str) -> None:
    one = FUNCTIONS[case]
    given = [problem.hint or "" for problem in find(TOPIC + "code: shop.py\n", {"shop.py": HEAD + one.bad + "\n"})]
    assert any(one.hint in hint for hint in given), given
    mended = HEAD + one.bad.replace(one.old, one.new, 1) + "\n"
    assert [str(problem) for problem in find(TOPIC + "code: shop.py\n", {"shop.py": mended})] == []


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
    "SELECT map(id) FROM topics.orders": ("it may lack an argument", "SELECT map(id, 1) FROM topics.orders"),
    "SELECT " + "(" * 3000 + "1" + ")" * 3000: ("give a part of it a name", "SELECT (1)"),
}


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text[:30])
def test_what_a_hint_of_a_statement_says_helps(statement: str) -> None:
    hint, mended = STATEMENTS[statement]
    with pytest.raises(HeadwaterError) as caught:
        parse_statement(statement)
    assert hint in (caught.value.problem.hint or ""), caught.value.problem
    parse_statement(mended)


TIME = "write 2026-10-17 or 2026-10-17 12:30:00"


def test_what_the_hint_of_a_time_says_helps() -> None:
    with pytest.raises(HeadwaterError) as caught:
        parse_time("17.10.2026")
    assert caught.value.problem.hint == TIME
    assert parse_time("2026-10-17") < parse_time("2026-10-17 12:30:00")


SHADOWED = "give the query in WITH another name"


def test_what_the_hint_of_a_shadowed_name_says_helps() -> None:
    sql = "WITH own_orders AS (SELECT 1 AS a) SELECT * FROM topic('orders')"
    with pytest.raises(HeadwaterError) as caught:
        with_relations(parse_query(sql), lambda reference, at: f"own_{reference.name}")
    assert caught.value.problem.hint == SHADOWED
    with_relations(parse_query(sql.replace("own_orders", "mine")), lambda reference, at: f"own_{reference.name}")


def said() -> list[str]:
    """Parts of the hints that the tables above have."""
    hints = [
        *(one.hint for one in (CASES | FUNCTIONS).values()),
        *(hint for hint, _ in STATEMENTS.values()),
        SHADOWED,
        TIME,
    ]
    return [hint for hint in hints if hint]
