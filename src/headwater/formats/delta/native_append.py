"""Small appends to a Delta table through deltalake, such that Spark sees what it would have written itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    BloomFilterProperties,
    ColumnProperties,
    CommitProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake import DeltaTable as Handle
from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError, TableNotFoundError

from headwater.core.errors import Code, TerminalError, TransientError, Unsupported
from headwater.core.model import DELETED, CommitTag, Version
from headwater.core.quotes import double_quoted
from headwater.core.spec import Layout
from headwater.core.spec.layout import ParquetOptions
from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta import native_lookup
from headwater.formats.delta.conditional_puts import require_conditional_puts
from headwater.formats.delta.properties import LAYOUT, MAPPING
from headwater.schema.arrow import fitted

_EXACT = {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "timestampNtz"}
"""Writer features that deltalake honours, or that come to nothing where no column and no property uses them."""
_RULES = ("delta.generationExpression", "delta.invariants", "delta.identity", "CURRENT_DEFAULT")
_CODECS: dict[str | None, Any] = {
    None: "ZSTD",
    "none": "UNCOMPRESSED",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "lz4": "LZ4_RAW",
    "zstd": "ZSTD",
}
_SAFE_DIGITS = 15
"""Decimals up to here survive the doubles that deltalake makes of them in a file's statistics."""
_STATISTICS_LENGTH = 32
"""Characters of a text in a file's statistics, as Spark keeps them."""


class DeltaWriter:
    """Appends to one table on a handle that is kept warm between commits."""

    def __init__(self, address: Address, context: LakeContext, open: Callable[[], Handle]) -> None:
        self._address = address
        self._context = context
        self._open = open
        self._kept: tuple[Handle, Version, bytes] | None = None

    def append(self, rows: pa.Table, commit_tag: CommitTag) -> Version:
        handle = self._latest()
        self._refuse_inexact(handle)
        done = handle.transaction_version(commit_tag.writer)
        if done is not None and done >= commit_tag.step:
            return _made_by(handle, commit_tag)
        found = handle.metadata().configuration.get(LAYOUT)
        parquet = Layout.model_validate_json(found).parquet if found else ParquetOptions()
        if parquet.row_group_size is not None and rows.nbytes > parquet.row_group_size:
            raise Unsupported(f"{rows.nbytes} bytes are more than a row group of {self._address}: Spark cuts them")
        fitting = fitted(rows, pa.schema(handle.schema()), self._address)
        with self._committing():
            write_deltalake(
                handle,
                fitting,
                mode="append",
                writer_properties=_properties(fitting, parquet),
                commit_properties=_commit(commit_tag),
            )
        version = handle.version()
        told = self._told_by(version)
        self._kept = (handle, version, told) if told else None
        return version

    def upsert(self, rows: pa.Table, keys: Sequence[str], commit_tag: CommitTag | None) -> Version:
        """New rows and new states of rows; those with `_deleted` are keys to delete."""
        handle = self._latest()
        self._refuse_inexact(handle)
        if commit_tag is not None:
            done = handle.transaction_version(commit_tag.writer)
            if done is not None and done >= commit_tag.step:
                return _made_by(handle, commit_tag)
        schema = pa.schema(handle.schema())
        flags = rows[DELETED] if DELETED in rows.column_names else pa.chunked_array([[False] * rows.num_rows])
        values = rows.drop_columns([DELETED]) if DELETED in rows.column_names else rows
        fitting = fitted(values, schema, self._address).append_column(DELETED, flags.cast(pa.bool_()))
        same = " AND ".join(f"t.{double_quoted(key)} = s.{double_quoted(key)}" for key in keys)
        columns = {double_quoted(name): f"s.{double_quoted(name)}" for name in schema.names}
        found = handle.metadata().configuration.get(LAYOUT)
        parquet = Layout.model_validate_json(found).parquet if found else ParquetOptions()
        with self._committing():
            merge = handle.merge(
                fitting,
                same,
                source_alias="s",
                target_alias="t",
                writer_properties=_properties_of(schema, parquet),
                commit_properties=_commit(commit_tag),
            )
            merge = merge.when_matched_delete(predicate=f"s.{double_quoted(DELETED)}")
            merge = merge.when_matched_update(columns)
            merge.when_not_matched_insert(columns, predicate=f"NOT s.{double_quoted(DELETED)}").execute()
        version = handle.version()
        told = self._told_by(version)
        self._kept = (handle, version, told) if told else None
        return version

    def _latest(self) -> Handle:
        """The kept handle brought up to date, if it still is a handle on this very table."""
        kept, self._kept = self._kept, None  # kept again only by an append that went well
        if kept is not None:
            handle, version, seen = kept
            # A table that was dropped and made again has other commits under the same numbers.
            if self._told_by(version) == seen:
                handle.update_incremental()
                return handle
        try:
            return self._open()
        except TableNotFoundError as error:
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Delta table at {self._address}") from error

    def _told_by(self, version: Version) -> bytes:
        """A commit as the log has it, in short; nothing if it is not there."""
        log = Files(f"{self._address.path}/_delta_log", self._context.storage)
        found = log.find(f"{version:020d}.json")
        return b"" if found is None else hashlib.sha256(found).digest()

    def _refuse_inexact(self, handle: Handle) -> None:
        features = set(handle.protocol().writer_features or ()) - _EXACT
        configuration = handle.metadata().configuration
        if configuration.get(MAPPING, "none") != "none":
            features.add("columnMapping")
        if any(key.startswith("delta.constraints.") for key in configuration):
            features.add("checkConstraints")
        schema = handle.schema().to_json()
        features.update(rule for rule in _RULES if rule in schema)
        if features:
            named = ", ".join(sorted(features))
            raise Unsupported(f"deltalake does not write {self._address} as Spark does: it uses {named}")

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Say what a failed commit means; whether it has landed is looked up at the next try."""
        path = str(self._address.path)
        require_conditional_puts(path, self._context.storage)
        if native_lookup.is_panicked_of(path):
            raise Unsupported(f"deltalake does not write into a folder of this name: {path}")
        try:
            yield
        except DeltaProtocolError as error:
            raise Unsupported(f"deltalake does not write {self._address}: {error}") from error
        except CommitFailedError as error:
            raise TransientError(
                Code.COMMIT_FAILED, f"a commit to {self._address} was refused: another writer came first ({error})"
            ) from error
        except DeltaError as error:
            raise TransientError(Code.COMMIT_FAILED, f"a commit to {self._address} failed: {error}") from error


def _commit(commit_tag: CommitTag | None) -> CommitProperties:
    """On top of another writer's commit nothing is made unseen."""
    if commit_tag is None:
        return CommitProperties(max_commit_retries=0)
    return CommitProperties(
        custom_metadata={"userMetadata": commit_tag.to_json()},
        max_commit_retries=0,
        app_transactions=[Transaction(commit_tag.writer, commit_tag.step)],
    )


