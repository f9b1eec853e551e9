"""Queries at random: every function and operator of the fast engine's list, over every type."""

from __future__ import annotations

import random
from collections.abc import Callable

NUMBERS = ["t", "sh", "i", "j", "l"]
STRINGS = ["s", "u", "st.y"]
AGGREGATES = [
    "count(*)", "count({any})", "count(DISTINCT {any})", "sum({int})", "sum(dec)", "sum(fine)", "sum(e)", "avg({int})",
    "avg(dec)", "avg(fine)", "avg(e)", "min({plain})", "max({plain})", "stddev(e)", "stddev_pop(i)", "variance(e)",
    "var_pop(i)", "count_if({bool})", "bool_and(bo)", "bool_or(bo)", "every(bo)", "sum(i) FILTER (WHERE {bool})",
    "sum(DISTINCT i)", "min(d)", "max(d)", "mean(i)", "avg(l)", "sum(l)", "count(st.x)", "max(st.y)", "sum(f)",
]  # fmt: skip
WINDOWS = [
    "row_number() OVER ({w})", "rank() OVER ({w})", "dense_rank() OVER ({w})", "ntile(3) OVER ({w})",
    "lag({any}) OVER ({w})", "lead({any}, 2) OVER ({w})", "sum(i) OVER ({w})", "count(*) OVER ({w})",
    "avg(j) OVER ({w})", "min(u) OVER ({w})", "max(dt) OVER ({w} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)",
    "sum(dec) OVER ({w} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)", "first_value({any}) OVER ({w})",
    "last_value(s) OVER ({w} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    "percent_rank() OVER ({w})", "cume_dist() OVER ({w})", "sum(i) OVER (PARTITION BY u)",
]  # fmt: skip


