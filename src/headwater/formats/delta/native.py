"""A Delta table without a JVM, through deltalake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as Handle
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.core.errors import Code, IntegrityError, TerminalError, Unsupported
from headwater.core.model import At, CommitTag, Version
from headwater.core.storage import Files
from headwater.formats.arrow import as_spark
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta import native_lookup
from headwater.formats.delta.file_scan import BY_FILE, scan
from headwater.formats.delta.native_append import DeltaWriter
from headwater.formats.delta.properties import FEED, MAPPING, OLDEST
from headwater.formats.delta.stamps import Stamp, stamp
from headwater.formats.file_scan import ParquetScan
from headwater.formats.key_filter import Near
from headwater.formats.native import NativeTable

_EXACT = {"timestampNtz", "v2Checkpoint", "deletionVectors"}
"""Reader features under which deltalake gives Spark's rows, as the tests compare them."""
_MOST_SEEN = 16
_seen: dict[tuple[str, Version], tuple[Handle, Stamp | None]] = {}
"""Versions of tables that were looked at last."""


class DeltaLight(NativeTable):
    """Reads through deltalake's own query engine, which knows deletion vectors; a raw file list does not."""

    def __init__(self, address: Address, around: LakeContext) -> None:
        super().__init__(address, around)
        self._writer = DeltaWriter(address, around, self._open)
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
        wanted = ", ".join(native_lookup.quoted(name) for name in columns) if columns is not None else "*"
        result: Any = QueryBuilder().register("t", handle).execute(f"SELECT {wanted} FROM t")
        return as_spark(pa.RecordBatchReader.from_stream(result))

    def size(self) -> int | None:
        found: Any = self._latest().get_add_actions()
        files = pa.RecordBatchReader.from_stream(found).read_all()
        return int(pc.sum(files["size_bytes"]).as_py() or 0)

    def some(self, at: Version, near: Near, most: int) -> pa.Table | None:
        handle = self._seen(at)
        return native_lookup.some(handle, near, most) if not _inexact(handle) else None

    def changes(self, start: Version, end: Version, most: int) -> pa.Table | None:
        handle = self._seen(end)
        if _inexact(handle) or handle.metadata().configuration.get(FEED) != "true" or start >= end:
            return None
        return native_lookup.changes(handle, Files(str(self.address.path), self.around.storage), start, most)

    def parquet(self, at: At | None = None) -> ParquetScan:
        try:
            handle = self._latest() if at is None else self._open(self.version_at(at))
        except TableNotFoundError as error:
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Delta table at {self.address}") from error
        if self._scanned is not None and self._scanned[0] == (handle.metadata().id, handle.version()):
            return self._scanned[1]
        features = set(handle.protocol().reader_features or ())
        if not features <= BY_FILE or handle.metadata().configuration.get(MAPPING, "none") != "none":
            named = ", ".join(sorted(features - BY_FILE)) or "columnMapping"
            raise Unsupported(f"{self.address} is not read file by file: it uses {named}")
        found = scan(handle, str(self.address.path))
        if at is None:
            self._scanned = ((handle.metadata().id, handle.version()), found)
        return found

    def _latest(self) -> Handle:
        """The latest version; a handle that is held is brought forward, if its table is still the same one."""
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

    def _append(self, rows: pa.Table, mark: CommitTag) -> Version:
        return self._writer.append(rows, mark)

    def _upsert(self, rows: pa.Table, keys: Sequence[str], mark: CommitTag | None) -> Version:
        return self._writer.upsert(rows, keys, mark)

    def _open(self, version: Version | None = None) -> Handle:
        path = self.address.path
        if path is None:
            raise Unsupported(f"a Delta table has a path, not a name ({self.address})")
        try:
            return Handle(path, version=version, storage_options=storage_options(self.around.storage))
        except TableNotFoundError:
            raise
        except DeltaError as error:
            torn = native_lookup.torn_commit(Files(f"{path}/_delta_log", self.around.storage))
            if torn is not None:
                raise IntegrityError(
                    Code.TABLE_CORRUPT,
                    f"Delta table {self.address}: its commit {torn} can't be read: {str(error).splitlines()[0]}",
                    hint="put the file back from a copy of the lake; without one, drop the topic, table or view"
                    " (headwater topic drop NAME --yes, and so on): the next run makes it again",
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
    if handle.metadata().configuration.get(MAPPING, "none") != "none":
        features.add("columnMapping")
    return ", ".join(sorted(features))


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
