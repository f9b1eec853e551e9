"""Seeded inputs that people and programs might give, most of them wrong: statements, project files, options."""

# ruff: noqa: E501
from __future__ import annotations

import copy
import random
from typing import Any

COLUMNS = ["id", "name", "amount", "tags", "o", "o.x", "at", "_position", "_source", "nothing", "orders", "`a b`", "*"]
RELATIONS = [
    "orders", "topic('orders')", "topics.orders", "mv('totals')", "views.totals", "kept", "table('kept')", "nowhere",
    "topic('nowhere')", "(SELECT 1 AS id)", "range(3)", "system.steps", "changes('orders', 0, 1)",
    "topic('orders') VERSION AS OF 0", "topic('orders') TIMESTAMP AS OF '2020-01-01'", "topic('orders') VERSION AS OF '²'", "topic('orders') VERSION AS OF 1.5",
    "topic('orders') TIMESTAMP AS OF 'x'", "topic('orders') VERSION AS OF -1", "changes('orders', 'x', 1e3)", "VALUES (1), (2)", "empty",
    "explode(array(1, 2))", "stream(topic('orders'))", "topic(orders)", "topic('orders', 1)", "mv(NULL)",
]  # fmt: skip
LITERALS = [
    "NULL", "0", "-1", "1.5", "1e308", "1" * 45, "0." + "1" * 45, "1e-400", "1.5BD", "1L", "1" * 25 + "L", "99999999999999999999999999999999999999", "''", "'x'", "'ü😀'", "'2024-02-30'",
    "DATE '2024-01-01'", "DATE 'no'", "TIMESTAMP '2024-13-01'", "INTERVAL '1' DAY", "array()", "array(1, NULL)", "X'00'",
    "map('a', 1)", "struct(1)", "true", "current_date()", "'$'", "'\\\\'", "'%'", "?", ":x", "1/0", "cast('x' AS int)",
]  # fmt: skip
EDGES = [
    # the first and last of each type, and what lies beyond
    "DATE '0001-01-01'", "DATE '9999-12-31'", "DATE '-0044-03-15'", "DATE '+12345-01-01'", "make_date(20000, 1, 1)",
    "date_add(DATE '9999-12-31', 1)", "date_add(DATE '1970-01-01', 2147483647)", "date_sub(DATE '0001-01-01', 1)",
    "DATE '9999-12-31' + INTERVAL '1' DAY", "add_months(DATE '9999-12-31', 1)", "last_day(DATE '9999-12-31')",
    "TIMESTAMP '9999-12-31 23:59:59.999999'", "TIMESTAMP '0001-01-01 00:00:00'", "timestamp_seconds(999999999999)",
    "timestamp_micros(9223372036854775807)", "timestamp_micros(-9223372036854775808)", "timestamp_millis(-99999999999999)",
    "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'", "TIMESTAMP_NTZ '0001-01-01' - INTERVAL '1' DAY",
    "INTERVAL '1' MONTH", "INTERVAL '178956970-7' YEAR TO MONTH", "INTERVAL '106751991 04:00:54.775807' DAY TO SECOND",
    "INTERVAL '-1' DAY", "INTERVAL '999999999' DAY", "make_interval(1)", "make_dt_interval(1)", "make_ym_interval(1)",
    "127Y", "-128Y", "32767S", "2147483647", "-2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808",
    "1e309", "-1e309", "double('NaN')", "double('-Infinity')", "float('NaN')", "1.4e-45F", "-0.0", "-0.0D",
    "99999999999999999999999999999999999999BD", "0.00000000000000000000000000000000000001BD", "cast(1 AS decimal(38, 38))",
    "map()", "array(array())", "array(map())", "map(1, array())", "map(1, map())", "struct()", "named_struct('a', NULL)",
    "named_struct('a', 1, 'a', 2)", "map(struct(1), 1)", "map(array(1), 1)", "map(DATE '2024-01-01', 1)", "map(X'00', 1.5BD)",
    "map(double('NaN'), 1)", "map(true, 1)", "map(TIMESTAMP '2024-01-01', 1)", "map_from_arrays(array(), array())",
    "array(INTERVAL '1' MONTH)", "array(DATE '9999-12-31', date_add(DATE '9999-12-31', 1))", "sequence(1, 0)", "array(struct(array(map(1, 2))))",
    "'\ud800'", "'\udfff x'", "'a\ud83d'", "'\x00'", "'\\ud800'", "'\ufffe'", "X''", "space(0)", "repeat('x', 100000)",
    "CAST(NULL AS array<map<int, struct<a: int>>>)", "CAST(NULL AS interval)", "CAST('1' AS interval day)", "1" * 500,
    "(" * 60 + "1" + ")" * 60, "abs(" * 35 + "1" + ")" * 35, "1" + " + 1" * 450, "1" + " + 1" * 600, "'a'" + " || 'a'" * 300,
    "true" + " AND true" * 400, "id = 1" + " OR id = 1" * 600, "NOT " * 100 + "true", "- " * 200 + "1", "array(1)" + "[0]" * 100,
    "id IN (" + ", ".join(map(str, range(3000))) + ")", "CASE WHEN true THEN " * 30 + "1" + " END" * 30,
    "CASE" + " WHEN id = 1 THEN 1" * 300 + " END", "CAST(" * 40 + "1" + " AS int)" * 40, "1" + "::int" * 100,
]  # fmt: skip
"""Values at the ends of their types, empty and odd collections, texts that are none, and what is long or deep."""
FUNCTIONS = [
    "count", "sum", "avg", "min", "max", "abs", "sqrt", "length", "upper", "substring", "concat", "coalesce", "nullif",
    "round", "date_trunc", "year", "element_at", "size", "explode", "sequence", "collect_list", "stddev", "median",
    "regexp_extract", "regexp_replace", "split", "date_add", "datediff", "to_date", "date_format", "cast", "decode", "nope",
    "percentile", "array_contains", "transform", "filter", "row_number", "lag", "first", "last", "greatest", "chr", "repeat",
    "raise_error", "assert_true", "from_json", "to_json", "get_json_object", "lpad", "conv", "hex", "pmod", "shiftleft",
]  # fmt: skip
OPERATORS = ["+", "-", "*", "/", "%", "=", "<>", "<", "AND", "OR", "||", "IN", "LIKE", "RLIKE", "<=>", "BETWEEN", "IS"]
TYPES = [
    "int",
    "bigint",
    "string",
    "date",
    "timestamp",
    "decimal(38,37)",
    "array<int>",
    "binary",
    "struct<a:int>",
    "nope",
]
WORDS = [
    "SELECT", "FROM", "WHERE", "(", ")", ",", "*", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "ON", "AS", "'", '"', "`", ";",
    "--", "/*", "UNION", "OVER", "WITH", "NOT", "NULL", "\\", "\x00", "\u2028", "😀", "[", "{{", "}", ":", "::", "=>", "->",
]  # fmt: skip


