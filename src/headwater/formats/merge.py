"""MERGE of rows by key, as Delta and Iceberg run it."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.model import DELETED
from headwater.core.quotes import backticked
from headwater.formats.merge_hints import STORED_ROW, MergeHints


def merge_sql(target: str, source: str, columns: Sequence[str], keys: Sequence[str], known: MergeHints) -> str:
    """MERGE of rows by key, with deletes by `_deleted`."""
    # Equality that knows NULL is two conditions to a join.
    equals = "=" if known.no_nulls else "<=>"
    on = [f"{STORED_ROW}.{backticked(k)} {equals} s.{backticked(k)}" for k in keys]
    on += [f"({known.among})"] if known.among else []
    newer = f" AND ({_comes_after(known.newer_by)})" if known.newer_by else ""
    values = [c for c in columns if c not in keys]
    update = ", ".join(f"{STORED_ROW}.{backticked(c)} = s.{backticked(c)}" for c in values or keys)
    names = ", ".join(backticked(c) for c in columns)
    inserted = ", ".join(f"s.{backticked(c)}" for c in columns)
    # Every clause is a case that is looked at for each row of each file that is rewritten.
    delete = f"WHEN MATCHED AND s.{DELETED}{newer} THEN DELETE " if known.deletes else ""
    there = f" AND NOT s.{DELETED}" if known.deletes else ""
    return (
        f"MERGE INTO {target} {STORED_ROW} USING {source} s ON {' AND '.join(on)} {delete}"
        f"WHEN MATCHED{newer} THEN UPDATE SET {update} "
        f"WHEN NOT MATCHED{there} THEN INSERT ({names}) VALUES ({inserted})"
    )


def _comes_after(columns: Sequence[str]) -> str:
    """Whether a new row does by the first of the columns, or by the next where it has the same value; NULL is first."""
    new, stored = (f"{of}.{backticked(columns[0])}" for of in ("s", STORED_ROW))
    after = f"{new} > {stored} OR ({stored} IS NULL AND {new} IS NOT NULL)"
    return f"{after} OR ({new} <=> {stored} AND ({_comes_after(columns[1:])}))" if len(columns) > 1 else after
