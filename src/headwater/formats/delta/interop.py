"""A Delta table over the files of a table of another format: `_delta_log` in the folder where the files are.

Its protocol names a feature for writers that only this module has: other writers refuse the table, and so nothing of
the source's folder, which a VACUUM would take for garbage, is deleted. Readers don't mind. Never imports pyspark.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from deltalake import DeltaTable as Handle
from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from headwater.core.errors import Code, TransientError, Unsupported
from headwater.core.model import Version
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta.commits import info_in
from headwater.formats.delta.conditional_puts import require_conditional_puts
from headwater.formats.delta.native import storage_options
from headwater.formats.delta.properties import MAPPING
from headwater.formats.delta.shared import delta_schema, live_files, needs_mapping, schema_in
from headwater.formats.footers import ColumnFooter, footer_of
from headwater.formats.interop.seam import (
    NOTE,
    InteropTarget,
    SharedFile,
    StagedChange,
    SyncNote,
    TargetChange,
    TargetState,
    changed_by_others,
    stored_name,
)
from headwater.schema.arrow import as_spark

FEATURE = "headwaterInterop"
LOG = "_delta_log"
CHECKPOINT_EVERY = 50
_CHECKS = "_headwater/interop/checks"


class DeltaInterop(InteropTarget):
    """Writes the log itself: deltalake adds files, and has no way to take single ones away."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        self.address = address
        self._root = str(address.path)
        self._context = context
        self._files = Files(self._root, context.storage)

    def state(self) -> TargetState | None:
        handle = self._open()
        if handle is None:
            return None
        told = info_in((self._files.find(_commit_file(handle.version())) or b"").decode())
        note = SyncNote.from_json(told.get(NOTE))
        files = live_files(handle, self._root, self._context)
        return TargetState(
            handle.version(),
            note,
            schema_in(handle),
            tuple(handle.metadata().partition_columns),
            self._root,
            {path: file.rows for path, file in files.items()},
            frozenset() if note is None else frozenset({note.version}),
        )

    def stage(self, change: TargetChange, before: TargetState | None) -> StagedChange:
        _refuse_columns(change)
        return DeltaChange(self._root, self._context, change, before)

    def tidy(self) -> None:
        handle = self._open()
        if handle is not None and handle.version() and handle.version() % CHECKPOINT_EVERY == 0:
            handle.create_checkpoint()
            handle.cleanup_metadata()

    def drop(self) -> None:
        self._files.delete(LOG)

    def _open(self) -> Handle | None:
        try:
            return Handle(self._root, storage_options=storage_options(self._context.storage))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise changed_by_others(self.address, f"its log can't be read: {str(error).splitlines()[0]}") from error


