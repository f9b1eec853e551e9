"""The seam for table formats: what a format can do is data, what it does is one class for one table.

A format is a package `formats/<name>/` with `format.py` (a `Format` value, registered in
`formats/registry.py`), `spark.py` (a `SparkTable`) and, where a light library reads it exactly,
`light.py` (a `LightTable`, which never imports pyspark).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Code, TerminalError, Unsupported, UsageError
from headwater.core.model import DELETED, At, CommitTag, DataFile, TableStats, Version
from headwater.core.spec import Layout
from headwater.formats.followers import FollowedTable
from headwater.formats.locks import writing
from headwater.formats.merge_hints import MergeHints
from headwater.spark.session import SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headwater.formats.native import NativeTable


class Capability(Enum):
    """What a format may be able to do (the name), as a person would ask for it (the value)."""

    APPEND = "append rows"
    UPSERT = "upsert by key, with deletes"
    REPLACE = "replace the content in one commit"
    TIME_TRAVEL = "read at a version or time"
    CHANGES = "signed changes between two versions"
    CHANGES_MERGE_ON_READ = "signed changes of merge-on-read tables"
    MARKS = "repeat a step without doubling it"
    POSITIONS = "hold a step's positions in its commit"
    ADD_COLUMNS = "add columns, nested ones too"
    WIDEN_COLUMNS = "widen column types in place"
    PARTITION = "partition by columns"
    PARTITION_TRANSFORMS = "partition by expressions such as date(ts)"
    EVOLVE_PARTITIONING = "change the partitioning in place"
    COMPACT = "compact small files"
    CLUSTER = "cluster by z-order"
    EXPIRE = "expire old versions"
    FILES = "list live files"
    STATS = "column statistics"
    STREAM_READ = "Structured Streaming source of appended rows"
    STREAM_CHANGES = "Structured Streaming source of signed changes"
    STREAM_SINK = "exactly-once Structured Streaming sink, append"
    STREAM_UPSERT = "exactly-once Structured Streaming sink, upsert"
    ROW_GROUP_SIZE = "set the row group size"
    DICTIONARY = "switch dictionary encoding"
    BLOOM_FILTER = "Parquet bloom filters by column"
    STATISTICS = "switch Parquet statistics"
    TARGET_FILE_SIZE = "aim at a file size"
    LIGHT_READ = "read without a JVM"
    LIGHT_APPEND = "append small batches without Spark"


@dataclass(frozen=True)
class Address:
    """Where one table is: a path, or a name in a catalog (`lake.topics.orders`)."""

    path: str | None = None
    table: str | None = None

    def __str__(self) -> str:
        return self.table or self.path or "?"


@dataclass(frozen=True)
class LakeContext:
    """What a format has to know of the lake that its tables live in."""

    warehouse: str
    home: str
    """The folder `.headwater` beside the project file."""
    catalogs: Mapping[str, Any] = field(default_factory=dict)
    """Catalog name → its config model; `lake` is Iceberg's embedded one by default."""
    storage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """A table format as data; the planner reads it before Spark starts."""

    name: str
    title: str
    capabilities: frozenset[Capability]
    codecs: frozenset[str]
    widenings: frozenset[tuple[str, str]]
    """Pairs of Spark simple type names that `evolve` can do in place: ('int', 'bigint')."""
    notes: Mapping[Capability, str]
    """For a missing capability the reason; for one that is there, what to mind."""
    needs: Callable[[LakeContext], SessionNeeds]
    """Jars, extensions and settings that a session for this format must have."""
    address: Callable[[LakeContext, str, str], Address]
    """(surroundings, 'topics', 'orders') → where that table lies by default."""
    spark: Callable[[SparkSession, Address, LakeContext], SparkTable]
    light: Callable[[Address, LakeContext], NativeTable] | None = None
    merge_on_read: Mapping[str, str] = field(default_factory=dict)
    """The `options` of a layout that make a table merge-on-read."""
    fence: str | None = None
    """What keeps a late writer on another machine from committing; None: nothing does."""

    def can(self, capability: Capability) -> bool:
        return capability in self.capabilities

    def require(self, capability: Capability) -> None:
        if not self.can(capability):
            raise Unsupported(self.refusal(capability))

    def refusal(self, capability: Capability) -> str:
        reason = self.notes.get(capability)
        return f"{self.title} can't {capability.value}" + (f": {reason}" if reason else "")

    def require_codec(self, codec: str) -> None:
        if codec not in self.codecs:
            raise Unsupported(
                f"{self.title} can't write Parquet with '{codec}' compression",
                hint=f"it has {', '.join(sorted(self.codecs))}",
            )