def _made_by(handle: Handle, commit_tag: CommitTag) -> Version:
    """The version of a step that is known to have landed; the present one where the log has forgotten it."""
    for commit in handle.history():
        found = CommitTag.from_json(commit.get("userMetadata"))
        if found is not None and found.same_step(commit_tag):
            return int(commit["version"])
    return handle.version()


def _properties(rows: pa.Table, parquet: ParquetOptions) -> WriterProperties:
    return _without_statistics({path for path, array in _leaves(rows) if not _has_exact_statistics(array)}, parquet)


def _properties_of(schema: pa.Schema, parquet: ParquetOptions) -> WriterProperties:
    """For files whose rows are not all at hand: what any rows of these types can be relied on."""
    unsafe = {
        path
        for path, array in _leaves(schema.empty_table())
        if pa.types.is_floating(array.type) or not _has_exact_statistics(array)
    }
    return _without_statistics(unsafe, parquet)


def _without_statistics(unsafe: set[tuple[str, ...]], parquet: ParquetOptions) -> WriterProperties:
    plain = ColumnProperties(dictionary_enabled=parquet.dictionary)
    columns: dict[str, ColumnProperties] = {}
    for name in {*parquet.bloom_filter, *(path[0] for path in unsafe)}:
        columns[name] = ColumnProperties(
            dictionary_enabled=parquet.dictionary,
            statistics_enabled="NONE" if (name,) in unsafe else None,
            bloom_filter_properties=BloomFilterProperties(True) if name in parquet.bloom_filter else None,
        )
    if any(len(path) > 1 for path in unsafe):  # deltalake switches statistics off by top-level column, or for all
        plain = ColumnProperties(dictionary_enabled=parquet.dictionary, statistics_enabled="NONE")
    return WriterProperties(
        compression=_CODECS[parquet.compression],
        statistics_truncate_length=_STATISTICS_LENGTH,
        default_column_properties=plain,
        column_properties=columns or None,
    )


def _leaves(rows: pa.Table) -> Iterator[tuple[tuple[str, ...], pa.Array]]:
    """The columns that get statistics: plain ones, and those inside structs."""
    waiting: list[tuple[tuple[str, ...], pa.Array]] = []
    waiting += [((name,), rows[name].combine_chunks()) for name in rows.column_names]
    while waiting:
        path, array = waiting.pop()
        if pa.types.is_struct(array.type):
            waiting += [((*path, f.name), inner) for f, inner in zip(array.type, array.flatten(), strict=True)]
        else:
            yield path, array


def _has_exact_statistics(array: pa.Array) -> bool:
    """Spark skips files by their statistics: a bound that was rounded, or leaves NaN out, would hide rows."""
    if pa.types.is_decimal(array.type):
        return bool(array.type.precision <= _SAFE_DIGITS)
    if pa.types.is_floating(array.type):
        return not pc.any(pc.is_nan(array), min_count=0).as_py()
    return True
