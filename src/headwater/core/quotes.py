"""Names as SQL takes them, whatever is in them."""

from __future__ import annotations


def backticked(name: str) -> str:
    """For Spark."""
    return "`" + name.replace("`", "``") + "`"


def double_quoted(name: str) -> str:
    """For Postgres, DuckDB and DataFusion."""
    return '"' + name.replace('"', '""') + '"'