class DeltaChange(StagedChange):
    def __init__(self, root: str, context: LakeContext, change: TargetChange, before: TargetState | None) -> None:
        self._root, self._context = root, context
        self._change, self._before = change, before
        self._mapped = needs_mapping(change.to.schema)
        self._files = Files(root, context.storage)
        # One for each target: what a sync that was killed has left there, the next one takes away.
        own = hashlib.sha256(root.encode()).hexdigest()[:16]
        self._check = Files(f"{context.warehouse.rstrip('/')}/{_CHECKS}/{own}", context.storage)

    def read(self, paths: Collection[str] | None) -> pa.RecordBatchReader:
        """By deltalake, from a log elsewhere that names the same files in full."""
        change = self._change
        wanted = change.to.files.values() if paths is None else [change.to.files[path] for path in paths]
        base = f"{_as_uri(self._files.root)}/"
        actions = [*self._first(), *(self._add(file, base) for file in wanted)]
        self._check.write_atomic(_commit_file(0), _lines([_info(change.note, "WRITE"), *actions]))
        handle = Handle(self._check.root, storage_options=storage_options(self._context.storage))
        found: Any = QueryBuilder().register("t", handle).execute("SELECT * FROM t")
        return as_spark(pa.RecordBatchReader.from_stream(found))

    def commit(self) -> Version:
        change, before = self._change, self._before
        version = 0 if before is None else before.version + 1
        actions = [_info(change.note, "CREATE TABLE" if before is None else "WRITE")]
        if before is None or self._is_redefined(before):
            actions += self._first()
        removed = [path for path in change.removed if path not in change.to.files]
        actions += [self._remove(path) for path in removed]
        actions += [self._add(file, "") for file in change.added]
        require_conditional_puts(self._root, self._context.storage)
        if not self._files.write_new(_commit_file(version), _lines(actions)):
            raise TransientError(Code.COMMIT_FAILED, f"another writer has committed version {version} of {self._root}")
        return version

    def discard(self) -> None:
        self._check.delete()

    def _is_redefined(self, before: TargetState) -> bool:
        if before.partition_by != self._change.to.partition_by:
            return True
        old, new = before.schema, self._change.to.schema
        return delta_schema(old, mapped=self._mapped) != delta_schema(new, mapped=self._mapped)

    def _first(self) -> list[dict[str, Any]]:
        """What a table begins with, and what says that it has other columns."""
        to, mapped = self._change.to, self._mapped
        ntz = any(str(one.type) == "timestamp[us]" or "timestamp[us]>" in str(one.type) for one in to.schema)
        readers = [*(["columnMapping"] if mapped else []), *(["timestampNtz"] if ntz else [])]
        protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 7}
        if mapped:
            protocol["minReaderVersion"] = 2
        if ntz:
            protocol |= {"minReaderVersion": 3, "readerFeatures": readers}
        schema = delta_schema(to.schema, mapped=mapped)
        configuration = {NOTE: self._change.note.source}
        if mapped:
            last = max(_numbers(json.loads(schema)["fields"]), default=0)
            configuration |= {MAPPING: "name", "delta.columnMapping.maxColumnId": str(last)}
        metadata = {
            "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self._root}#{self._change.note.source}")),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": list(to.partition_by),
            "configuration": configuration,
            "createdTime": _now(),
        }
        return [{"protocol": {**protocol, "writerFeatures": [*readers, FEATURE]}}, {"metaData": metadata}]

    def _add(self, file: SharedFile, base: str) -> dict[str, Any]:
        footer = self._change.footers.get(file.path)
        rows = footer.num_rows if footer is not None else file.rows
        stats: dict[str, Any] = {} if rows is None else {"numRecords": rows}
        if footer is not None:
            stats |= _bounds(footer_of(footer).columns)
        stored = {one.name: stored_name(one) if self._mapped else one.name for one in self._change.to.schema}
        partition = {stored[name]: partition_text(file.partition.get(name)) for name in self._change.to.partition_by}
        return {
            "add": {
                "path": base + quote(file.path, safe="/=-._~"),
                "partitionValues": partition,
                "size": file.bytes,
                "modificationTime": _now(),
                "dataChange": True,
                "stats": json.dumps(stats),
            }
        }

    def _remove(self, path: str) -> dict[str, Any]:
        return {"remove": {"path": quote(path, safe="/=-._~"), "deletionTimestamp": _now(), "dataChange": True}}


def partition_text(value: Any) -> str | None:
    """A partition's value as the log has it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        plain = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return plain.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, (int, float, Decimal)):
        return f"{value:f}" if isinstance(value, Decimal) else repr(value)
    if isinstance(value, date):
        return value.isoformat()
    raise Unsupported(f"Delta Lake can't be partitioned by values of type {type(value).__name__}")


def _refuse_columns(change: TargetChange) -> None:
    names = [one.name.lower() for one in change.to.schema]
    if len(set(names)) < len(names):
        raise Unsupported("Delta Lake has no two columns whose names differ in capitals alone")


def _bounds(columns: Mapping[str, ColumnFooter]) -> dict[str, dict[str, Any]]:
    """What may be relied on to skip a file: bounds that JSON holds exactly."""
    low, high, nulls = {}, {}, {}
    for name, found in columns.items():
        if found.nulls is not None:
            nulls[name] = found.nulls
        first, last = (_bound(value, up=up) for value, up in ((found.min, False), (found.max, True)))
        if found.complete and first is not None and last is not None:
            low[name], high[name] = first, last
    return {"minValues": low, "maxValues": high, "nullCount": nulls}


def _bound(value: Any, *, up: bool) -> Any:
    if isinstance(value, (bool, float, Decimal, bytes)):
        return None
    if isinstance(value, datetime):  # the log has milliseconds
        whole = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if up and whole != value:
            if whole.replace(tzinfo=None) > datetime.max - timedelta(seconds=1):
                return None
            whole += timedelta(milliseconds=1)
        text = whole.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, (int, str)) else None


def _numbers(fields: list[dict[str, Any]]) -> Iterable[int]:
    for one in fields:
        yield int(one["metadata"]["delta.columnMapping.id"])
        yield from _inner_numbers(one["type"])


def _inner_numbers(kind: Any) -> Iterable[int]:
    if not isinstance(kind, dict):
        return
    if kind["type"] == "struct":
        yield from _numbers(kind["fields"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _inner_numbers(kind.get(part))


def _info(note: SyncNote, operation: str) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": _now(),
            "operation": operation,
            "operationParameters": {"source": note.source, "sourceVersion": str(note.version)},
            "engineInfo": "headwater",
            NOTE: note.to_json(),
        }
    }


def _lines(actions: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(action)}\n" for action in actions)


def _commit_file(version: Version) -> str:
    return f"{LOG}/{version:020d}.json"


def _as_uri(root: str) -> str:
    return root if "://" in root else f"file://{quote(root)}"


def _now() -> int:
    return time.time_ns() // 1_000_000
