"""How much a scan is thought to give, before it is run: rows, bytes, and how many values a column has.

By partitions and bounds of the files, and by statistics that were gathered, where there are some.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.formats.file_scan import ScannedFile
from headwater.query.duckdb.translation.terms import Origin
from headwater.query.gathered import Figures, Fitted
from headwater.query.predicates import Bounds, Compare, IsNull, OneOf, Predicate, columns
from headwater.query.statistics import merged, selectivity

if TYPE_CHECKING:
    from headwater.query.duckdb.eligibility import Chosen
    from headwater.query.duckdb.scans import DuckScan


def rows_left(one: Chosen, fitted: Fitted | None = None) -> int | None:
    """Rows that the conditions are thought to keep of the files that are read."""
    counts = [file.rows for file in one.files]
    if None in counts:
        return None
    share = 1.0
    for predicate in _own(one.scan):
        part = 1.0 if fitted is None else _part(one.scan, predicate)

        def known(origin: Any, part: float = part) -> Bounds | None:
            bounds = merged(_file_bounds(file, origin.column) for file in one.files)
            return _with_figures(bounds, None if fitted is None else fitted.column(origin.column), part)

        share *= selectivity(predicate, known)
    return round(sum(count or 0 for count in counts) * share)


def share_left(scan: DuckScan, fitted: Fitted | None = None) -> float:
    """The share of rows that the conditions are thought to keep where nothing is known of the files."""
    share = 1.0
    for predicate in _own(scan):
        share *= selectivity(predicate, lambda origin: _by_statistics(fitted, origin))
    return share


def share_by_statistics(scan: DuckScan, fitted: Fitted) -> float | None:
    """What is left by the conditions alone that gathered statistics speak of; None: there are none such."""
    shares = []
    for predicate in _own(scan):
        equal = isinstance(predicate, (OneOf, IsNull)) or (isinstance(predicate, Compare) and predicate.op == "=")
        known = [fitted.column(origin.column) for origin in columns(predicate)]
        if equal and all(one is not None and one.distinct is not None for one in known):
            share = selectivity(predicate, lambda origin: _by_statistics(fitted, origin))
            shares.append(min(1.0, share / _part(scan, predicate)))
    share = 1.0
    for one in shares:
        share *= one
    return share if shares else None


def bytes_read(one: Chosen, fitted: Fitted | None = None) -> int:
    """Bytes that a scan is thought to read: of the files that are left, the share that its columns are."""
    size, every = sum(file.bytes for file in one.files), one.scan.reading.schema.names
    if not every:
        return 0
    weights = {name: None if fitted is None else fitted.column(name) for name in every}
    known: dict[str, int] = {name: figures.bytes or 0 for name, figures in weights.items() if figures is not None}
    total: int = sum(known.values())
    if len(known) == len(weights) and total:
        return round(size * sum(known[name] for name in one.scan.columns) / total)
    return round(size * len(one.scan.columns) / len(every))


def _own(scan: DuckScan) -> list[Predicate]:
    """Conditions on this scan's columns alone: what also speaks of another's leaves any of its rows."""

    def own(origin: Any) -> bool:
        return isinstance(origin, Origin) and origin.scan is scan

    return [one for one in scan.predicates if all(map(own, columns(one)))]


def _part(scan: DuckScan, predicate: Predicate) -> float:
    """The share of a table's rows that lies in files which a condition alone would leave.

    Where values lie together, those files hold few other ones: of a tenth of the rows a tenth of the values.
    """
    files = scan.reading.files
    if files is None or not files.rows:
        return 1.0
    kept = (file.rows or 0 for file in files.files if scan.wanted(file, only_partition=False, by=(predicate,)))
    return sum(kept) / files.rows or 1.0


def _by_statistics(fitted: Fitted | None, origin: Any) -> Bounds | None:
    return _with_figures(None, None if fitted is None else fitted.column(origin.column), 1.0)


def _with_figures(bounds: Bounds | None, figures: Figures | None, part: float) -> Bounds | None:
    """Bounds of files with what was gathered of the column; `part` of its values are expected in them."""
    if figures is None:
        return bounds
    found = bounds or Bounds()
    if found.min is None or found.max is None:
        found = replace(found, min=figures.min, max=figures.max)
    if found.nulls is None or not found.rows:
        found = replace(found, nulls=round(figures.nulls * _PARTS), rows=_PARTS)
    return replace(found, distinct=None if figures.distinct is None else max(1, round(figures.distinct * part)))


_PARTS = 1_000_000
"""A share as whole numbers."""


def _file_bounds(file: ScannedFile, column: str) -> Bounds | None:
    if column in file.partition:
        value = file.partition[column]
        return Bounds(value, value, file.rows if value is None else 0, file.rows)
    found = file.bounds.get(column)
    return None if found is None else Bounds(found.min, found.max, found.nulls, file.rows)
