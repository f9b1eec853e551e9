"""Which rows a look-up is for: those that have one of some values, and the ranges in which these lie."""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

RANGES = 32
PLAIN = re.compile(r"[A-Za-z0-9_ .:@/-]*")
"""Texts that stand in a query as they are."""


@dataclass(frozen=True)
class KeyFilter:
    """Rows that have in each of some columns one of its values; instants are microseconds, NULL is a value too."""

    values: Mapping[str, tuple[Any, ...]]
    columns: tuple[str, ...]
    """What is asked of the rows."""

    def showing(self, *columns: str) -> KeyFilter:
        """The same rows with these columns too."""
        return replace(self, columns=tuple(dict.fromkeys([*self.columns, *columns])))

    def given(self, name: str) -> list[Any]:
        """The values of a column but NULL, each once."""
        return list(dict.fromkeys(one for one in self.values[name] if one is not None))

    def has_null(self, name: str) -> bool:
        return any(one is None for one in self.values[name])


def ranges(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    """A few ranges that hold all values, parted where the gaps between two are widest."""
    if not values:
        return []
    ordered = sorted(values)
    inner = range(1, len(ordered))
    if isinstance(ordered[0], str):  # texts have no distance
        parted = list(inner[:: max(1, len(ordered) // RANGES)])[: RANGES - 1]
    else:
        parted = sorted(heapq.nlargest(RANGES - 1, inner, key=lambda at: ordered[at] - ordered[at - 1]))
    return [(ordered[a], ordered[b - 1]) for a, b in itertools.pairwise([0, *parted, len(ordered)])]


def among(rows: pa.Table, key_filter: KeyFilter) -> pa.Table:
    """The rows that have in each column one of its values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in key_filter.values:
        kind = rows.schema.field(name).type
        sent = pa.int64() if pa.types.is_timestamp(kind) else kind
        found = pc.is_in(rows[name], pa.array(key_filter.given(name), sent).cast(kind))
        rows = rows.filter(pc.or_(found, pc.is_null(rows[name])) if key_filter.has_null(name) else found)
    return rows