class Generator:
    """Expressions of a wanted type, to a depth."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._depth = 0

    def anything(self) -> str:
        return self._one(self.whole, self.dec, self.string, self.truth, self.date, self.stamp, self.double)

    def plain(self) -> str:
        return self._pick(["i", "l", "dec", "s", "u", "dt", "ts", "e", "bo", "d"])

    def whole(self) -> str:
        if self._deep():
            return self._pick([*NUMBERS, "st.x", str(self._dice.randrange(9)), f"{self._dice.randrange(100)}"])
        return self._call(
            "({i} + {i})", "({i} - {i})", "({i} * {i})", "({i} % {i})", "({i} div {i})", "(- {i})", "abs({i})",
            "length({s})", "year({m})", "month({m})", "day({m})", "hour(ts)", "minute(at)", "second(ts)",
            "dayofweek({m})", "weekday({m})", "dayofyear({m})", "weekofyear({m})", "quarter({m})",
            "extract(year FROM {m})", "extract(hour FROM ts)", "datediff({D}, {D})", "size(arr)", "cardinality(words)",
            "size(m)", "element_at(arr, 1)", "element_at(arr, -1)", "arr[0]", "arr[2]", "m['a']", "element_at(m, 'b')",
            "instr({s}, 'b')", "locate('a', {s})", "position('c' IN {s})", "coalesce({i}, {i})", "nullif({i}, {i})",
            "if({b}, {i}, {i})", "CASE WHEN {b} THEN {i} ELSE {i} END", "CASE {i} WHEN 1 THEN {i} WHEN 2 THEN 7 END",
            "greatest({i}, {i})", "least({i}, {i}, 3)", "nvl({i}, 0)", "nvl2({s}, {i}, {i})", "cast(e AS int)",
            "cast({i} AS bigint)", "ceil(e)", "floor(e)", "round({i})", "cast(bo AS int)", "dayofmonth({D})",
        )  # fmt: skip

    def dec(self) -> str:
        if self._deep():
            return self._pick(["dec", "fine", "1.5", "0.25"])
        return self._call(
            "(dec + fine)", "(dec - {i})", "(dec * 2)", "(dec * dec)", "round(fine, 2)", "round(dec)", "abs(dec)",
            "coalesce(dec, 0.5)", "cast({i} AS decimal(20,2))", "cast(fine AS decimal(18,2))", "(- dec)",
            "if({b}, dec, fine)", "greatest(dec, fine)",
        )  # fmt: skip

    def double(self) -> str:
        if self._deep():
            return self._pick(["d", "e", "e", "cast(f AS double)"])
        return self._call(
            "({i} / {i})", "(e / {f})", "(e + {f})", "(e * {i})", "(e - 0.5)", "({f} % 3e0)", "sqrt(abs({f}))",
            "cast(dec AS double)", "cast({i} AS double)", "round(e, 2)", "round(e / 7, 3)", "coalesce({f}, 0)",
            "(d + 1)", "nullif(d, 1)", "greatest(e, {f})", "least(d, e)", "abs(d)",
        )  # fmt: skip

    def string(self) -> str:
        if self._deep():
            return self._pick([*STRINGS, "'b'", "''"])
        return self._call(
            "upper(u)", "lower(u)", "upper({s})", "concat({s}, {s})", "({s} || '-' || u)", "concat_ws('|', {s}, u, s)",
            "substring({s}, 2, 3)", "substr({s}, 2)", "left({s}, 2)", "right({s}, 2)", "trim({s})", "ltrim({s})",
            "rtrim({s})", "replace({s}, 'a', 'xy')", "lpad({s}, 5, '*')", "rpad({s}, 4)", "md5({s})", "sha2({s}, 256)",
            "regexp_extract({s}, '([a-z]+)', 1)", "regexp_extract({s}, '(.)(.*)', 2)",
            "regexp_replace({s}, '[a-c]+', '#')",
            "coalesce({s}, 'none')", "if({b}, {s}, u)", "cast({i} AS string)", "cast(dt AS string)",
            "cast(dec AS string)",
            "cast(bo AS string)", "date_format(ts, 'yyyy-MM-dd HH:mm:ss')", "date_format(dt, 'yyyy/MM')",
            "nullif(u, 'x')",
            "element_at(words, 1)", "words[1]", "greatest({s}, u)", "CASE u WHEN 'x' THEN {s} ELSE 'other' END",
        )  # fmt: skip

    def truth(self) -> str:
        if self._deep():
            return self._pick(["bo", "(i > 0)", "(u = 'x')", "(dt IS NULL)", "true"])
        return self._call(
            "({i} = {i})", "({i} <> {i})", "({i} < {i})", "({i} >= {i})", "({s} = {s})", "({s} < {s})", "({D} > {D})",
            "(ts > at)", "(ts >= '2024-03-01')", "(dt < '2024-06-01')", "(ts < dt)", "(dec > fine)", "(dec > 10)",
            "(dec < 0.5)",
            "(e > 0.5)", "(d = 1)", "(d > {f})", "(d < e)", "({i} BETWEEN -2 AND {i})", "({i} IN (1, 2, 3, NULL))",
            "({s} IN ('a', 'abc'))", "(dt IN ('2024-02-29', '2024-03-01'))", "({s} LIKE 'a%')", "({s} LIKE '%b_')",
            "(u LIKE 'order-__')", "({s} RLIKE '^[a-z]+')", "({s} RLIKE 'b.d|^x')", "({b} AND {b})", "({b} OR {b})",
            "(NOT {b})",
            "({s} IS NULL)", "({i} IS NOT NULL)", "(bo IS TRUE)", "({i} <=> {i})", "({s} <=> u)",
            "startswith({s}, 'a')",
            "endswith({s}, 'c')", "contains({s}, 'b')", "array_contains(arr, 1)", "array_contains(words, 'abc')",
            "isnan(d)",
            "isnull({s})", "isnotnull({i})", "(ts BETWEEN '2024-01-01' AND '2024-12-31 12:00:00')",
            "(i IS DISTINCT FROM j)",
            "({i} > {f})", "(bo = {b})", "(NOT {i} IN (1, 2))", "(st.x > 3)",
            "EXISTS (SELECT 1 FROM others o WHERE o.k = i)",
            "(v0.i > (SELECT avg(k) FROM others))",
        )  # fmt: skip

    def date(self) -> str:
        if self._deep():
            return self._pick(["dt", "day", "DATE '2024-02-28'"])
        return self._call(
            "date_add({D}, 3)", "date_sub({D}, 40)", "add_months({D}, 1)", "add_months({D}, -13)", "last_day({D})",
            "to_date(ts)", "cast(at AS date)", "date(ts)", "trunc({D}, 'MM')", "trunc({D}, 'YEAR')",
            "trunc({D}, 'week')",
            "({D} + INTERVAL 3 DAYS)", "({D} - INTERVAL 1 MONTH)", "({D} - INTERVAL '7 days')", "coalesce(dt, {D})",
            "greatest({D}, day)", "date_add(dt, j)",
        )  # fmt: skip

    def stamp(self) -> str:
        if self._deep():
            return self._pick(["ts", "at", "TIMESTAMP '2024-02-29 13:14:15.5'"])
        return self._call(
            "date_trunc('hour', {T})", "date_trunc('day', {T})", "date_trunc('WEEK', {T})", "date_trunc('month', {T})",
            "date_trunc('quarter', {T})", "date_trunc('year', {T})", "date_trunc('minute', {T})",
            "date_trunc('day', dt)",
            "({T} + INTERVAL 90 MINUTES)", "({T} - INTERVAL '1 hour')", "({T} + INTERVAL 1 MONTH)",
            "({T} - INTERVAL 2 DAYS)",
            "cast({D} AS timestamp)", "coalesce(ts, {T})", "if({b}, ts, at)", "({D} + INTERVAL 5 HOURS)",
            "least(ts, at)",
        )  # fmt: skip

    # --- queries

    def rows(self) -> str:
        """Expressions row by row; the id tells the rows apart."""
        items = [f"{self.anything()} AS c{n}" for n in range(6)]
        where = f" WHERE {self.truth()}" if self._dice.random() < 0.5 else ""
        if where and self._dice.random() < 0.3:
            where += self._pick(
                [" AND j IN (SELECT k FROM others)", " AND j NOT IN (SELECT v FROM others WHERE v > 9)"]
            )
        return f"SELECT id, {', '.join(items)} FROM things v0{where}"

    def grouped(self) -> str:
        items = ", ".join(f"{self._filled(self._pick(AGGREGATES))} AS a{n}" for n in range(4))
        where = f" WHERE {self.truth()}" if self._dice.random() < 0.3 else ""
        shape = self._dice.randrange(4)
        if shape == 0:
            return f"SELECT {items} FROM things v0{where}"
        key = self._pick(["u", "j", "bo", "day", "date_trunc('month', ts)", "year(dt)", "st.x", "dec", "arr", "s"])
        having = " HAVING count(*) > 1" if shape == 1 else ""
        limit = f" LIMIT {self._dice.randrange(1, 6)}" if shape == 2 and key != "arr" else ""
        order = "" if key == "arr" else f" ORDER BY k {self._pick(['', 'DESC', 'NULLS LAST', 'DESC NULLS FIRST'])}"
        by = self._pick(["1", "k", key])
        return f"SELECT {key} AS k, {items} FROM things v0{where} GROUP BY {by}{having}{order}{limit}"

    def windowed(self) -> str:
        order = self._pick(["i, id", "ts DESC, id", "s NULLS LAST, id", "id"])
        window = f"PARTITION BY {self._pick(['u', 'bo', 'j'])} ORDER BY {order}"
        items = [f"{self._filled(self._pick(WINDOWS).replace('{w}', window))} AS w{n}" for n in range(3)]
        return f"SELECT id, {', '.join(items)} FROM things v0"

    def joined(self) -> str:
        kind = self._pick(
            ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"]
        )
        on = "" if kind == "CROSS JOIN" else f" ON o.k = v0.{self._pick(['j', 'i', 't', 'l'])}"
        if on and self._dice.random() < 0.4:
            on += self._pick([" AND o.name = v0.u", " AND o.v > v0.i", " AND v0.bo", " AND o.price < v0.dec"])
        narrow = f" WHERE {self.truth()}" if self._dice.random() < 0.4 else ""
        if "SEMI" in kind or "ANTI" in kind:
            return f"SELECT id, u, j FROM things v0 {kind} others o{on}{narrow}"
        items = "count(*) AS n, count(o.k) AS m, sum(o.v) AS v, min(o.since) AS s, max(v0.id) AS x, sum(o.price) AS p"
        if kind == "JOIN" and self._dice.random() < 0.3:
            return "SELECT k, count(*) AS n FROM (SELECT j AS k, id FROM things) a JOIN others USING (k) GROUP BY k"
        return f"SELECT v0.u, {items} FROM things v0 {kind} others o{on}{narrow} GROUP BY v0.u"

    def combined(self) -> str:
        word = self._pick(["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"])
        columns = self._pick(["j, u", "arr", "st", "day, bo", "t", "s, dec", "d"])
        sides = [f"SELECT {columns} FROM things v0 WHERE {self.truth()}" for _ in range(2)]
        return f" {word} ".join(sides)

    def nested(self) -> str:
        items = f"{self.whole()} AS a, {self.string()} AS b, {self.date()} AS c"
        inner = f"SELECT id, {items}, u FROM things v0 WHERE {self.truth()}"
        shape = self._dice.randrange(3)
        if shape == 0:
            return f"WITH x AS ({inner}) SELECT b, count(*) AS n, sum(a) AS t FROM x WHERE a IS NOT NULL GROUP BY b"
        if shape == 1:
            return (
                f"SELECT y.id, y.a, o.v FROM ({inner}) y JOIN others o ON y.a = o.k WHERE y.u = 'x' ORDER BY 1, 3 DESC"
            )
        return f"SELECT DISTINCT u, a % 3 AS r FROM ({inner}) z ORDER BY u DESC, r"

    def query(self) -> str:
        self._depth = 0
        made: Callable[[], str] = self._dice.choices(
            [self.rows, self.grouped, self.windowed, self.joined, self.combined, self.nested], [5, 4, 2, 2, 1, 2]
        )[0]
        return made()

    # --- inside

    def _deep(self) -> bool:
        return self._depth >= 2 or self._dice.random() < 0.15

    def _pick(self, choices: list[str]) -> str:
        return self._dice.choice(choices)

    def _one(self, *makers: Callable[[], str]) -> str:
        return self._dice.choice(makers)()

    def _call(self, *templates: str) -> str:
        self._depth += 1
        try:
            return self._filled(self._dice.choice(templates))
        finally:
            self._depth -= 1

    def _filled(self, template: str) -> str:
        makers: dict[str, Callable[[], str]] = {
            "{i}": self.whole, "{f}": self.double, "{s}": self.string, "{b}": self.truth,
            "{D}": self.date, "{T}": self.stamp,
            "{m}": lambda: self._one(self.date, self.stamp), "{any}": self.anything, "{plain}": self.plain,
            "{int}": self.whole, "{bool}": self.truth,
        }  # fmt: skip
        while True:
            at = template.find("{")
            if at < 0:
                return template
            end = template.index("}", at) + 1
            template = template[:at] + makers[template[at:end]]() + template[end:]
