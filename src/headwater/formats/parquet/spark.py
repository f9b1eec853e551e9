"""A plain Parquet table through Spark: files that are only ever added to, and a log that names them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwater.core.errors import Code, TerminalError, TransientError
from headwater.core.model import At, Commit, CommitTag, DataFile, Expiry, Rewrite, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import DEFAULT_FILE_SIZE, Address, Format, LakeContext
from headwater.formats.evolution import can_widen, cannot_retype
from headwater.formats.feed import drop_feeds, open_feed
from headwater.formats.footers import column_bytes
from headwater.formats.locks import writing
from headwater.formats.maintenance.orphans import inside
from headwater.formats.maintenance.proof import measure, measured_on_the_way, require_same
from headwater.formats.maintenance.rewrite import RewriteScope, described
from headwater.formats.parquet import log as entries
from headwater.formats.parquet import maintenance
from headwater.formats.parquet.log import Log, LogEntry, TableLogFile, TableState, commit_time
from headwater.formats.parquet.rows import read_files
from headwater.formats.parquet.schemas import as_json, check_schema, evolved, loosened, schema_of
from headwater.formats.parquet.staged_files import Attempt, clear, step_label
from headwater.formats.spark_table import SparkTable
from headwater.formats.stats import table_stats
from headwater.schema.changes import Retype, schema_changes
from headwater.spark.frames import signed

_TOO_LARGE = 1.5


class ParquetTable(SparkTable):
    """By path. Version 0 is the table as created; every entry of its log is a version."""

    def __init__(self, format: Format, spark: SparkSession, address: Address, context: LakeContext) -> None:
        super().__init__(format, spark, address, context)
        if address.path is None:
            raise TerminalError(Code.USAGE, f"a Parquet table has a path, not a name ({address})")
        self._files_of_table = Files(address.path, context.storage)
        self._log = Log(self._files_of_table)

    # --- being there

    def exists(self) -> bool:
        return self._log.exists()

    def _create(self, schema: StructType, layout: Layout) -> None:
        check_schema(schema, layout)
        attempt = Attempt(self._files_of_table, "create")
        entry = LogEntry(
            version=0,
            committed_at=commit_time(None),
            operation=entries.CREATE,
            attempt=attempt.token,
            schema=as_json(loosened(schema)),
            layout=layout.model_dump(mode="json"),
        )
        self._log.commit(entry, None)

    def drop(self) -> None:
        drop_feeds(self)
        self._files_of_table.delete()

    def schema(self) -> StructType:
        return schema_of(self._log.latest())

    def layout(self) -> Layout:
        return Layout.model_validate(self._log.latest().layout)

    # --- writing

    def _append(self, df: DataFrame, commit_tag: CommitTag | None) -> Version:
        clear(self._files_of_table, self._log)
        state = self._log.latest()
        layout = Layout.model_validate(state.layout)
        target = layout.target_file_size or DEFAULT_FILE_SIZE
        attempt = Attempt(self._files_of_table, step_label(commit_tag))
        usual = [file for file in state.files.values() if file.bytes >= target / 4]
        attempt.write(df, layout, state.generation, _rows_in(target, usual))
        if any(file.bytes > target * _TOO_LARGE for file in attempt.staged):
            again = read_files(self.spark, self._files_of_table, state, attempt.staged, attempt.data)
            attempt.write(again, layout, state.generation, _rows_in(target, attempt.staged))
        return self._publish(state, attempt, entries.APPEND, commit_tag=commit_tag)

    def _publish(
        self,
        state: TableState,
        attempt: Attempt,
        operation: str,
        *,
        commit_tag: CommitTag | None = None,
        removed: Iterable[str] = (),
        proof: Mapping[str, object] | None = None,
    ) -> Version:
        """Files into place, then the entry, with which the version is there."""
        version = state.version + 1
        added = attempt.publish(version)
        entry = LogEntry(
            version,
            commit_time(state),
            operation,
            attempt.token,
            commit_tag,
            added=added,
            removed=tuple(removed),
            proof=proof,
        )
        self._log.commit(entry, state)
        attempt.over()
        return version

    def _landed(self, commit_tag: CommitTag) -> Version | None:
        return self._log.landed(commit_tag)

    # --- reading

    def version(self) -> Version | None:
        return self._log.latest().version if self.exists() else None

    def version_at(self, at: At) -> Version:
        return self._log.version_at(at)

    def _state(self, version: Version | None) -> TableState:
        return self._log.latest() if version is None else self._log.at(version)

    def _read(self, version: Version | None) -> DataFrame:
        state = self._state(version)
        return read_files(self.spark, self._files_of_table, state, state.files.values())

    def _changes(self, start: Version | None, end: Version) -> DataFrame:
        state = self._log.at(end)
        if start is None:
            chosen = list(state.files.values())
        else:
            # What compaction writes is not new; what it took away since is still there while `start` is.
            appends = [e for e in self._log.between(start, end) if e.operation == entries.APPEND]
            chosen = [file for entry in appends for file in entry.added]
        return signed(read_files(self.spark, self._files_of_table, state, chosen), 1)

    def history(self, limit: int | None = None) -> list[Commit]:
        newest_first = self._log.versions()[::-1][:limit]
        return [e.commit() for v in newest_first if (e := self._log.entry(v)) is not None]

    def versions_after(self, version: Version | None) -> list[Version]:
        return [v for v in self._log.versions() if version is None or v > version]

    def committed_at(self, version: Version) -> datetime | None:
        entry = self._log.entry(version)
        return None if entry is None else entry.committed_at

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        return len(versions)  # files are only ever added to

    def _read_stream(self, changes: bool, start: At | None, consumer: str) -> DataFrame:
        return open_feed(self, changes=changes, start=start, consumer=consumer)

    # --- evolving and looking after

    def _evolve(self, schema: StructType) -> None:
        state = self._log.latest()
        new = schema_of(state)
        operation = entries.ADD_COLUMNS
        changes = list(schema_changes(new, schema))
        for change in changes:
            if isinstance(change, Retype):
                if not can_widen(self.format, change.old, change.new):
                    raise cannot_retype(self.format, self.address, change)
                operation = entries.WIDEN
        if not changes:
            return
        new = loosened(evolved(new, schema))
        check_schema(new, Layout.model_validate(state.layout))
        entry = LogEntry(
            state.version + 1,
            commit_time(state),
            operation,
            Attempt(self._files_of_table, "evolve").token,
            schema=as_json(new),
        )
        self._log.commit(entry, state)

    def _compact(self, scope: RewriteScope) -> Rewrite | None:
        with writing(self.address):
            clear(self._files_of_table, self._log)
        state = self._log.latest()
        live = {self._files_of_table.join(file.path): file for file in state.files.values()}
        told = self._told(state)
        groups = scope.compaction(told)
        if groups:
            old = [[live[file.path] for file in group] for group in groups]
            frames = [read_files(self.spark, self._files_of_table, state, group).coalesce(1) for group in old]
            return self._rewrite(state, reduce(DataFrame.union, frames), [f for g in groups for f in g], None)
        large = [(file,) for file in told if scope.covers(file.partition) and file.bytes > scope.target * _TOO_LARGE]
        cuts = [file for group in scope.bounded(large) for file in group]
        if not cuts:
            return None
        chosen = [live[file.path] for file in cuts]
        rows = read_files(self.spark, self._files_of_table, state, chosen)
        return self._rewrite(state, rows, cuts, _rows_in(scope.target, chosen))

    def _rewrite(
        self, state: TableState, rows: DataFrame, old: Sequence[DataFile], max_rows: int | None
    ) -> Rewrite | None:
        """Write rows into other files, prove them, and commit: on the newest state, which may have grown meanwhile."""
        attempt = Attempt(self._files_of_table, f"compact-{state.version + 1}", unlocked=True)
        try:
            watched, read = measured_on_the_way(rows)
            attempt.write(watched, Layout.model_validate(state.layout), state.generation, max_rows)
            proof = measure(read_files(self.spark, self._files_of_table, state, attempt.staged, attempt.data))
            require_same(self.address, read(), proof, "the table was left as it is", old)
            with writing(self.address):
                now = self._log.latest()
                gone = {name for file in old if (name := inside(self._files_of_table, file.path)) is not None}
                if not gone <= set(now.files) or now.generation != state.generation:
                    message = f"a rewrite of {self.address} was refused: another writer changed the table meanwhile"
                    raise TransientError(Code.COMMIT_FAILED, message)
                after = self._publish(now, attempt, entries.COMPACT, removed=sorted(gone), proof=asdict(proof))
        except BaseException:
            attempt.over()
            raise
        return described(state.version, after, old, [file.bytes for file in attempt.staged], proof)

    def _expire(self, older_than: datetime, keep: frozenset[Version], dry_run: bool) -> Expiry:
        clear(self._files_of_table, self._log)
        return maintenance.expire(self._files_of_table, self._log, older_than, keep, dry_run=dry_run)

    def _orphans(self, older_than: datetime) -> list[DataFile]:
        clear(self._files_of_table, self._log)
        return maintenance.find_orphans(self.address, self._files_of_table, self._log, older_than)

    def _optimize_metadata(self) -> bool:
        return self._log.checkpoint_latest()

    def _files(self, version: Version | None) -> list[DataFile]:
        return self._told(self._state(version))

    def _told(self, state: TableState) -> list[DataFile]:
        where = self._files_of_table
        return [
            DataFile(where.join(file.path), file.bytes, file.rows, file.partition, 0, _moment(file.added))
            for file in state.files.values()
        ]

    def _stats(self) -> TableStats:
        paths = list(self._log.latest().files)
        return table_stats(self, column_bytes(self._files_of_table, paths))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _rows_in(target: int, files: Iterable[TableLogFile]) -> int | None:
    """How many rows make a file of that size, going by these files."""
    measured = list(files)
    rows, size = sum(file.rows for file in measured), sum(file.bytes for file in measured)
    return max(1, math.ceil(rows * target / size)) if rows and size else None
