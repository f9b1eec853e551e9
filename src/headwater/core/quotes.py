"""Names and texts as SQL takes them, whatever is in them."""

from __future__ import annotations


def backticked(name: str) -> str:
    """A name for Spark."""
    return "`" + name.replace("`", "``") + "`"


def double_quoted(name: str) -> str:
    """A name for Postgres, DuckDB, SQLite and DataFusion."""
    return '"' + name.replace('"', '""') + '"'


def single_quoted(text: str) -> str:
    """A text for Postgres, DuckDB and DataFusion."""
    return "'" + text.replace("'", "''") + "'"


def spark_text(text: str) -> str:
    """A text for Spark, which reads backslashes as escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
