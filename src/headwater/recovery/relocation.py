"""What holds absolute paths in a lake that was moved or copied, rewritten for its new place.

Every part is replaced whole, and replaced again it stays as it is: a run that was cut off begins again.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace

from headwater.core.errors import Code, TerminalError
from headwater.core.state.paths import PROJECT, is_absolute
from headwater.core.storage import Files
from headwater.formats.feed_folders import FEEDS, safe_name
from headwater.formats.iceberg.names import split
from headwater.formats.iceberg.relocation import relocate, tables_in
from headwater.formats.registry import FORMATS
from headwater.formats.relocation import PathMap, inside
from headwater.recovery.context import Context
from headwater.recovery.source_files import restamp
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.cdc.copied import note_copied, slot_of

_DEFAULT = re.compile(r"(.*)/(topics|tables|views)/[^/]+$")


def relocate_lake(lake: Context, old_warehouse: str, old_home: str, *, copied: bool) -> None:
    """Map every path of the lake to where it is now."""
    old_root, root = posixpath.dirname(old_home.rstrip("/")), posixpath.dirname(lake.home.rstrip("/"))
    folders = [(old_warehouse.rstrip("/"), lake.warehouse.rstrip("/"))]
    if old_root != root:
        folders.append((old_root, root))
    paths = PathMap(tuple(folders))
    tables = list(tables_in(lake.files))
    _require_catalogs(lake, tables, copied=copied)
    _relocate_records(lake, paths)
    for folder in tables:
        relocate(lake.files, folder, paths)
    for record in lake.state.relations():
        keeps_paths = FORMATS.get(record.format).in_catalogs
        if keeps_paths and record.path is not None and inside(record.path, lake.warehouse) is None:
            relocate(Files(record.path, lake.context.storage), "", paths)
    _relocate_catalog(lake, paths)
    _relocate_feeds(lake, old_warehouse, paths)
    for path in _lists(lake.files):
        _relocate_json(lake.files, path, paths)
    restamp(lake, old_root)
    if copied:
        _note_slots(lake, old_warehouse)


def old_place(lake: Context) -> str | None:
    """Where a lake of an earlier release was, by the paths that its state and its catalog hold; None: not elsewhere."""
    places = set()
    for record in lake.state.stored_relations():
        found = None if record.path is None else _DEFAULT.fullmatch(record.path)
        if found is not None and is_absolute(found.group(1)):
            places.add(found.group(1))
    for row in lake.catalog.rows():
        if row.catalog in lake.embedded:
            end = "/".join((*row.namespace.split("."), row.table, "metadata"))
            before, between, _ = row.metadata.removeprefix("file://").removeprefix("file:").rpartition(f"/{end}/")
            if between:
                places.add(before)
    elsewhere = {place for place in places if place != lake.warehouse.rstrip("/")}
    return elsewhere.pop() if len(elsewhere) == 1 and len(places) == 1 else None


def _require_catalogs(lake: Context, tables: list[str], *, copied: bool) -> None:
    """Refuse what another catalog than the lake's own refers to: only that one can say where its tables are."""
    for record in lake.state.relations():
        if record.table is None or not FORMATS.get(record.format).in_catalogs:
            continue
        catalog, *inner = split(record.table)
        spec = lake.catalogs.get(catalog)
        ours = spec is None or catalog in lake.embedded or spec.by_folder
        if ours or "/".join(inner) not in tables:
            continue
        if copied:
            raise TerminalError(
                Code.LAKE_COPIED,
                f"the lake {lake.warehouse} is a copy, and catalog '{catalog}' keeps the original's {record.table}",
                hint="in the copy's project make it the embedded catalog: `type: jdbc`, without a `uri`",
            )
        raise TerminalError(
            Code.LAKE_MOVED,
            f"the lake was moved to {lake.warehouse}, and catalog '{catalog}' says that {record.table} is elsewhere",
            hint="move the lake back, or make it the embedded catalog: `type: jdbc`, without a `uri`",
        )


def _relocate_records(lake: Context, paths: PathMap) -> None:
    """Absolute paths of an earlier release, and those of what lies neither in the warehouse nor in the project."""
    for record in lake.state.stored_relations():
        if record.path is not None and is_absolute(record.path):
            lake.state.put(replace(record, path=paths(record.path)))


def _relocate_catalog(lake: Context, paths: PathMap) -> None:
    rows = [row for row in lake.catalog.rows() if row.catalog in lake.embedded]
    moved = [
        replace(row, metadata=paths(row.metadata), previous=None if row.previous is None else paths(row.previous))
        for row in rows
    ]
    if moved != rows:
        lake.catalog.put(moved)


def _relocate_feeds(lake: Context, old_warehouse: str, paths: PathMap) -> None:
    """The folders of feeds, and the checkpoints of the queries that have read files there."""
    named = []
    for place in (record.path for record in lake.records()):
        if place is None or is_absolute(place) or place.startswith(PROJECT):
            continue
        earlier = f"{FEEDS}/{safe_name(posixpath.join(old_warehouse.rstrip('/'), place))}"
        now = f"{FEEDS}/{safe_name(place)}"
        if lake.files.exists(earlier):
            lake.files.move(earlier, now)
        named.append((posixpath.join(old_warehouse.rstrip("/"), earlier), lake.in_warehouse(now)))
    in_uris = PathMap((*named, *paths.folders)).as_uris()
    for path in _checkpoint_files(lake.files):
        before = lake.files.read_text(path)
        after = "\n".join(_with_path(line, in_uris) for line in before.split("\n"))
        if after != before:
            lake.files.delete(posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.crc"))
            lake.files.write_atomic(path, after)


def _checkpoint_files(files: Files) -> Iterator[str]:
    """The lists of files that streaming queries have read."""
    for flow in files.list("_headwater/flows"):
        epochs = [entry.path for entry in files.list(flow.path) if entry.name.startswith("epoch-") and entry.is_folder]
        for folder in (flow.path, *epochs):
            for entry in files.list(f"{folder}/checkpoint/sources", recursive=True):
                if not entry.is_folder and not entry.name.startswith("."):
                    yield entry.path


def _with_path(line: str, paths: PathMap) -> str:
    if not line.startswith("{"):
        return line
    try:
        told = json.loads(line)
    except ValueError:
        return line
    if not isinstance(told.get("path"), str) or paths(told["path"]) == told["path"]:
        return line
    return json.dumps({**told, "path": paths(told["path"])}, separators=(",", ":"))


def _note_slots(lake: Context, old_warehouse: str) -> None:
    """Replication slots that the original goes on reading."""
    for name, source in lake.project.sources.items():
        folder = f"_headwater/sources/{name}"
        if isinstance(source, PostgresCdcSource) and lake.files.exists(folder):
            files = Files(lake.files.join(folder), lake.context.storage)
            note_copied(files, slot_of(source, lake.project.name), old_warehouse)


def _lists(files: Files) -> Iterator[str]:
    """JSON that names tables by their paths: statistics that were gathered, and tables that were replaced."""
    for entry in files.list("_headwater/statistics"):
        yield entry.path
    for flow in files.list("_headwater/flows"):
        path = f"{flow.path}/retired.json"
        if flow.is_folder and files.exists(path):
            yield path


def _relocate_json(files: Files, path: str, paths: PathMap) -> None:
    try:
        before = json.loads(files.read_text(path))
    except ValueError:
        return  # whoever reads it says so
    after = paths.in_json(before)
    if after != before:
        files.write_atomic(path, json.dumps(after, indent=2, sort_keys=True))