class Fuzz:
    """One source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice

    def some(self, share: float) -> bool:
        return self.random.random() < share

    # --- SQL

    def value(self, depth: int = 0) -> str:
        kind = self.random.randrange(9 if depth < 3 else 3)
        if kind <= 1:
            return self.pick(COLUMNS[:-1])
        if kind == 2:
            return self.pick(EDGES if self.some(0.4) else LITERALS)
        if kind <= 5:
            arguments = ", ".join(self.value(depth + 1) for _ in range(self.random.randrange(4)))
            over = self.pick([" OVER ()", " OVER (PARTITION BY name ORDER BY id)"]) if self.some(0.1) else ""
            return f"{self.pick(FUNCTIONS)}({'DISTINCT ' if self.some(0.05) else ''}{arguments}){over}"
        if kind == 6:
            return f"({self.value(depth + 1)} {self.pick(OPERATORS)} {self.value(depth + 1)})"
        if kind == 7:
            return f"CAST({self.value(depth + 1)} AS {self.pick(TYPES)})"
        return f"CASE WHEN {self.value(depth + 1)} THEN {self.value(depth + 1)} END"

    def query(self) -> str:
        columns = ", ".join(
            self.pick(["*", "count(*)", f"{self.value()} AS c{at}", self.value()])
            for at in range(self.random.randrange(1, 4))
        )
        text = f"SELECT {columns} FROM {self.pick(RELATIONS)}"
        if self.some(0.2):
            text += f" {self.pick(['', 'LEFT ', 'CROSS ', 'ASOF '])}JOIN {self.pick(RELATIONS)} b ON {self.value(2)}"
        if self.some(0.3):
            text += f" WHERE {self.value(1)}"
        if self.some(0.2):
            text += f" GROUP BY {self.pick(['1', '9', '0', '1e3', 'name', 'ALL', 'ROLLUP(name)', self.value(2)])}"
        if self.some(0.2):
            text += f" HAVING {self.value(2)}"
        if self.some(0.3):
            text += f" ORDER BY {self.pick(['1', '9', '0', '1e3', '1.5', 'name', 'ALL', self.value(2)])}"
        if self.some(0.3):
            text += f" LIMIT {self.pick(['0', '2', '-1', 'ALL', 'x', '99999999999'])}"
        if self.some(0.05):
            text = f"WITH w AS ({text}) SELECT * FROM w {self.pick(['', 'UNION ALL ' + text])}"
        return text

    def statement(self) -> str:
        text = self.query()
        if self.some(0.25):
            text = self.broken(text)
        before = self.pick(["", "", "", "EXPLAIN ", "EXPLAIN ANALYZE ", "EXPLAIN ANALYZE ", "explain formatted "])
        after = self.pick(["", "", "", "", "", ";", " /* */ ; --x", "; -- x", " ;; ", "\n-- x\n;"])
        if self.some(0.08):
            return self.pick([
                "SHOW TABLES", "SHOW COLUMNS FROM orders", "DESCRIBE orders", "DESCRIBE HISTORY nowhere", "SET engine = x",
                "SET limit = -1", "REFRESH MATERIALIZED VIEW nowhere", "DROP MATERIALIZED VIEW nowhere", "DELETE FROM orders",
                "EXPLAIN MATERIALIZED VIEW totals", f"CREATE MATERIALIZED VIEW orders AS {text}", "INSERT INTO kept VALUES (1)",
                f"EXPORT topic('orders') TO {self.pick(['ICEBERG', 'X'])} '{self.pick(['', 'x://', 'file:///dev/null'])}'",
                "", " ; ", "-- nothing", "; --x", "/* */ ; /* */", "SHOW TOPICS /* */ ; --x", "SELECT 1; SELECT 2 --x", "SELECT '\ud800'",
                *(f"SELECT {self.pick(EDGES)} AS a, {self.pick(EDGES)} AS b" for _ in range(12)),
                "SELECT * FROM (" * 200 + "SELECT 1 AS a" + ")" * 200, " UNION ALL ".join(["SELECT 1 AS a"] * 30), "SELECT 1 AS a FROM (SELECT 1 AS a) t" + " JOIN (SELECT 1 AS a) t USING (a)" * 600,
                "SELECT cast(NULL AS " + "array<" * 300 + "int" + ">" * 300 + ")", f"SELECT * FROM topic('orders') LIMIT {'9' * 30}", f"SELECT * FROM topic('orders') VERSION AS OF {'9' * 30}", "EXPLAIN", "EXPLAIN ANALYZE", "(" * 300, "SELECT " + "(" * 200 + "1" + ")" * 200,
                "SELECT " + "-" * 300 + "1", "SELECT " + " + ".join(["1"] * 400), "USE x", "CACHE TABLE orders",
            ])  # fmt: skip
        return before + text + after

    def broken(self, text: str) -> str:
        """The text with a few of its words gone, doubled, or others among them."""
        words = text.split(" ")
        for _ in range(self.random.randrange(1, 4)):
            at = self.random.randrange(len(words))
            change = self.random.randrange(4)
            if change == 0:
                del words[at]
            elif change == 1:
                words.insert(at, self.pick(WORDS))
            elif change == 2:
                words[at] = self.pick(WORDS)
            else:
                words[at] = words[at][: self.random.randrange(len(words[at]) + 1)]
            words = words or [""]
        return " ".join(words)

    # --- project files

    def odd(self, depth: int = 0) -> Any:
        """A value that a project file may hold, seldom the right one."""
        kind = self.random.randrange(12 if depth < 2 else 9)
        if kind < 9:
            return self.pick([
                None, True, 0, -1, 1.5, float("inf"), 10**30, "", " ", "x", "orders", "topic('orders')", "topic('", "5m", "-5m",
                "128MB", "${HOME}", "${", "${NO_SUCH}", "SELECT 1", "SELECT", "${HOME:-", "\x00", "ü😀", "../..", "s3://", "://x",
                "postgresql://", "2024-02-30", "array<", "id int, id int", "1e400", "*/**/[", "a" * 500,
            ])  # fmt: skip
        if kind < 11:
            return [self.odd(depth + 1) for _ in range(self.random.randrange(3))]
        keys = ["from", "sql", "keys", "x", "type", "", "every", "path", 1, None, "mode"]
        return {self.pick(keys): self.odd(depth + 1) for _ in range(self.random.randrange(3))}

    def mutated(self, tree: Any) -> Any:
        """A copy of a project with some values replaced, keys renamed or parts gone."""
        tree = copy.deepcopy(tree)
        for _ in range(self.random.randrange(1, 4)):
            spots = list(_spots(tree))
            if not spots:
                return self.odd()
            parent, key = self.pick(spots)
            change = self.random.randrange(5)
            if change == 0:
                del parent[key]
            elif change == 1 and isinstance(parent, dict):
                parent[self.pick(["x", "from", "sql", "Orders", "", "a b", 3, None, True])] = parent.pop(key)
            elif change == 2 and isinstance(parent, dict):
                parent[self.pick(["options", "schema", "refresh", "apply", "expect", "retain", "on", "x"])] = self.odd()
            else:
                parent[key] = self.odd()
        return tree

    def garbled(self, text: str) -> str:
        """The text with some characters gone or others put in."""
        for _ in range(self.random.randrange(1, 5)):
            at = self.random.randrange(len(text) + 1)
            if self.some(0.4):
                text = text[:at] + text[at + self.random.randrange(9) :]
            else:
                text = (
                    text[:at]
                    + self.pick(
                        ["\t", "{", "}", "[", "]", "&a ", "*a", "!!x ", ":", "- ", "|", "\x00", "'", "%", "\ud7ff"]
                    )
                    + text[at:]
                )
        return text


def _spots(tree: Any) -> list[tuple[Any, Any]]:
    """Every place of a value: what holds it, and under which key."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    return [(tree, key) for key in keys] + [spot for key in keys for spot in _spots(tree[key])]
