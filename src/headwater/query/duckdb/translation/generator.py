"""The text that DuckDB gets: made once of a whole query, by sqlglot."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel, UnsupportedError
from sqlglot.generators.duckdb import DuckDBGenerator

from headwater.core.logs import log_defect
from headwater.core.quotes import double_quoted
from headwater.query.duckdb.translation.terms import Refused
from headwater.sql.parse import STUMBLES


class _Generator(DuckDBGenerator):
    """sqlglot's own; where a scan has its place, it writes what the scan reads.

    What a query has most of is written straight: names (those that people gave are quoted, ours need it not), types
    (they are DuckDB's already) and queries in FROM (they have an alias at most).
    """

    scans: Mapping[str, exp.Expr] = {}

    def placeholder_sql(self, expression: exp.Placeholder) -> str:
        scan = self.scans.get(expression.name)
        return super().placeholder_sql(expression) if scan is None else self.sql(scan)

    def identifier_sql(self, expression: exp.Identifier) -> str:
        name: str = expression.args["this"]
        return double_quoted(name) if expression.args["quoted"] else name

    def column_sql(self, expression: exp.Column) -> str:
        table, name = expression.args.get("table"), self.identifier_sql(expression.args["this"])
        return name if table is None else f"{self.identifier_sql(table)}.{name}"

    def alias_sql(self, expression: exp.Alias) -> str:
        return f"{self.sql(expression.args['this'])} AS {self.identifier_sql(expression.args['alias'])}"

    def datatype_sql(self, expression: exp.DataType) -> str:
        return str(expression.args["kind"])

    def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
        alias, query = expression.args.get("alias"), f"({self.sql(expression.args['this'])})"
        return query if alias is None else f"{query}{sep}{self.sql(alias)}"


_DIALECT = DuckDB()
_DEEP = 40
"""Levels that are written in one go where a tree is deeper than Python can follow."""


def text_of(query: exp.Expr, scans: Mapping[str, exp.Expr] | None = None) -> str:
    """What DuckDB gets. A scan that is not given is shown by its alias."""
    scans = scans or {}
    try:
        try:
            return _written(query, scans)
        except RecursionError:
            return _written(_flattened(query, scans), scans)
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    except (UnsupportedError, *STUMBLES) as error:  # Spark can answer it all the same
        raise Refused(f"its translation for DuckDB failed, as {log_defect(error)} says") from error


def _written(node: exp.Expr, scans: Mapping[str, exp.Expr]) -> str:
    generator = _Generator(
        dialect=_DIALECT, normalize_functions=False, unsupported_level=ErrorLevel.RAISE, comments=False
    )
    generator.scans = scans
    # Nothing is copied: of what stands here, the generator changes nothing.
    return generator.generate(node, copy=False)


def _flattened(query: exp.Expr, scans: Mapping[str, exp.Expr]) -> exp.Expr:
    """The same query, with the deepest expressions as text."""
    copied = query.copy()
    deep: list[exp.Expr] = []
    waiting = [(copied, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth >= _DEEP and isinstance(node, (exp.Paren, exp.Cast, exp.Anonymous, exp.Case)):
            deep.append(node)
            depth = 0
        waiting.extend((child, depth + 1) for child in node.iter_expressions())
    for node in reversed(deep):
        node.replace(exp.Var(this=_written(node, scans)))
    return copied
