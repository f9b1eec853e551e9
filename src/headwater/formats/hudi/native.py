"""A Hudi table without a JVM: the timeline from its files, the rows through the `hudi` package."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from io import BytesIO
from typing import Any

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.model import At, Commit, CommitTag, DataFile, TableStats, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.footers import column_bytes
from headwater.formats.hudi.commits import CommitRecord, landed
from headwater.formats.hudi.instants import COMMITS, OLDEST, SCHEMA, Instant, readable
from headwater.formats.hudi.live_files import HudiFile, data_files
from headwater.formats.hudi.names import stored_name
from headwater.formats.hudi.stored_layout import layout_of
from headwater.formats.native import NativeTable
from headwater.formats.native_stats import native_stats
from headwater.schema.arrow import PLAIN_TYPES, spark_type
from headwater.schema.columns import TableColumn, columns_of

_COMPLETED = re.compile(r"(\d+)_(\d+)\.(\w+)")
_BEGUN = re.compile(r"(\d+)(?:\.(\w+))?\.(?:requested|inflight)")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class HudiNativeTable(NativeTable):
    """Tables on a local file system, of the timeline's present form."""

    def __init__(self, address: Address, context: LakeContext) -> None:
        super().__init__(address, context)
        if address.path is None:
            raise Unsupported(f"a Hudi table has a path, not a name ({address})")
        self._files = Files(address.path, context.storage)
        if not self._files.is_local:
            raise Unsupported(f"{address} is read without a JVM from local file systems only")

    def exists(self) -> bool:
        return self._files.exists(".hoodie/hoodie.properties")

    def version(self) -> Version | None:
        versions = self._versions(self._properties())
        return versions[-1].version if versions else None

    def version_at(self, at: At) -> Version:
        properties = self._properties()
        if isinstance(at, datetime):
            self._zone(properties)
        versions = self._versions(properties)
        if versions and any(action == "clean" for *_, action in self._timeline()) and OLDEST not in properties:
            # what somebody else's cleaning has left is written down in a form that only Hudi reads
            versions = versions[-1:]
        for instant in reversed(versions):
            if instant.version == at if isinstance(at, int) else instant.committed_at(timezone.utc) <= at:
                return instant.version
        raise TerminalError(Code.NO_SUCH_VERSION, f"Apache Hudi table {self.address} has no version {at}")

    def read(self, at: At | None = None, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        version = self.version() if at is None else self.version_at(at)
        handle = self._handle()
        schema = self._schema(handle)
        wanted = pa.schema([schema.field(name) for name in columns]) if columns is not None else schema
        batches: Iterable[pa.RecordBatch] = ()
        if version is not None:
            ours = SCHEMA in self._properties()
            stored = [stored_name(name) if ours else name for name in wanted.names]
            options = HudiReadOptions().with_as_of_timestamp(str(version))
            batches = _conformed(handle.read_stream(options), wanted, stored)
        return pa.RecordBatchReader.from_batches(wanted, batches)

    # --- lookups

    def history(self, limit: int | None = None) -> list[Commit]:
        properties = self._properties()
        zone = self._zone(properties)
        versions = self._versions(properties)
        if any(action == "clean" for *_, action in self._timeline()) and not _is_plain(properties):
            raise Unsupported(f"which versions cleaning has left of {self.address} is known to Hudi alone")
        newest = versions[::-1][:limit]
        return [self._commit(instant).as_version(instant, instant.committed_at(zone)) for instant in newest]

    def committed_at(self, version: Version) -> datetime | None:
        return None  # a version is the time that its commit was begun at

    def landed(self, commit_tag: CommitTag) -> Version | None:
        self._properties()
        completed = (i for i in self._instants() if i.completed is not None)
        return landed(sorted(completed, reverse=True), self._commit, commit_tag)

    def columns(self) -> tuple[TableColumn, ...]:
        kept = self._properties().get(SCHEMA)
        if kept is None:
            raise Unsupported(f"the columns of {self.address}, which another writer made, are told by Spark")
        return columns_of(json.loads(kept))

    def layout(self) -> Layout:
        return layout_of(self._properties())

    def files(self) -> list[DataFile]:
        version = self.version()
        if version is None:
            return []
        commits = {i.requested: i for i in self._instants() if i.completed is not None}
        options = HudiReadOptions().with_as_of_timestamp(str(version))
        slices = [self._slice_files(each) for each in self._handle().get_file_slices(options)]
        return data_files(
            (file for found in slices for file in found),
            lambda requested: self._commit(commits[requested]) if requested in commits else None,
            self.layout().partition_by,
            self._files,
        )

    def stats(self) -> TableStats:
        columns, files = self.columns(), self.files()
        names = [file.path.rsplit("/", 1)[-1] for file in files]
        if not all(name.endswith(".parquet") for name in names):
            raise Unsupported(f"the bytes of columns in the logs of {self.address} are known to Hudi alone")
        sizes = column_bytes(self._files, [self._relative(file.path) for file in files])
        return native_stats(self, columns, files, {each.name: sizes.get(stored_name(each.name), 0) for each in columns})

    def _relative(self, path: str) -> str:
        return path[len(self._files.join("")) :].lstrip("/")

    def _slice_files(self, found: Any) -> Iterator[HudiFile]:
        """The files of a slice, as the `hudi` package lists it."""
        partition, group = found.partition_path, found.file_id
        base = found.base_file_relative_path()
        yield HudiFile(partition, group, self._files.join(base), found.base_file_size)
        for path, size in zip(found.log_files_relative_paths(), found.log_file_sizes, strict=True):
            yield HudiFile(partition, group, self._files.join(path), size, is_log=True)

    def _commit(self, instant: Instant) -> CommitRecord:
        """What a completed commit says of itself: a file of one Avro record, in any order of its fields."""
        from fastavro import reader

        name = f".hoodie/timeline/{instant.requested}_{instant.completed}.{instant.action}"
        found = self._files.find(name)
        if found is None:
            raise Unsupported(f"{name} of {self.address} was archived meanwhile")
        try:
            said: Any = next(iter(reader(BytesIO(found))))
        except (ValueError, EOFError, StopIteration) as error:
            raise Unsupported(f"{name} of {self.address} can't be read without Hudi: {error}") from error
        return CommitRecord.of(said, instant.action)

    def _zone(self, properties: Mapping[str, str]) -> timezone:
        if properties.get("hoodie.table.timeline.timezone") != "UTC":
            raise Unsupported(f"the timeline of {self.address} is in its writer's local time, not in UTC")
        return timezone.utc

    @property
    def folder(self) -> Files:
        """The table's folder."""
        return self._files

    def properties(self) -> dict[str, str]:
        """What is written down of the table as a whole."""
        return self._properties()

    # --- inside

    def _handle(self) -> Any:
        return HudiTableBuilder.from_base_uri(self._files.inside()).build()

    def _schema(self, handle: Any) -> pa.Schema:
        kept = self._properties().get(SCHEMA)
        if kept is not None:
            return pa.schema([pa.field(f["name"], _arrow_type(f["type"])) for f in json.loads(kept)["fields"]])
        return pa.schema([pa.field(f.name, spark_type(f.type)) for f in handle.get_schema()])

    def _properties(self) -> dict[str, str]:
        found = self._files.find(".hoodie/hoodie.properties")
        if found is None:
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Hudi table at {self.address}")
        pairs = (line.partition("=") for line in found.decode("latin-1").splitlines() if line[:1] not in "#!")
        properties = {key: _unescaped(value) for key, _, value in pairs}
        if properties.get("hoodie.timeline.layout.version") != "2":
            raise Unsupported(f"the timeline of {self.address} has an older form, which only Spark reads")
        return properties

    def _versions(self, properties: dict[str, str]) -> list[Instant]:
        return readable(self._instants(), properties.get(OLDEST, ""))

    def _instants(self) -> list[Instant]:
        return [Instant(*point) for point in self._timeline() if point[2] in COMMITS]

    def _timeline(self) -> list[tuple[str, str | None, str]]:
        """(requested, completed or None, action) of everything that was done or begun."""
        names = [entry.name for entry in self._files.list(".hoodie/timeline") if not entry.is_folder]
        done = {m[1]: (m[1], m[2], m[3]) for m in map(_COMPLETED.fullmatch, names) if m}
        begun = {m[1]: (m[1], None, m[2] or "commit") for m in map(_BEGUN.fullmatch, names) if m}
        return list({**begun, **done}.values())


def _is_plain(properties: Mapping[str, str]) -> bool:
    """Whether the oldest version is written down in plain text: of copy-on-write tables that Headwater expires."""
    return OLDEST in properties and properties.get("hoodie.table.type") != "MERGE_ON_READ"


def _conformed(batches: Iterable[pa.RecordBatch], wanted: pa.Schema, stored: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches under the table's schema: columns that they lack are NULL, narrower types are widened."""
    for batch in batches:
        arrays = [
            batch.column(name).cast(f.type) if name in batch.schema.names else pa.nulls(batch.num_rows, f.type)
            for name, f in zip(stored, wanted, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _arrow_type(spark: Any) -> pa.DataType:
    """The Arrow type of a Spark type in its JSON form."""
    if isinstance(spark, str):
        decimal = _DECIMAL.fullmatch(spark)
        if decimal:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if spark not in PLAIN_TYPES:
            raise Unsupported(f"type {spark} of a Hudi table can't be read without a JVM")
        return PLAIN_TYPES[spark]
    if spark["type"] == "struct":
        return pa.struct([_nested_field(f) for f in spark["fields"]])
    if spark["type"] == "array":
        return pa.list_(pa.field("element", _arrow_type(spark["elementType"])))
    return pa.map_(_arrow_type(spark["keyType"]), _arrow_type(spark["valueType"]))


def _nested_field(spark: Any) -> pa.Field:
    if stored_name(spark["name"]) != spark["name"]:
        raise Unsupported(f"the nested column name '{spark['name']}' of a Hudi table can't be read without a JVM")
    return pa.field(spark["name"], _arrow_type(spark["type"]))


def _unescaped(text: str) -> str:
    """A value of a Java properties file."""
    return _ESCAPED.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _CONTROLS.get(m[1], m[1]), text)
