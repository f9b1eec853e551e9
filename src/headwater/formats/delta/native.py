"""A Delta table without a JVM, through deltalake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice, takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as Handle
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.core.errors import Code, IntegrityError, TerminalError, Unsupported
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.core.quotes import double_quoted
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta import native_lookup
from headwater.formats.delta.commits import commit_of, info_in
from headwater.formats.delta.file_scan import BY_FILE, live_files, scan
from headwater.formats.delta.native_append import DeltaWriter
from headwater.formats.delta.properties import FEED, LAYOUT, MAPPING, OLDEST, PHYSICAL
from headwater.formats.delta.stamps import Stamp, stamp
from headwater.formats.file_scan import ParquetScan
from headwater.formats.footers import column_bytes
from headwater.formats.key_filter import KeyFilter
from headwater.formats.native import NativeTable
from headwater.formats.native_stats import native_stats
from headwater.schema.arrow import as_spark
from headwater.schema.columns import TableColumn, columns_of

_EXACT = {"timestampNtz", "v2Checkpoint", "deletionVectors", "columnMapping"}
"""Reader features under which deltalake gives Spark's rows, as the tests compare them."""
_MOST_SEEN = 16
_seen: dict[tuple[str, Version], tuple[Handle, Stamp | None]] = {}
"""Versions of tables that were looked at last."""


