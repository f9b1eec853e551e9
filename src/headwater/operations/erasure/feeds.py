"""The files that streams are fed from: written again under their names, without the rows that are forgotten."""

from __future__ import annotations

import os
from io import BytesIO

import pyarrow.parquet as pq

from headwater.core.storage import Files
from headwater.formats.feed_folders import FEEDS
from headwater.operations.erasure.condition import ErasureCondition
from headwater.operations.erasure.places import lies_in_feeds
from headwater.operations.erasure.search import ValueSearch
from headwater.project.graph import Name
from headwater.warehouse import Warehouse


def clean_feeds(warehouse: Warehouse, name: Name, condition: ErasureCondition) -> None:
    """A stream knows files by their names, and takes those that it has not had by their times: both stay."""
    files = warehouse.files
    search = ValueSearch(condition)
    try:
        for entry in files.list(FEEDS, recursive=True):
            if entry.name.endswith(".parquet") and lies_in_feeds(warehouse, name, files.join(entry.path)):
                _clean(files, entry.path, search)
    finally:
        search.close()


def _clean(files: Files, path: str, search: ValueSearch) -> None:
    table = pq.read_table(BytesIO(files.read_bytes(path)))
    kept = search.without(table)
    if kept.num_rows == table.num_rows:
        return
    out = BytesIO()
    pq.write_table(kept, out, coerce_timestamps="us", allow_truncated_timestamps=True)
    place = files.inside(path)
    stamp = os.stat(place) if files.is_local else None
    files.write_atomic(path, out.getvalue())
    folder, _, name = path.rpartition("/")
    files.delete(f"{folder}/.{name}.crc")  # Hadoop's checksum of what it was
    if stamp is not None:
        os.utime(place, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
