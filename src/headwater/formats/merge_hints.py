"""What is known of an upsert, alongside its rows, that makes a MERGE quicker."""

from __future__ import annotations

from dataclasses import dataclass

STORED_ROW = "t"
"""What a stored row is called in a MERGE."""


@dataclass(frozen=True)
class MergeHints:
    """What is known of an upsert's rows alongside their keys. A format that does not merge goes without."""

    newer_by: tuple[str, ...] = ()
    """A stored row stays unless the new one comes after it by these columns, one after the other, NULL first.
    Only for a table that `merges`."""
    among: str | None = None
    """SQL that every STORED_ROW with one of the keys meets: files without such rows are not read."""
    deletes: bool = True
    """Some rows may be deletes."""
    no_nulls: bool = False
    """No key is NULL."""
    persisted: bool = False
    """The rows are held, and are the same however often they are read."""
