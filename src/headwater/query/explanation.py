"""What EXPLAIN says, as values: the engine and why, each table, what was read of it, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from headwater.core.model import Version


@dataclass(frozen=True)
class TableRead:
    """One place that reads a relation. None is 'not known'; figures of what was done are there after ANALYZE only."""

    relation: str
    format: str
    version: Version | None
    reader: str
    columns: tuple[str, ...] = ()
    """Those that are read."""
    columns_all: int | None = None
    conditions: tuple[str, ...] = ()
    """Those that reach the storage."""
    partitions_all: int | None = None
    partitions: int | None = None
    files_all: int | None = None
    files: int | None = None
    files_pruned_by_partition: int | None = None
    files_pruned_by_bounds: int | None = None
    row_groups_all: int | None = None
    """In the files that are read."""
    row_groups: int | None = None
    row_groups_skipped_by_bounds: int | None = None
    row_groups_skipped_by_bloom_filter: int | None = None
    row_groups_unknown: str = ""
    """Why the row groups of a query that was run are not known."""
    rows_all: int | None = None
    rows_estimated: int | None = None
    rows: int | None = None
    """That came out of the scan."""
    bytes_all: int | None = None
    bytes_estimated: int | None = None
    bytes: int | None = None
    """Of the columns that are read in the row groups that are read."""
    statistics_version: Version | None = None
    """At which statistics of its columns were gathered."""
    statistics_unused: str = ""
    """Why the estimates do without them."""

    def lines(self) -> Iterator[str]:
        version = "" if self.version is None else f" version {self.version}"
        yield f"{self.relation}: {self.format}{version}, by {self.reader}"
        columns = ", ".join(self.columns) or "none"
        yield f"  columns     {len(self.columns)} of {_described(self.columns_all)}: {columns}"
        if self.conditions:
            yield f"  conditions  {' AND '.join(self.conditions)}"
        if self.partitions_all is not None:
            yield f"  partitions  {_described(self.partitions)} of {self.partitions_all}"
        if self.files_all is not None:
            pruned = _why(
                ("by partition", self.files_pruned_by_partition), ("by min and max", self.files_pruned_by_bounds)
            )
            yield f"  files       {_described(self.files)} of {self.files_all}{pruned}"
        if self.row_groups_all is not None:
            skipped = _why(
                ("by min and max", self.row_groups_skipped_by_bounds),
                ("by bloom filter", self.row_groups_skipped_by_bloom_filter),
            )
            yield f"  row groups  {_described(self.row_groups)} of {self.row_groups_all}{skipped}"
        elif self.row_groups_unknown:
            yield f"  row groups  not known: {self.row_groups_unknown}"
        if self.statistics_version is not None:
            unused = f", not used: {self.statistics_unused}" if self.statistics_unused else ""
            yield f"  statistics  of version {self.statistics_version}{unused}"
        estimate = "" if self.rows_estimated is None else f", estimated {self.rows_estimated}"
        actual = "" if self.rows is None else f", came out {self.rows}"
        if self.rows_all is not None or estimate or actual:
            yield f"  rows        {_described(self.rows_all)} in all{estimate}{actual}"
        if self.bytes_all is not None:
            guess = "" if self.bytes_estimated is None else f", estimated {self.bytes_estimated}"
            read = "" if self.bytes is None else f", read {self.bytes}"
            yield f"  bytes       {self.bytes_all} in all{guess}{read}"


@dataclass(frozen=True)
class Broadcast:
    """A relation that Spark sends to every worker because of what the query's conditions leave of it."""

    relation: str
    bytes_all: int
    bytes: int
    statistics_version: Version | None = None
    """Whose statistics say so; None: partitions and bounds prove it."""

    def line(self) -> str:
        by = _by_statistics(self.statistics_version)
        return f"broadcast: {self.relation}: its conditions leave {self.bytes} of {self.bytes_all} bytes{by}"


@dataclass(frozen=True)
class Stage:
    """A part of the work, and how long it took."""

    name: str
    seconds: float
    rows: int | None = None


@dataclass(frozen=True)
class Explained:
    """A query before it is run, or after."""

    engine: str
    reason: str
    tables: tuple[TableRead, ...]
    analyzed: bool = False
    rows_estimated: int | None = None
    rows: int | None = None
    stages: tuple[Stage, ...] = ()
    plan: str = ""
    """The engine's own words."""
    broadcasts: tuple[Broadcast, ...] = ()

    @property
    def cost_estimated(self) -> int | None:
        """Bytes to be read, which is what a query costs in either engine; None where a table's are not known."""
        return _sum(table.bytes_estimated for table in self.tables)

    @property
    def cost(self) -> int | None:
        """Bytes that were read."""
        return _sum(table.bytes for table in self.tables)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "cost_estimated": self.cost_estimated, "cost": self.cost}

    def lines(self) -> list[str]:
        """For people."""
        found = [f"engine: {self.engine} ({self.reason})"]
        for table in self.tables:
            found += table.lines()
        found += [one.line() for one in self.broadcasts]
        if self.rows_estimated is not None or self.rows is not None:
            actual = "" if self.rows is None else f", actual {self.rows}"
            found.append(f"rows: estimated {_described(self.rows_estimated)}{actual}")
        if self.tables:
            actual = f", actual {_described(self.cost)}" if self.analyzed else ""
            found.append(f"cost: bytes to be read: estimated {_described(self.cost_estimated)}{actual}")
        for stage in self.stages:
            rows = "" if stage.rows is None else f", {stage.rows} rows"
            found.append(f"  {stage.name}: {stage.seconds * 1000:.1f} ms{rows}")
        return found


def _sum(parts: Iterable[int | None]) -> int | None:
    known = list(parts)
    return None if None in known else sum(part or 0 for part in known)


def _described(number: int | None) -> str:
    return "?" if number is None else str(number)


def _by_statistics(version: Version | None) -> str:
    return "" if version is None else f", by statistics of version {version}"


def _why(*reasons: tuple[str, int | None]) -> str:
    told = [f"{count} {reason}" for reason, count in reasons if count]
    return f" (left out: {', '.join(told)})" if told else ""
