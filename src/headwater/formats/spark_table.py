"""The Spark side of a format: one class for one table, which the layers above read, write and follow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from headwater.core.errors import Code, TerminalError, Unsupported, UsageError
from headwater.core.model import DELETED, At, CommitTag, DataFile, Expiry, Rewrite, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import DEFAULT_FILE_SIZE, Address, Capability, Format, LakeContext
from headwater.formats.evolution import aligned, check_layout
from headwater.formats.followers import FollowedTable
from headwater.formats.locks import writing
from headwater.formats.maintenance.orphans import remove
from headwater.formats.maintenance.rewrite import SMALL, WORN, RewriteScope
from headwater.formats.merge_hints import MergeHints

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class SparkTable(FollowedTable):
    """One table through Spark. The layers above get one from the warehouse and call its public methods, which check,
    take the table's lock and repeat safely; those call the `_names`, in which a format does its work.
    """

    merges: bool = False
    """Whether an upsert is a MERGE that takes what `Merging` tells."""

    def __init__(self, format: Format, spark: SparkSession, address: Address, context: LakeContext) -> None:
        self.format = format
        self.spark = spark
        self.address = address
        self.context = context

    # --- being there

    @abstractmethod
    def exists(self) -> bool:
        """Whether the table is there. Flows ask before their first step; whatever reads it asks first."""

    @abstractmethod
    def _create(self, schema: StructType, layout: Layout) -> None:
        """Make the empty table. Called by `create`, which has found none and holds the lock."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the table with its files. No error if it is not there. Called when people drop a relation, and by
        builds alongside a table before they begin and when they end."""

    @abstractmethod
    def schema(self) -> StructType:
        """The users' columns: without the format's own. Called before each write, to bring the rows into its order, and
        by whoever describes the table."""

    @abstractmethod
    def layout(self) -> Layout:
        """The layout it was created with, from the table's own properties; a foreign table's as far as known. Called by
        upserts (its keys), by compaction (its file size) and by whoever describes or copies the table."""

    def create(self, schema: StructType, layout: Layout | None = None) -> None:
        """Make an empty table; ALREADY_EXISTS if there is one. Called by tables, views and copies before their first
        rows; topics use `create_with`."""
        layout = layout or Layout()
        with self._unborn(schema, layout):
            self._create(schema, layout)

    def create_with(self, df: DataFrame, layout: Layout | None = None, commit_tag: CommitTag | None = None) -> Version:
        """Create the table with its first rows: in one commit where the format can. Called by a topic's first step."""
        self.format.require(Capability.APPEND)
        layout = layout or Layout()
        with self._unborn(df.schema, layout):
            return self._create_with(df, layout, commit_tag)

    # --- writing: one commit each, marked by the step that makes it

    def append(self, df: DataFrame, commit_tag: CommitTag | None = None, *, check: bool = True) -> Version:
        """Add rows. Columns go by name; the schema must fit (call `evolve` first). Called by the steps of topics, and
        of tables and views whose change only adds rows; once for a step, and again if the step is tried again.

        Without `check` it is not looked up first whether the step has landed.
        """
        self.format.require(Capability.APPEND)
        return self._once(commit_tag if check else None, lambda: self._append(self._aligned(df), commit_tag))

    def upsert(
        self,
        df: DataFrame,
        commit_tag: CommitTag | None = None,
        *,
        keys: Sequence[str] = (),
        known: MergeHints | None = None,
    ) -> Version:
        """Write rows by key (the layout's keys by default), at most one per key; `_deleted` marks deletes. Called by
        the steps of tables and views, by dead letters, and where rows are put into reference tables by hand."""
        self.format.require(Capability.UPSERT)
        keys = tuple(keys) or self.layout().keys
        if not keys:
            raise UsageError(Code.USAGE, f"upsert into {self.address} needs keys, and the table has none")
        if known is not None and known.newer_by and not self.merges:
            raise Unsupported(f"{self.format.title} can't compare an upsert's rows with those that are stored")
        told = replace(known or MergeHints(), deletes=DELETED in df.columns)
        return self._once(commit_tag, lambda: self._merge(self._aligned(df, deletes=True), keys, commit_tag, told))

    def replace(self, df: DataFrame, commit_tag: CommitTag | None = None) -> Version:
        """Make these rows the table's whole content, in one commit. `df` may read the table itself. Called by full
        refreshes, by seeds, and by restore, replay and remap."""
        self.format.require(Capability.REPLACE)
        return self._once(commit_tag, lambda: self._replace(self._aligned(df), commit_tag))

    def remove(self, where: str, commit_tag: CommitTag) -> Version:
        """Remove the rows that meet a condition in SQL, by one commit; `changes` gives them as gone, and nothing else.
        Called by retention."""
        self.format.require(Capability.REPLACE)
        return self._once(commit_tag, lambda: self._remove(where, commit_tag))

    def landed(self, commit_tag: CommitTag) -> Version | None:
        """The version that this step made, or None if it has not landed. Called when a flow begins, for its last
        intent, and before each write."""
        self.format.require(Capability.COMMIT_TAGS)
        return self._landed(commit_tag)

    # --- reading

    @abstractmethod
    def version(self) -> Version | None:
        """The latest version; None for a table that has none yet. Called at each look for something new, when a query
        is planned, and after a commit."""

    @abstractmethod
    def version_at(self, at: At) -> Version:
        """The version that `at` names; NO_SUCH_VERSION if there is none or it has been expired. Called for `VERSION AS
        OF`, `TIMESTAMP AS OF` and wherever the API takes a version or time."""

    @abstractmethod
    def _read(self, version: Version | None) -> DataFrame:
        """The rows of a version, the latest for None. Called by `read`, which has resolved a time to its version."""

    def read(self, at: At | None = None) -> DataFrame:
        """The rows at a version or time; the latest by default. Fixed to that version from then on. Called by queries
        on Spark, by refreshes and steps that look rows up, and by `relation.df()`."""
        if at is not None:
            self.format.require(Capability.TIME_TRAVEL)
        return self._read(None if at is None else self.version_at(at))

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """Rows with `_weight` +1 or -1 that lead from `start` (exclusive; None: from nothing) to `end`. Called by each
        step of what is made of this table, by `changes('x', …)` in SQL and by `diff`.

        Summed by row it is exactly the difference of the two states; a row may come and go within it.
        """
        self.format.require(Capability.CHANGES)
        return self._changes(start, end)

    # --- evolving and looking after

    def evolve(self, schema: StructType) -> None:
        """Add the columns (nested ones too) and widen the types that lead to `schema`, where it can be done. Called by
        a step before it writes rows of a schema that has grown, and before a rebuilt table is swapped in.

        Columns that `schema` lacks stay. A change that can't be done in place is SCHEMA_MISMATCH.
        """
        self.format.require(Capability.ADD_COLUMNS)
        with writing(self.address):
            self._evolve(schema)

    def repartition(self, partition_by: Sequence[str]) -> None:
        """Lay out what is written from now on by other columns or expressions; files stay as they are. Called before
        the flows begin, where the project's `partition_by` has changed."""
        self.format.require(Capability.EVOLVE_PARTITIONING)
        with writing(self.address):
            self._repartition(tuple(partition_by))

    def compact(
        self,
        target_file_size: int | None = None,
        *,
        partitions: Collection[Mapping[str, str | None]] | None = None,
        max_bytes: int | None = None,
        deleted_share: float = WORN,
        small_share: float = SMALL,
    ) -> Rewrite | None:
        """Join small files, and rewrite files of whose rows more than `deleted_share` are deleted, by one commit;
        None: nothing is to do. Changes no row, which is checked; `changes` over it gives none. Called by maintenance,
        piece by piece until nothing is to do, and by `headwater parquet compact`.

        `partitions` are the only ones to look at, each told by some of its columns; `max_bytes` bounds what is read. A
        file is small under `small_share` of the target.
        NOT_ROW_NEUTRAL: the rewrite would have changed rows, and the table is as before. COMMIT_FAILED: another writer
        came first, and it may be tried again.
        """
        self.format.require(Capability.COMPACT)
        target = target_file_size or self.layout().target_file_size or DEFAULT_FILE_SIZE
        chosen = None if partitions is None else tuple(partitions)
        return self._compact(RewriteScope(target, chosen, max_bytes, deleted_share, small_share))

    def cluster(
        self,
        columns: Sequence[str] = (),
        *,
        partitions: Collection[Mapping[str, str | None]] | None = None,
        max_bytes: int | None = None,
    ) -> Rewrite | None:
        """Sort files that are not sorted yet by z-order of the columns (the layout's by default), by one commit; None:
        all are. Changes no row, as `compact`. Called by maintenance, and by `headwater parquet convert --z-order-by`,
        on the copy."""
        self.format.require(Capability.CLUSTER)
        layout = self.layout()
        columns = tuple(columns) or layout.z_order_by
        if not columns:
            raise UsageError(Code.USAGE, f"{self.address} has no z_order_by to cluster by")
        chosen = None if partitions is None else tuple(partitions)
        scope = RewriteScope(layout.target_file_size or DEFAULT_FILE_SIZE, chosen, max_bytes)
        return self._cluster(tuple(columns), scope)

    def expire(self, older_than: datetime, keep: Collection[Version] = (), *, dry_run: bool = False) -> Expiry:
        """Forget versions older than a time, and delete what only they need; returns what went, or with `dry_run` what
        would go. Called by `relation.expire()` and by maintenance, which say what to keep.

        Never the latest, never those in `keep` nor any between the oldest of `keep` and now
        (changes are read over them); and `landed` still answers for the newest step of each flow.
        """
        self.format.require(Capability.EXPIRE)
        with writing(self.address):
            return self._expire(older_than, frozenset(keep), dry_run)

    def orphans(self, older_than: datetime) -> list[DataFile]:
        """The files in the table's place that no commit which can still be read names, and that are older than a time:
        what writers that were ended have left. Called by maintenance, which then calls `remove_files`.

        REFERENCE_UNREADABLE if not everything that may name a file can be read: then nothing is known to be one.
        Leave a day at least: a file is older than the commit that will name it.
        """
        self.format.require(Capability.ORPHANS)
        with writing(self.address):
            return self._orphans(older_than)

    def remove_files(self, paths: Collection[str]) -> int:
        """Delete files that `orphans` has named; returns how many. Called by maintenance."""
        self.format.require(Capability.ORPHANS)
        with writing(self.address):
            return self._remove_files(tuple(paths))

    def optimize_metadata(self) -> bool:
        """Make the table's own records quick to read: a checkpoint of Delta's or Parquet's log, fewer manifests in
        Iceberg. Changes no row and makes no version that changes differ over; False: there was nothing to do, or the
        format does it by itself. Called by maintenance."""
        with writing(self.address):
            return self._optimize_metadata()

    def renew(self, rows: DataFrame | None = None) -> Version:
        """Write all rows, or `rows` instead of them, into new files. The last commit names no older file, neither by
        its statistics, and has the newest tag of each flow, so that all before it can go. Called by erasure."""
        self.format.require(Capability.REPLACE)
        with writing(self.address):
            return self._renew(self._read(None) if rows is None else self._aligned(rows))

    def erase_past(self) -> list[Version]:
        """Delete every version but the latest at once, with the metadata that tells of their rows, whoever may need
        them; returns what went. Called by erasure, after `renew`, when all that read the table has read on."""
        self.format.require(Capability.EXPIRE)
        with writing(self.address):
            return self._erase_past()

    def files(self, at: At | None = None) -> list[DataFile]:
        """The live files, from the table's metadata. Called for sizes (`describe`, costs of a refresh, the order of
        joins) and by `headwater parquet stats --files`."""
        self.format.require(Capability.FILES)
        return self._files(None if at is None else self.version_at(at))

    def stats(self) -> TableStats:
        """Rows, bytes, files, and per column nulls, distinct estimate, min, max, bytes. Called by `headwater parquet
        stats`, which keeps them for the planning of queries."""
        self.format.require(Capability.STATS)
        return self._stats()

    def read_stream(self, *, changes: bool = False, start: At | None = None, consumer: str = "stream") -> DataFrame:
        """A streaming DataFrame: appended rows, or with `changes` signed changes in `_weight`. Called by
        `relation.read_stream()` and for each input of a `@transform(streaming=True)`.

        Without `start` the table's present rows come first (as +1), then what follows them; with `start`
        only what came after that version. Updates and deletes show in `changes` alone: without it a stream
        gives new rows and new states of rows. A restart from the query's checkpoint neither loses nor repeats
        a row; `consumer` names the query where the format has to keep something for it.
        """
        self.format.require(Capability.STREAM_CHANGES if changes else Capability.STREAM_READ)
        return self._read_stream(changes, start, consumer)

    # --- what a format that states the capability brings. The public method of the same name calls each, under the
    # table's lock where it writes, when the capability, the schema and the commit tag have been checked.

    def _create_with(self, df: DataFrame, layout: Layout, commit_tag: CommitTag | None) -> Version:
        """Called by `create_with`. A format that can do it in one commit says so itself."""
        self._create(df.schema, layout)
        return self._append(self._aligned(df), commit_tag)

    def _append(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        """Called by `append`, with the table's columns in its order. One commit, which carries the tag."""
        raise NotImplementedError

    def _upsert(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        """Called by `_merge` of a format whose upserts take no hints. One commit, which carries the tag."""
        raise NotImplementedError

    def _merge(self, df: DataFrame, keys: Sequence[str], commit_tag: CommitTag | None, known: MergeHints) -> Version:
        """Called by `upsert`, with what the caller knows of the rows. One commit, which carries the tag."""
        return self._upsert(df, keys, commit_tag)

    def _replace(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        """Called by `replace`. One commit, which carries the tag."""
        raise NotImplementedError

    def _remove(self, where: str, commit_tag: CommitTag) -> Version:
        """Called by `remove`. One commit, which carries the tag; here all rows that stay are written again."""
        from pyspark.sql import functions as F

        return self._replace(self._read(None).where(~F.coalesce(F.expr(where), F.lit(False))), commit_tag)

    def _landed(self, commit_tag: CommitTag) -> Version | None:
        """Called by `landed`: looks for the tag in the table's own commits."""
        raise NotImplementedError

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        """Called by `changes`."""
        raise NotImplementedError

    def _evolve(self, schema: StructType) -> None:
        """Called by `evolve`; raises SCHEMA_MISMATCH for what can't be done in place."""
        raise NotImplementedError

    def _repartition(self, partition_by: Sequence[str]) -> None:
        """Called by `repartition`."""
        raise NotImplementedError

    def _compact(self, scope: RewriteScope) -> Rewrite | None:
        """Called by `compact`, without the table's lock: files may take long to write, and only the commit needs it."""
        raise NotImplementedError

    def _cluster(self, columns: Sequence[str], scope: RewriteScope) -> Rewrite | None:
        """Called by `cluster`, with one column at least, without the lock as `_compact`."""
        raise NotImplementedError

    def _expire(self, older_than: datetime, keep: frozenset[Version], dry_run: bool) -> Expiry:
        """Called by `expire`."""
        raise NotImplementedError

    def _renew(self, rows: DataFrame) -> Version:
        """Called by `renew`. The commit that replaces the rows may still tell of those that went: others follow."""
        newest = {c.commit_tag.flow: c.commit_tag for c in reversed(self.history()) if c.commit_tag is not None}
        self._replace(rows, None)
        nothing = self.spark.createDataFrame([], self.schema())
        return [self._append(nothing, commit_tag) for commit_tag in newest.values() or [None]][-1]

    def _erase_past(self) -> list[Version]:
        """Called by `erase_past`."""
        gone = list(self._expire(datetime.now(timezone.utc), frozenset(), dry_run=False).versions)
        self._erase_orphans()
        return gone

    def _erase_orphans(self) -> None:
        """Remove what writers that were ended have left: it may hold the rows too, however young it is. Called by
        `_erase_past`, while no flow writes the table."""
        if self.format.can(Capability.ORPHANS):
            self._remove_files([file.path for file in self._orphans(datetime.now(timezone.utc))])

    def _orphans(self, older_than: datetime) -> list[DataFile]:
        """Called by `orphans`."""
        raise NotImplementedError

    def _remove_files(self, paths: Sequence[str]) -> int:
        """Called by `remove_files`. A format whose tables don't lie in a folder of their own says where they do."""
        return remove(Files(self.address.path or "", self.context.storage), paths)

    def _optimize_metadata(self) -> bool:
        """Called by `optimize_metadata`."""
        return False

    def _files(self, version: Version | None) -> list[DataFile]:
        """Called by `files`; the latest version's for None."""
        raise NotImplementedError

    def _stats(self) -> TableStats:
        """Called by `stats`."""
        raise NotImplementedError

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        """Called by `read_stream`."""
        raise NotImplementedError

    # --- shared above the seam

    def _once(self, commit_tag: CommitTag | None, write: Callable[[], Version]) -> Version:
        with writing(self.address):
            landed = None if commit_tag is None else self.landed(commit_tag)
            return write() if landed is None else landed

    @contextmanager
    def _unborn(self, schema: StructType, layout: Layout) -> Iterator[None]:
        self._check_layout(schema, layout)
        with writing(self.address):
            if self.exists():
                raise UsageError(Code.ALREADY_EXISTS, f"{self.format.title} table {self.address} exists already")
            yield

    def _aligned(self, df: DataFrame, *, deletes: bool = False) -> DataFrame:
        return aligned(df, self.schema(), self.address, deletes=deletes)

    def _check_layout(self, schema: StructType, layout: Layout) -> None:
        check_layout(self.format, schema, layout)

    def _no_such_version(self, at: At) -> TerminalError:
        return TerminalError(
            Code.NO_SUCH_VERSION,
            f"{self.format.title} table {self.address} has no version {at}",
            hint="its history lists the versions that can be read",
        )
