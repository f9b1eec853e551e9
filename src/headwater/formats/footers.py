"""What the footers of Parquet files tell without reading a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

import pyarrow.parquet as pq

from headwater.core.storage import Files

_READERS = 8
T = TypeVar("T")


@dataclass(frozen=True)
class ColumnFooter:
    """One column of one or many files; None is 'the footers don't tell'."""

    bytes: int = 0
    nulls: int | None = 0
    min: Any = None
    max: Any = None
    complete: bool = True
    """Whether `min` and `max` hold for every row that is not null."""

    def joined(self, other: ColumnFooter) -> ColumnFooter:
        complete = self.complete and other.complete
        nulls = None if self.nulls is None or other.nulls is None else self.nulls + other.nulls
        return ColumnFooter(
            bytes=self.bytes + other.bytes,
            nulls=nulls,
            min=_extreme(min, self.min, other.min) if complete else None,
            max=_extreme(max, self.max, other.max) if complete else None,
            complete=complete,
        )


@dataclass(frozen=True)
class Footer:
    """One file, or many joined: its rows and top-level columns. Nested columns have only their bytes."""

    rows: int
    columns: dict[str, ColumnFooter] = field(default_factory=dict)

    def joined(self, other: Footer) -> Footer:
        names = dict.fromkeys([*self.columns, *other.columns])
        return Footer(
            self.rows + other.rows,
            {name: self._column(name).joined(other._column(name)) for name in names},
        )

    def _column(self, name: str) -> ColumnFooter:
        # A file written before the column was added holds only nulls of it.
        return self.columns.get(name) or ColumnFooter(nulls=self.rows)


def read_footers(files: Files, paths: Iterable[str]) -> dict[str, Footer]:
    """Path → footer, read side by side: on an object store each is a round trip or two."""
    return _each(files, paths, footer_of)


def read_metadata(files: Files, paths: Iterable[str]) -> dict[str, pq.FileMetaData]:
    """Path → all that the file's footer says."""
    return _each(files, paths, lambda metadata: metadata)


def row_counts(files: Files, paths: Iterable[str]) -> dict[str, int]:
    """Path → rows."""
    return _each(files, paths, lambda metadata: int(metadata.num_rows))


def joined(footers: Iterable[Footer]) -> Footer:
    """All files as if they were one."""
    total = Footer(0)
    for footer in footers:
        total = footer if total.rows == 0 and not total.columns else total.joined(footer)
    return total


def column_bytes(files: Files, paths: Sequence[str]) -> dict[str, int]:
    """Compressed bytes per top-level column over all the files."""
    return {name: found.bytes for name, found in joined(read_footers(files, paths).values()).columns.items()}


def _each(files: Files, paths: Iterable[str], take: Callable[[pq.FileMetaData], T]) -> dict[str, T]:
    def read(path: str) -> T:
        with files.reading(path) as file:
            return take(pq.read_metadata(file))

    wanted = list(paths)
    if len(wanted) < 2:
        return {path: read(path) for path in wanted}
    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(wanted, pool.map(read, wanted), strict=True))


def footer_of(metadata: pq.FileMetaData) -> Footer:
    """What the metadata of one file tell."""
    columns: dict[str, ColumnFooter] = {}
    top = [field.name for field in metadata.schema.to_arrow_schema()]
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            name, found = _chunk(chunk, top)
            columns[name] = columns[name].joined(found) if name in columns else found
    return Footer(metadata.num_rows, columns)


def _chunk(chunk: Any, top: Sequence[str]) -> tuple[str, ColumnFooter]:
    path: str = chunk.path_in_schema
    if path not in top:
        # The path joins names with dots, and names may hold dots: the longest that fits is meant.
        name = max((n for n in top if path.startswith(f"{n}.")), key=len, default=path)
        return name, ColumnFooter(bytes=chunk.total_compressed_size, nulls=None, complete=False)
    known = chunk.statistics if chunk.is_stats_set else None
    nulls = known.null_count if known is not None and known.has_null_count else None
    if known is not None and known.has_min_max:
        bounds = _bounds(known)
        return path, ColumnFooter(chunk.total_compressed_size, nulls, *bounds, complete=None not in bounds)
    all_null = nulls is not None and nulls == chunk.num_values
    return path, ColumnFooter(chunk.total_compressed_size, nulls, complete=all_null)


def _bounds(known: pq.Statistics) -> tuple[Any, Any]:
    """The least and greatest value; None for one that Python has no value for."""
    kind = known.logical_type
    if kind.type != "DECIMAL":
        try:
            return known.min, known.max
        except (OverflowError, ValueError):  # of a year beyond 1 to 9999
            return None, None
    scale = json.loads(kind.to_json())["scale"]  # pyarrow gives decimals only as they are stored
    return _decimal(known.min_raw, scale), _decimal(known.max_raw, scale)


def _decimal(raw: int | bytes, scale: int) -> Decimal:
    unscaled = raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _extreme(choose: Any, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)
