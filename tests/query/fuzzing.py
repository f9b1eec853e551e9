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
            return self.pick(LITERALS)
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
        if self.some(0.08):
            return self.pick([
                "SHOW TABLES", "SHOW COLUMNS FROM orders", "DESCRIBE orders", "DESCRIBE HISTORY nowhere", "SET engine = x",
                "SET limit = -1", "REFRESH MATERIALIZED VIEW nowhere", "DROP MATERIALIZED VIEW nowhere", "DELETE FROM orders",
                "EXPLAIN MATERIALIZED VIEW totals", f"CREATE MATERIALIZED VIEW orders AS {text}", "INSERT INTO kept VALUES (1)",
                f"EXPORT topic('orders') TO {self.pick(['ICEBERG', 'X'])} '{self.pick(['', 'x://', 'file:///dev/null'])}'",
                "", " ; ", "-- nothing", "EXPLAIN", "EXPLAIN ANALYZE", "(" * 300, "SELECT " + "(" * 200 + "1" + ")" * 200,
                "SELECT " + "-" * 300 + "1", "SELECT " + " + ".join(["1"] * 400), "USE x", "CACHE TABLE orders",
            ])  # fmt: skip
        return before + text

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
