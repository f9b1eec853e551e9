"""Small appends to a plain Parquet table by pyarrow: the same files, moves and entries as Spark's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.core.errors import Unsupported
from headwater.core.model import CommitTag, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.formats.base import DEFAULT_FILE_SIZE, Address
from headwater.formats.parquet.arrow import arrow_schema
from headwater.formats.parquet.log import APPEND, Log, LogEntry, commit_time
from headwater.formats.parquet.staged_files import NULL_FOLDER, Attempt, clear, step_label
from headwater.schema.arrow import fitted, within_python

_CODEC = "snappy"
"""What Spark takes where the layout names none."""


def append(files: Files, log: Log, address: Address, rows: pa.Table, commit_tag: CommitTag) -> Version:
    """One commit with the step's commit tag; a repeated step is the version that it made."""
    landed = log.landed(commit_tag)
    if landed is not None:
        return landed
    clear(files, log)
    state = log.latest()
    layout = Layout.model_validate(state.layout)
    fitting = fitted(rows, arrow_schema(state.schema), address)
    _refuse_inexact(fitting, layout, address)
    attempt = Attempt(files, step_label(commit_tag))
    for partition, part in _parts(fitting, layout.partition_by):
        attempt.put(_encoded(part, layout), part.num_rows, partition, state.generation)
    version = state.version + 1
    added = attempt.publish(version)
    log.commit(LogEntry(version, commit_time(state), APPEND, attempt.token, commit_tag, added=added), state)
    attempt.over()
    return version


def _refuse_inexact(rows: pa.Table, layout: Layout, address: Address) -> None:
    reason = None
    if layout.options:
        reason = "its `options` are for Spark's writer"
    elif layout.parquet.bloom_filter:
        reason = "pyarrow writes no bloom filters"
    elif rows.nbytes > min(
        layout.parquet.row_group_size or DEFAULT_FILE_SIZE, layout.target_file_size or DEFAULT_FILE_SIZE
    ):
        reason = f"{rows.nbytes} bytes may be more than one row group or file of it"
    elif any(not _names_folders(rows.schema.field(name).type) for name in layout.partition_by):
        reason = "its partition columns are not all texts, whole numbers, booleans or dates"
    elif any(within_python(rows[name]).null_count > rows[name].null_count for name in layout.partition_by):
        reason = "a partition is of a year beyond 1 to 9999"
    if reason is not None:
        raise Unsupported(f"rows are appended to {address} by Spark only: {reason}")


def _names_folders(t: pa.DataType) -> bool:
    return bool(pa.types.is_string(t) or pa.types.is_integer(t) or pa.types.is_boolean(t) or pa.types.is_date(t))


def _parts(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[Mapping[str, str | None], pa.Table]]:
    """The rows of each partition, without its columns; nothing where there are no rows."""
    if not partition_by:
        if rows.num_rows:
            yield {}, rows
        return
    indexes: defaultdict[tuple[str | None, ...], list[int]] = defaultdict(list)
    values = [[_text(value) for value in rows[name].to_pylist()] for name in partition_by]
    for index, key in enumerate(zip(*values, strict=True)):
        indexes[key].append(index)
    rest = rows.drop_columns(list(partition_by))
    for key, chosen in indexes.items():
        yield dict(zip(partition_by, key, strict=True)), rest.take(pa.array(chosen, pa.int64()))


def _text(value: object) -> str | None:
    """A value as Spark names a folder after it; no folder can be named after an empty text."""
    if isinstance(value, bool):
        return str(value).lower()
    text = None if value is None else str(value)
    return None if text in ("", NULL_FOLDER) else text


def _encoded(rows: pa.Table, layout: Layout) -> bytes:
    sink = pa.BufferOutputStream()
    codec = layout.parquet.compression or _CODEC
    # The whole batch is one row group: larger ones are Spark's.
    pq.write_table(
        rows, sink, compression=codec.upper(), use_dictionary=layout.parquet.dictionary is not False, store_schema=False
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content
