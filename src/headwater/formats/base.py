"""The seam for table formats: what a format can do is data, what it does is one class for one table.

A format is a package `formats/<name>/` with `format.py` (a `Format` value, registered in
`formats/registry.py`), `spark.py` (a `SparkTable`) and, where a library without a JVM reads it exactly,
`native.py` (a `NativeTable`, which never imports pyspark).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Unsupported
from headwater.core.model import Version
from headwater.spark.session import SessionNeeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.interop.seam import InteropTarget, SharedVersion
    from headwater.formats.native import NativeTable
    from headwater.formats.spark_table import SparkTable


class Capability(Enum):
    """What a format may be able to do (the name), as a person would ask for it (the value)."""

    APPEND = "append rows"
    UPSERT = "upsert by key, with deletes"
    REPLACE = "replace the content in one commit"
    TIME_TRAVEL = "read at a version or time"
    CHANGES = "signed changes between two versions"
    CHANGES_MERGE_ON_READ = "signed changes of merge-on-read tables"
    COMMIT_TAGS = "repeat a step without doubling it"
    POSITIONS = "hold a step's positions in its commit"
    ADD_COLUMNS = "add columns, nested ones too"
    WIDEN_COLUMNS = "widen column types in place"
    PARTITION = "partition by columns"
    PARTITION_TRANSFORMS = "partition by expressions such as date(ts)"
    EVOLVE_PARTITIONING = "change the partitioning in place"
    COMPACT = "compact small files"
    CLUSTER = "cluster by z-order"
    EXPIRE = "expire old versions"
    ORPHANS = "find files that nothing names"
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
    NATIVE_READ = "read without a JVM"
    NATIVE_APPEND = "append small batches without Spark"


class Lookup(Enum):
    """What a native reader may tell of a table besides its rows, as messages name it."""

    HISTORY = "history"
    SCHEMA = "schema"
    LAYOUT = "layout"
    FILES = "list of files"
    STATS = "column statistics"
    LANDED = "steps"


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
    """The folder `.headwater` next to the project file."""
    catalogs: Mapping[str, Any] = field(default_factory=dict)
    """Catalog name → its config model; `lake` is Iceberg's embedded one by default."""
    storage: Mapping[str, Any] = field(default_factory=dict)


def _none(path: str) -> bool:
    return False


@dataclass(frozen=True)
class TableCut:
    """A table at its latest version, as a backup takes it. Made by a format's `cut`, without Spark.

    Files of tables are written once under names of their own, and a commit is the last of them. So a table at a version
    is what lies in its folder, without the records of later commits.
    """

    folder: str
    """Where the table lies, in full."""
    version: Version | None
    """None: it was made, and nothing has been committed yet."""
    metadata: tuple[str, ...]
    """The folders in it that hold the table's records; all else is data."""
    is_later: Callable[[str], bool] = field(default=_none, compare=False)
    """Whether a file, by its path in the folder, is the record of a later commit."""
    replaced: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the folder that point to the latest commit: what they have to say at this one."""
    notes: Mapping[str, bytes] = field(default_factory=dict)
    """Files of the lake that say which state is the table's."""
    at_rest: tuple[str, ...] = ()
    """Folders whose files are replaced, so that they make a state only if nothing changes while they are copied."""
    state: str = ""
    """What else tells one state from another, where the version alone does not."""

    def is_metadata(self, path: str) -> bool:
        return path.split("/", 1)[0] in self.metadata

    def must_rest(self, path: str) -> bool:
        return path.split("/", 1)[0] in self.at_rest


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
    """(context, 'topics', 'orders') → where that table lies by default."""
    spark: Callable[[SparkSession, Address, LakeContext], SparkTable]
    native: Callable[[Address, LakeContext], NativeTable] | None = None
    library: str | None = None
    """The Python package, not ours, that reads its tables without a JVM: exports are read back by it."""
    lookups: frozenset[Lookup] = frozenset()
    """What its native reader tells exactly as Spark does; for the others commands start Spark."""
    merge_on_read: Mapping[str, str] = field(default_factory=dict)
    """The `options` of a layout that make a table merge-on-read."""
    catalog: str | None = None
    """The catalog of tables that are given no place; None: its tables lie in folders."""
    in_catalogs: bool = False
    """Whether its tables may lie in a catalog of the project file."""
    marker: str | None = None
    """The folder inside of a table's folder that tells the format."""
    cut: Callable[[Address, LakeContext], TableCut | None] | None = None
    """Which files are a table's latest version, for a backup; None: its tables can't be backed up."""
    shared: Callable[[Address, LakeContext], SharedVersion] | None = None
    """A table's latest version as data files that tables of other formats may name; None: it has no such files."""
    not_shared: str = "they need its own reader"
    """Why there is no `shared`."""
    interop: Callable[[Address, LakeContext], InteropTarget] | None = None
    """A table over the data files of another format's; None: it can't name files that it has not written."""
    not_interop: str = "its tables name only files that it has written"
    """Why there is no `interop`."""
    interop_address: Callable[[LakeContext, str, str, str], Address] | None = None
    """(context, 'topics', 'orders', the folder of the files) → where such a table is."""
    widens_files: bool = False
    """Whether it reads a column whose type was widened in files from before."""
    fence: str | None = None
    """What keeps a late writer on another machine from committing; None: nothing does."""

    erases: bool = False
    """Whether it has been shown that nothing of erased rows stays in its files and metadata."""

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


DEFAULT_FILE_SIZE = 128 * 1024 * 1024
