"""The metadata of Iceberg tables that were moved or copied: it holds absolute paths, which are rewritten.

Iceberg's own procedure (`rewrite_table_path`) has to run before a table is moved, while a catalog can still open it;
here it is too late for that. Files are replaced one by one, those first that others tell the size of; a run that was
cut off is done again from its beginning and comes to the same.
"""

from __future__ import annotations

import gzip
import json
import posixpath
from collections.abc import Iterator
from typing import Any

from headwater.core.errors import Code, TerminalError
from headwater.core.storage import Files
from headwater.formats.iceberg.avro import AvroFile
from headwater.formats.relocation import PathMap

SUFFIX = ".metadata.json"
_PATH_FIELD = 2147483546
"""The id of `file_path` in files of position deletes."""
_POSITION_DELETES = 1
_DEEPEST = 6
_OTHERS = frozenset({"_headwater", "_delta_log", ".hoodie", "paimon"})
_LEAVE = ("summary", "schemas", "partition-specs", "sort-orders", "schema", "partition-spec")
"""Keys of a metadata file under which no path of Iceberg's stands."""


def tables_in(files: Files, folder: str = "", depth: int = 0) -> Iterator[str]:
    """The folders under a root that hold an Iceberg table."""
    names = {entry.name: entry for entry in files.list(folder) if entry.is_folder}
    if "metadata" in names and metadata_files(files, folder):
        yield folder
    elif depth < _DEEPEST and not _OTHERS & names.keys() - ({"_headwater", "paimon"} if depth == 0 else set()):
        for name in names:
            if name not in _OTHERS:
                yield from tables_in(files, posixpath.join(folder, name), depth + 1)


def metadata_files(files: Files, folder: str) -> list[str]:
    """The metadata files of a table, newest first: by the number in their names, then by their times."""
    found = [entry for entry in files.list(posixpath.join(folder, "metadata")) if _is_metadata(entry.name)]
    found.sort(key=lambda entry: (_number(entry.name), entry.modified), reverse=True)
    return [entry.path for entry in found]


def read_metadata(files: Files, path: str) -> str:
    """The text of a metadata file."""
    data = files.read_bytes(path)
    return (gzip.decompress(data) if _is_packed(path) else data).decode("utf-8")


def relocate(files: Files, folder: str, paths: PathMap) -> None:
    """Map every path in a table's metadata: delete files, manifests, their lists, then the metadata files."""
    inside = posixpath.join(folder, "metadata")
    names = [entry.path for entry in files.list(inside, recursive=True) if entry.name.endswith(".avro")]
    lists = []
    for path in names:
        manifest = AvroFile.read(files.read_bytes(path), files.join(path))
        if "data_file" not in manifest.fields:
            lists.append(path)
        elif _map_manifest(files, manifest, paths):
            _write(files, path, manifest.to_bytes())
    for path in lists:
        listed = AvroFile.read(files.read_bytes(path), files.join(path))
        if "manifest_path" in listed.fields and _map_list(files, listed, paths):
            _write(files, path, listed.to_bytes())
    for path in metadata_files(files, folder):
        before = json.loads(read_metadata(files, path))
        after = paths.in_json(before, _LEAVE)
        if after != before:
            data = json.dumps(after).encode()
            _write(files, path, gzip.compress(data) if _is_packed(path) else data)


def _map_manifest(files: Files, manifest: AvroFile, paths: PathMap) -> bool:
    changed = False
    for entry in manifest.records:
        data_file = entry["data_file"]
        path = data_file["file_path"].decode()
        mapped = paths(path)
        changed |= mapped != path
        data_file["file_path"] = mapped.encode()
        if data_file.get("content") == _POSITION_DELETES:
            changed |= _map_deletes(files, data_file, mapped, paths)
    return changed


def _map_deletes(files: Files, data_file: dict[str, Any], path: str, paths: PathMap) -> bool:
    """Position deletes name the files that they delete from: in their rows, their bounds and their own entry."""
    changed = False
    branch, target = data_file.get("referenced_data_file", (0, None))
    if target is not None:
        data_file["referenced_data_file"] = (branch, paths(target.decode()).encode())
        changed = data_file["referenced_data_file"][1] != target
    for key in ("lower_bounds", "upper_bounds"):
        branch, bounds = data_file.get(key, (0, None))
        if bounds is None:
            continue
        mapped = [each for each in (_map_bound(bound, paths) for bound in bounds) if each is not None]
        if mapped != bounds:
            data_file[key] = (branch, mapped)
            changed = True
    kind = data_file["file_format"].decode().lower()
    if kind == "puffin":  # a deletion vector: the entry above names its file
        return changed
    if kind != "parquet":
        raise TerminalError(
            Code.UNSUPPORTED,
            f"{path} holds deletes by paths as {kind}, and the lake was moved",
            hint="move it back, compact the table there, and move it again",
        )
    if not files.exists(path):
        return changed  # of a version that has been expired
    _map_rows(files, path, paths)
    entry = files.entry(path)
    if entry is not None and data_file["file_size_in_bytes"] != entry.bytes:
        data_file["file_size_in_bytes"] = entry.bytes
        changed = True
    return changed


def _map_bound(bound: dict[str, Any], paths: PathMap) -> dict[str, Any] | None:
    """A bound of the paths in a delete file; one that was cut off can't be mapped, and there need not be one."""
    if bound["key"] != _PATH_FIELD:
        return bound
    try:
        path = bound["value"].decode()
    except UnicodeDecodeError:
        return None
    return {**bound, "value": paths(path).encode()} if paths.knows(path) else None


def _map_rows(files: Files, path: str, paths: PathMap) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with files.reading(path) as opened:
        table = pq.read_table(opened)
        packed = pq.ParquetFile(opened).metadata
    before = table["file_path"].to_pylist()
    after = [paths(each) for each in before]
    if after == before:
        return
    at = table.schema.get_field_index("file_path")
    column = pa.array(after, table.schema.field(at).type)
    table = table.set_column(at, table.schema.field(at), column).replace_schema_metadata(table.schema.metadata)
    sink = pa.BufferOutputStream()
    codec = packed.row_group(0).column(0).compression if packed.num_row_groups else "SNAPPY"
    pq.write_table(table, sink, compression="NONE" if codec == "UNCOMPRESSED" else codec, store_schema=False)
    _write(files, path, sink.getvalue().to_pybytes())


def _map_list(files: Files, listed: AvroFile, paths: PathMap) -> bool:
    changed = False
    for record in listed.records:
        path = record["manifest_path"].decode()
        mapped = paths(path)
        record["manifest_path"] = mapped.encode()
        entry = files.entry(mapped)
        size = record["manifest_length"] if entry is None else entry.bytes
        changed |= mapped != path or size != record["manifest_length"]
        record["manifest_length"] = size
    return changed


def _write(files: Files, path: str, data: bytes) -> None:
    """Replace a file. Hadoop keeps a checksum alongside it, which would be of the one that was there."""
    folder, name = posixpath.split(files.inside(path))
    files.delete(posixpath.join(folder, f".{name}.crc"))
    files.write_atomic(path, data)


def _is_metadata(name: str) -> bool:
    return name.endswith((SUFFIX, f"{SUFFIX}.gz"))


def _is_packed(name: str) -> bool:
    return name.endswith((f".gz{SUFFIX}", f"{SUFFIX}.gz"))


def _number(name: str) -> int:
    digits = name.removeprefix("v").partition(".")[0].partition("-")[0]
    return int(digits) if digits.isdigit() else -1