class SparkTable(FollowedTable):
    """One table through Spark. Public methods check and repeat safely; `_names` do the format's work."""

    merges: bool = False
    """Whether an upsert is a MERGE that takes what `Merging` tells."""

    def __init__(self, spark: SparkSession, address: Address, around: LakeContext) -> None:
        self.spark = spark
        self.address = address
        self.around = around

    @property
    @abstractmethod
    def format(self) -> Format: ...

    # --- being there

    @abstractmethod
    def exists(self) -> bool: ...

    @abstractmethod
    def _create(self, schema: StructType, layout: Layout) -> None: ...

    @abstractmethod
    def drop(self) -> None:
        """Remove the table with its files. No error if it is not there."""

    @abstractmethod
    def schema(self) -> StructType:
        """The users' columns: without the format's own."""

    @abstractmethod
    def layout(self) -> Layout:
        """The layout it was created with, from the table's own properties; a foreign table's as far as known."""

    def create(self, schema: StructType, layout: Layout | None = None) -> None:
        layout = layout or Layout()
        with self._unborn(schema, layout):
            self._create(schema, layout)

    def create_with(self, df: DataFrame, layout: Layout | None = None, mark: CommitTag | None = None) -> Version:
        """Create the table with its first rows: in one commit where the format can."""
        self.format.require(Capability.APPEND)
        layout = layout or Layout()
        with self._unborn(df.schema, layout):
            return self._create_with(df, layout, mark)

    # --- writing: one commit each, marked by the step that makes it

    def append(self, df: DataFrame, mark: CommitTag | None = None, *, check: bool = True) -> Version:
        """Add rows. Columns go by name; the schema must fit (call `evolve` first).

        Without `check` it is not looked up first whether the step has landed.
        """
        self.format.require(Capability.APPEND)
        return self._once(mark if check else None, lambda: self._append(self._aligned(df), mark))

    def upsert(
        self, df: DataFrame, mark: CommitTag | None = None, *, keys: Sequence[str] = (), known: MergeHints | None = None
    ) -> Version:
        """Write rows by key (the layout's keys by default), at most one per key; `_deleted` marks deletes."""
        self.format.require(Capability.UPSERT)
        keys = tuple(keys) or self.layout().keys
        if not keys:
            raise UsageError(Code.USAGE, f"upsert into {self.address} needs keys, and the table has none")
        if known is not None and known.newer_by and not self.merges:
            raise Unsupported(f"{self.format.title} can't compare an upsert's rows with those that are stored")
        told = replace(known or MergeHints(), deletes=DELETED in df.columns)
        return self._once(mark, lambda: self._merge(self._aligned(df, deletes=True), keys, mark, told))

    def replace(self, df: DataFrame, mark: CommitTag | None = None) -> Version:
        """Make these rows the table's whole content, in one commit. `df` may read the table itself."""
        self.format.require(Capability.REPLACE)
        return self._once(mark, lambda: self._replace(self._aligned(df), mark))

    def landed(self, mark: CommitTag) -> Version | None:
        """The version that this step made, or None if it has not landed."""
        self.format.require(Capability.MARKS)
        return self._landed(mark)

    # --- reading

    @abstractmethod
    def version(self) -> Version | None:
        """The latest version; None for a table that has none yet."""

    @abstractmethod
    def version_at(self, at: At) -> Version:
        """The version that `at` names; NO_SUCH_VERSION if there is none or it has been expired."""

    @abstractmethod
    def _read(self, version: Version | None) -> DataFrame: ...

    def read(self, at: At | None = None) -> DataFrame:
        """The rows at a version or time; the latest by default. Fixed to that version from then on."""
        if at is not None:
            self.format.require(Capability.TIME_TRAVEL)
        return self._read(None if at is None else self.version_at(at))

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """Rows with `_weight` +1 or -1 that lead from `start` (exclusive; None: from nothing) to `end`.

        Summed by row it is exactly the difference of the two states; a row may come and go within it.
        """
        self.format.require(Capability.CHANGES)
        return self._changes(start, end)

    # --- evolving and looking after

    def evolve(self, schema: StructType) -> None:
        """Add the columns (nested ones too) and widen the types that lead to `schema`, where it can be done.

        Columns that `schema` lacks stay. A change that can't be done in place is SCHEMA_MISMATCH.
        """
        self.format.require(Capability.ADD_COLUMNS)
        with writing(self.address):
            self._evolve(schema)

    def repartition(self, partition_by: Sequence[str]) -> None:
        """Lay out what is written from now on by other columns or expressions; files stay as they are."""
        self.format.require(Capability.EVOLVE_PARTITIONING)
        with writing(self.address):
            self._repartition(tuple(partition_by))

    def compact(self, target_file_size: int | None = None) -> None:
        """Join small files. Changes no row; `changes` over it gives none."""
        self.format.require(Capability.COMPACT)
        with writing(self.address):
            self._compact(target_file_size or self.layout().target_file_size or DEFAULT_FILE_SIZE)

    def cluster(self, columns: Sequence[str] = ()) -> None:
        """Sort by z-order of the columns (the layout's by default). Changes no row."""
        self.format.require(Capability.CLUSTER)
        columns = tuple(columns) or self.layout().z_order_by
        if not columns:
            raise UsageError(Code.USAGE, f"{self.address} has no z_order_by to cluster by")
        with writing(self.address):
            self._cluster(columns)

    def expire(self, older_than: datetime, keep: Collection[Version] = ()) -> list[Version]:
        """Forget versions older than a time, and delete what only they need; returns what went.

        Never the latest, never those in `keep` nor any between the oldest of `keep` and now
        (changes are read over them); and `landed` still answers for the newest step of each flow.
        """
        self.format.require(Capability.EXPIRE)
        with writing(self.address):
            return self._expire(older_than, frozenset(keep))

    def files(self, at: At | None = None) -> list[DataFile]:
        """The live files, from the table's metadata."""
        self.format.require(Capability.FILES)
        return self._files(None if at is None else self.version_at(at))

    def stats(self) -> TableStats:
        """Rows, bytes, files, and per column nulls, distinct estimate, min, max, bytes."""
        self.format.require(Capability.STATS)
        return self._stats()

    def read_stream(self, *, changes: bool = False, start: At | None = None, consumer: str = "stream") -> DataFrame:
        """A streaming DataFrame: appended rows, or with `changes` signed changes in `_weight`.

        Without `start` the table's present rows come first (as +1), then what follows them; with `start`
        only what came after that version. Updates and deletes show in `changes` alone: without it a stream
        gives new rows and new states of rows. A restart from the query's checkpoint neither loses nor repeats
        a row; `consumer` names the query where the format has to keep something for it.
        """
        self.format.require(Capability.STREAM_CHANGES if changes else Capability.STREAM_READ)
        return self._read_stream(changes, start, consumer)

    # --- what a format that states the capability brings

    def _create_with(self, df: DataFrame, layout: Layout, mark: CommitTag | None) -> Version:
        self._create(df.schema, layout)
        return self._append(self._aligned(df), mark)

    def _append(self, df: DataFrame, mark: CommitTag | None) -> Version:
        raise NotImplementedError

    def _upsert(self, df: DataFrame, keys: Sequence[str], mark: CommitTag | None) -> Version:
        raise NotImplementedError

    def _merge(self, df: DataFrame, keys: Sequence[str], mark: CommitTag | None, known: MergeHints) -> Version:
        return self._upsert(df, keys, mark)

    def _replace(self, df: DataFrame, mark: CommitTag | None) -> Version:
        raise NotImplementedError

    def _landed(self, mark: CommitTag) -> Version | None:
        raise NotImplementedError

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        raise NotImplementedError

    def _evolve(self, schema: StructType) -> None:
        raise NotImplementedError

    def _repartition(self, partition_by: Sequence[str]) -> None:
        raise NotImplementedError

    def _compact(self, target_file_size: int) -> None:
        raise NotImplementedError

    def _cluster(self, columns: Sequence[str]) -> None:
        raise NotImplementedError

    def _expire(self, older_than: datetime, keep: frozenset[Version]) -> list[Version]:
        raise NotImplementedError

    def _files(self, version: Version | None) -> list[DataFile]:
        raise NotImplementedError

    def _stats(self) -> TableStats:
        raise NotImplementedError

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        raise NotImplementedError

    # --- shared above the seam

    def _once(self, mark: CommitTag | None, write: Callable[[], Version]) -> Version:
        with writing(self.address):
            landed = None if mark is None else self.landed(mark)
            return write() if landed is None else landed

    @contextmanager
    def _unborn(self, schema: StructType, layout: Layout) -> Iterator[None]:
        self._check_layout(schema, layout)
        with writing(self.address):
            if self.exists():
                raise UsageError(Code.ALREADY_EXISTS, f"{self.format.title} table {self.address} exists already")
            yield

    def _aligned(self, df: DataFrame, *, deletes: bool = False) -> DataFrame:
        from headwater.formats.evolution import aligned

        return aligned(df, self.schema(), self.address, deletes=deletes)

    def _check_layout(self, schema: StructType, layout: Layout) -> None:
        from headwater.formats.evolution import check_layout

        check_layout(self.format, schema, layout)

    def _no_such_version(self, at: At) -> TerminalError:
        return TerminalError(
            Code.NO_SUCH_VERSION,
            f"{self.format.title} table {self.address} has no version {at}",
            hint="its history lists the versions that can be read",
        )


DEFAULT_FILE_SIZE = 128 * 1024 * 1024