class DeltaNativeTable(NativeTable):
    """Reads through deltalake's own query engine, which knows deletion vectors; a raw file list does not."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        super().__init__(address, context)
        self._writer = DeltaWriter(address, context, self._open)
        self._held: tuple[Handle, Stamp | None] | None = None
        self._scanned: tuple[tuple[object, Version], ParquetScan] | None = None

    def version(self) -> Version | None:
        try:
            return self._open().version()
        except TableNotFoundError:
            return None

    def version_at(self, at: At) -> Version:
        handle = self._open()
        if isinstance(at, datetime):
            for commit in handle.history():
                if datetime.fromtimestamp(commit["timestamp"] / 1000, tz=timezone.utc) <= at:
                    return int(commit.get("version", handle.version()))
            raise self._missing(at)
        oldest = int(handle.metadata().configuration.get(OLDEST, 0))
        if not oldest <= at <= handle.version():
            raise self._missing(at)
        return at

    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        handle = self._latest() if at is None else self._open(self.version_at(at))
        inexact = _inexact(handle)
        if inexact:
            raise Unsupported(f"deltalake does not read {self.address} exactly: it uses {inexact}")
        wanted = ", ".join(double_quoted(name) for name in columns) if columns is not None else "*"
        result: Any = QueryBuilder().register("t", handle).execute(f"SELECT {wanted} FROM t")
        return as_spark(pa.RecordBatchReader.from_stream(result))

    def size(self) -> int | None:
        found: Any = self._latest().get_add_actions()
        files = pa.RecordBatchReader.from_stream(found).read_all()
        return int(pc.sum(files["size_bytes"]).as_py() or 0)

    def some(self, at: Version, key_filter: KeyFilter, most: int) -> pa.Table | None:
        handle = self._seen(at)
        # What the log says of files goes by physical names, which a look-up does not know.
        return native_lookup.some(handle, key_filter, most) if not _inexact(handle) and not _is_mapped(handle) else None

    def changes(self, start: Version, end: Version, most: int) -> pa.Table | None:
        handle = self._seen(end)
        if (
            _inexact(handle)
            or _is_mapped(handle)
            or handle.metadata().configuration.get(FEED) != "true"
            or start >= end
        ):
            return None
        if native_lookup.is_panicked_of(str(self.address.path)):
            return None
        return native_lookup.changes(handle, Files(str(self.address.path), self.context.storage), start, most)

    def parquet(self, at: At | None = None) -> ParquetScan:
        try:
            handle = self._latest() if at is None else self._open(self.version_at(at))
        except TableNotFoundError as error:
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Delta table at {self.address}") from error
        if self._scanned is not None and self._scanned[0] == (handle.metadata().id, handle.version()):
            return self._scanned[1]
        features = set(handle.protocol().reader_features or ())
        if not features <= BY_FILE or _is_mapped(handle):
            named = ", ".join(sorted(features - BY_FILE)) or "columnMapping"
            raise Unsupported(f"{self.address} is not read file by file: it uses {named}")
        found = scan(handle, str(self.address.path))
        if at is None:
            self._scanned = ((handle.metadata().id, handle.version()), found)
        return found

    # --- lookups

    def history(self, limit: int | None = None) -> list[Commit]:
        oldest = int(self._latest().metadata().configuration.get(OLDEST, 0))
        there = takewhile(lambda commit: commit.version >= oldest, self._commits())
        return list(islice(there, limit))

    def _commits(self) -> Iterator[Commit]:
        """Newest first, down to the oldest that the log still has."""
        for version in range(self._latest().version(), -1, -1):
            info = self._said(version)
            if info is None:
                return
            yield commit_of(version, info)

    def committed_at(self, version: Version) -> datetime | None:
        info = self._said(version)
        return None if info is None else commit_of(version, info).committed_at

    def landed(self, commit_tag: CommitTag) -> Version | None:
        handle = self._latest()
        step = handle.transaction_version(commit_tag.writer)
        if step is None or step < commit_tag.step:
            return None
        for commit in self._commits():
            if commit.commit_tag is not None and commit.commit_tag.same_step(commit_tag):
                return commit.version
        return handle.version()

    def columns(self) -> tuple[TableColumn, ...]:
        return columns_of(self._schema())

    def layout(self) -> Layout:
        metadata = self._latest().metadata()
        told = metadata.configuration.get(LAYOUT)
        if told is not None:
            return Layout.model_validate_json(told)
        return Layout(partition_by=tuple(metadata.partition_columns))

    def files(self) -> list[DataFile]:
        return live_files(self._latest(), str(self.address.path))

    def stats(self) -> TableStats:
        files = self.files()
        named = {f["name"]: f["metadata"].get(PHYSICAL, f["name"]) for f in self._schema()["fields"]}
        stored = column_bytes(Files(self.context.warehouse, self.context.storage), [file.path for file in files])
        sizes = {name: stored[physical] for name, physical in named.items() if physical in stored}
        return native_stats(self, self.columns(), files, sizes)

    def _schema(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._latest().schema().to_json())
        return found

    def _said(self, version: Version) -> dict[str, Any] | None:
        """What a commit says of itself; None where the log no longer has it."""
        found = Files(str(self.address.path), self.context.storage).find(f"_delta_log/{version:020d}.json")
        return None if found is None else info_in(found.decode())

    def _latest(self) -> Handle:
        """The latest version; a handle that is held is updated, if its table is still the same one."""
        if self._held is not None:
            handle, seen = self._held
            if seen is not None and seen == stamp(str(self.address.path), handle.version()):
                if stamp(str(self.address.path), handle.version() + 1) is not None:
                    handle.update_incremental()
                    self._held = (handle, stamp(str(self.address.path), handle.version()))
                return handle
        handle = self._open()
        self._held = (handle, stamp(str(self.address.path), handle.version()))
        return handle

    def _seen(self, version: Version) -> Handle:
        """A version that may have been looked at before: what follows a table asks for each one twice."""
        path = str(self.address.path)
        key, found = (path, version), stamp(path, version)
        held = _seen.get(key)
        if held is None or found is None or held[1] != found:
            held = _seen[key] = (self._open(version), found)
            while len(_seen) > _MOST_SEEN:
                _seen.pop(next(iter(_seen)))
        return held[0]

    def _append(self, rows: pa.Table, commit_tag: CommitTag) -> Version:
        return self._writer.append(rows, commit_tag)

    def _upsert(self, rows: pa.Table, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        return self._writer.upsert(rows, keys, commit_tag)

    def opened(self) -> Handle:
        """The latest version as deltalake has it, for what works with its log."""
        return self._open()

    def _open(self, version: Version | None = None) -> Handle:
        path = self.address.path
        if path is None:
            raise Unsupported(f"a Delta table has a path, not a name ({self.address})")
        try:
            return Handle(path, version=version, storage_options=storage_options(self.context.storage))
        except TableNotFoundError:
            raise
        except DeltaError as error:
            torn = native_lookup.torn_commit(Files(f"{path}/_delta_log", self.context.storage))
            if torn is not None:
                raise IntegrityError(
                    Code.TABLE_CORRUPT,
                    f"Delta table {self.address}: its commit {torn} can't be read: {str(error).splitlines()[0]}",
                    hint="put the file back from a copy of the lake; without one, drop the topic, table or view"
                    " (`headwater topic drop NAME --yes`, and so on): the next run makes it again",
                ) from error
            if version is None:
                message = f"Delta table {self.address} can't be opened: {str(error).splitlines()[0]}"
                raise TerminalError(Code.STORAGE_FAILED, message) from error
            raise self._missing(version) from error

    def _missing(self, at: At) -> TerminalError:
        return TerminalError(Code.NO_SUCH_VERSION, f"Delta table {self.address} has no version {at}")


def _inexact(handle: Handle) -> str:
    """What deltalake does not read as Spark does, by name; nothing where it does."""
    features = set(handle.protocol().reader_features or ()) - _EXACT
    if handle.metadata().configuration.get(MAPPING) == "id":
        features.add("columnMapping by id")
    return ", ".join(sorted(features))


def _is_mapped(handle: Handle) -> bool:
    """Whether columns have other names in files than in the table."""
    return handle.metadata().configuration.get(MAPPING, "none") != "none"


def storage_options(storage: Mapping[str, Any]) -> dict[str, str] | None:
    """The project's `storage:` as deltalake names it; without it, deltalake asks the machine."""
    s3 = storage.get("s3")
    if s3 is None:
        return None
    endpoint = s3.endpoint or ""
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key and s3.access_key.reveal(),
        "AWS_SECRET_ACCESS_KEY": s3.secret_key and s3.secret_key.reveal(),
        "AWS_SESSION_TOKEN": s3.session_token and s3.session_token.reveal(),
        "AWS_REGION": s3.region,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false" if s3.path_style else "true",
        "AWS_ALLOW_HTTP": "true" if endpoint.startswith("http://") else "false",
    }
    return {key: value for key, value in options.items() if value}
