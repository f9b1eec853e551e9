"""Records on their way from the slot to a step: a few in memory, many in a file of this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import datetime
from typing import IO, Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("_position", pa.string()),
        ("_raw", pa.binary()),
        ("_relation", pa.string()),
        ("_xid", pa.int64()),
        ("_committed_at", pa.timestamp("us", tz="UTC")),
        ("lsn", pa.int64()),
    ]
)
CHUNK_ROWS = 5000
CHUNK_BYTES = 2 * 1024 * 1024
IN_MEMORY = 4 * 1024 * 1024
"""Bytes of a spool that are held; what comes beyond them goes to a file."""


class Spool:
    """Records of one table in the order of their positions; written once, then read as often as need be."""

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self.rows = 0
        self.bytes = 0
        self.last = -1
        """Where the last record's transaction was committed."""
        self.relations: set[str] = set()
        self._waiting: list[tuple[Any, ...]] = []
        self._waiting_bytes = 0
        self._held: list[pa.RecordBatch] = []
        self.held = 0
        """Bytes of it in memory."""
        self._in_memory = in_memory
        self._file: IO[bytes] | None = None
        self._writer: Any = None

    def add(self, position: str, raw: bytes, relation: str, xid: int, committed_at: datetime, lsn: int) -> None:
        self._waiting.append((position, raw, relation, xid, committed_at, lsn))
        self._waiting_bytes += len(raw) + len(position)
        self.rows += 1
        self.bytes += len(raw)
        self.last = lsn
        self.relations.add(relation)
        if len(self._waiting) >= CHUNK_ROWS or self._waiting_bytes >= CHUNK_BYTES:
            self._chunk()

    def end(self) -> None:
        """Nothing more comes."""
        self._chunk()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._held
        if self._file is not None:
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                yield from reader

    def drop(self) -> None:
        self._held, self.held = [], 0
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _chunk(self) -> None:
        if not self._waiting:
            return
        columns = zip(*self._waiting, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        self._waiting, self._waiting_bytes = [], 0
        if self._file is None and self.held + batch.nbytes <= self._in_memory:
            self._held.append(batch)
            self.held += batch.nbytes
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="headwater-cdc-")  # noqa: SIM115 - it goes with the spool
            self._writer = pa.ipc.new_stream(self._file, SCHEMA)
        self._writer.write_batch(batch)
