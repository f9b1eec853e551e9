"""The keys that a table declares: never NULL, and never those of two rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.core.errors import Code, TerminalError, UsageError, Where, did_you_mean
from headwater.incremental.keys import KeySet, keys_of
from headwater.spark.frames import column

LONGEST = 500
"""Characters of a row that an error shows."""


def require_unique(
    rows: DataFrame,
    keys: Sequence[str],
    columns: Sequence[str],
    flow: str,
    where: Where,
    there: Callable[[KeySet], DataFrame] | None = None,
) -> None:
    """Refuse rows (DUPLICATE_KEY, NULL_KEY) that lack a key or have that of another row; `rows` are looked at more
    than once. `there`: the rows of some keys that the table has already, and keeps."""
    for key in keys:
        if key not in columns:
            message = f"the rows of {flow} have no column '{key}'"
            raise UsageError(Code.INVALID_VALUE, message, where=where, hint=did_you_mean(key, columns))
    null = rows.where(F.exists(F.array(*(column(key).isNull() for key in keys)), lambda one: one))
    bad = _described(null, columns)
    if bad is not None:
        message = f"{flow}: a key ({', '.join(keys)}) is NULL in {bad}; nothing was committed"
        raise TerminalError(Code.NULL_KEY, message, where=where, hint="filter such rows out in the query")
    every = rows.select(*map(column, columns))
    if there is not None:
        old = there(keys_of([(rows, keys)], keys))
        every = every.unionByName(old.select(*map(column, columns)))
    twice = every.groupBy(*map(column, keys)).count().where(F.col("count") > 1).drop("count")
    first = twice.limit(1).collect()
    if not first:
        return
    same = F.lit(True)
    for key in keys:
        same = same & (column(key) == F.lit(first[0][key]))
    twins = every.where(same).select(_text(columns)).limit(2).collect()
    raise TerminalError(
        Code.DUPLICATE_KEY,
        f"{flow}: two rows have the key ({', '.join(keys)}): {' and '.join(row[0][:LONGEST] for row in twins)}; "
        "nothing was committed",
        where=where,
        hint="keep one of them in the query: row_number() OVER (PARTITION BY the keys ORDER BY …) = 1",
    )


def _described(rows: DataFrame, columns: Sequence[str]) -> str | None:
    row = rows.select(_text(columns)).first()
    return None if row is None else str(row[0])[:LONGEST]


def _text(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*map(column, columns)), {"ignoreNullFields": "false"})
