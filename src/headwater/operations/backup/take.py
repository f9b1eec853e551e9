"""Takes a backup of a lake, while flows and readers go on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version as installed

from headwater.catalogs.embedded import EmbeddedCatalog, embedded
from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError
from headwater.core.progress import byte_ticks
from headwater.core.quotes import backticked
from headwater.core.record import Record
from headwater.core.state import LAKE_FORMAT
from headwater.core.storage import Files, FolderFiles
from headwater.flows.ledger import Ledger, flow_name
from headwater.formats.base import Address
from headwater.formats.iceberg.names import lake_location, split
from headwater.formats.registry import CATALOG_FORMAT, FORMATS, SYSTEM_FORMAT
from headwater.formats.relocation import inside
from headwater.ingest.dead_letter_list import DeadLetterList, address_in
from headwater.operations.backup.manifest import BEGUN, MANIFEST, ROOTS, STATE, BackupManifest, RelationState
from headwater.operations.backup.order import downstream_first
from headwater.operations.backup.parts import Parts, TakenPart
from headwater.operations.backup.writer import BackupWriter
from headwater.recovery.identity import LakeIdentity
from headwater.recovery.manifest import Manifest
from headwater.warehouse import Warehouse

TRIES = 5
"""How often a backup begins again because dead letters were replayed or dropped while it was taken."""


@dataclass(frozen=True)
class BackupResult(Record):
    """A backup that was taken."""

    path: str
    lake: str
    """The lake's id."""
    files: int
    bytes: int
    metadata_only: bool
    begun_at: datetime
    ended_at: datetime
    relations: tuple[RelationState, ...]


def back_up(warehouse: Warehouse, destination: str, *, metadata_only: bool = False) -> BackupResult:
    """Copy the lake into an empty folder. Its manifest is written last: without it the folder is no backup."""
    warehouse.require_lake()
    warehouse.state.require_own()
    identity = LakeIdentity.read(warehouse.files)
    if identity is None:
        raise UsageError(
            Code.NO_SUCH_RELATION,
            f"there is no lake at {warehouse.context.warehouse} yet",
            hint="run it first: headwater run --once",
        )
    target = FolderFiles(location_of(destination), warehouse.context.storage)
    _require_apart(warehouse, target.root)
    _require_empty(target)
    begun_at = datetime.now(timezone.utc)
    with _cleared_on_failure(target), byte_ticks("backing up") as report:
        target.write_atomic(BEGUN, json.dumps({"lake": identity.id, "begun_at": begun_at.isoformat()}))
        writer = BackupWriter(target, report)
        taken = _take(warehouse, writer, metadata_only=metadata_only)
        state = json.dumps(warehouse.state.dump(), sort_keys=True).encode()
        target.write_chunks(STATE, [state])
        manifest = BackupManifest(
            lake=identity.id,
            lake_format=identity.format or LAKE_FORMAT,
            headwater=installed("headwater"),
            project=warehouse.project.name,
            warehouse=identity.warehouse,
            home=identity.home,
            begun_at=begun_at,
            ended_at=datetime.now(timezone.utc),
            metadata_only=metadata_only,
            relations=tuple(_states(target, taken)),
            state=hashlib.sha256(state).hexdigest(),
            files=writer.files,
        )
        target.write_atomic(MANIFEST, manifest.to_json())
    target.delete(BEGUN)
    held = [file for file in manifest.files if file.sha256 is not None]
    return BackupResult(
        target.root,
        identity.id,
        len(held),
        sum(file.bytes for file in held),
        metadata_only,
        begun_at,
        manifest.ended_at,
        manifest.relations,
    )


def _take(warehouse: Warehouse, writer: BackupWriter, *, metadata_only: bool) -> dict[str, TakenPart]:
    """All parts of the lake. The dead letters come last: a step keeps those before it commits, so that none is missing.

    A letter that was replayed or dropped after its flow was copied is neither there nor here: then all begins again.
    """
    for _ in range(TRIES):
        parts = Parts(warehouse, writer, metadata_only=metadata_only)
        parts.beginning()
        for table in _tables_of_catalog(warehouse):
            parts.take_table(CATALOG_FORMAT.name, Address(table=table))
        taken = {flow: parts.take(flow) for flow in downstream_first(warehouse, _flows(warehouse))}
        parts.take_table(SYSTEM_FORMAT.name, address_in(warehouse.context))
        if not _lost_letters(warehouse, taken, parts.letters()):
            return taken
    raise TransientError(
        Code.BACKUP_BUSY,
        "dead letters were replayed or dropped each time that the lake was copied",
        hint="stop the runner while the backup is taken",
    )


def _flows(warehouse: Warehouse) -> set[str]:
    ledgers = {entry.name for entry in warehouse.files.list("_headwater/flows") if entry.is_folder}
    return ledgers | {flow_name(one.name, one.kind) for one in Manifest(warehouse.files).records()}


def _tables_of_catalog(warehouse: Warehouse) -> Iterator[str]:
    """Tables in the embedded catalog that are no relation of the lake."""
    context = warehouse.context
    known = {split(one.table) for one in warehouse.state.relations() if one.table and FORMATS.get(one.format).catalog}
    for row in EmbeddedCatalog(lake_location(context)).rows():
        parts = (row.catalog, *row.namespace.split("."), row.table)
        if row.catalog in embedded(context.catalogs) and parts not in known:
            yield ".".join(map(backticked, parts))


def _lost_letters(warehouse: Warehouse, taken: dict[str, TakenPart], last: int | None) -> bool:
    """Whether a dead letter that was there when its flow was copied is not there any more."""
    earlier = {part.letters for part in taken.values()} - {last, None}
    letters = DeadLetterList(warehouse.context)
    now = letters.ids(last) if earlier and last is not None else frozenset()
    return any(letters.ids(version) - now for version in earlier if version is not None)


def _states(target: Files, taken: dict[str, TakenPart]) -> Iterator[RelationState]:
    lake = FolderFiles(target.join("lake"), target.storage)
    for flow, part in sorted(taken.items()):
        if part.record is not None:
            last = Ledger(lake, flow).last()
            step = (None, None) if last is None else (last.epoch, last.step)
            version = None if part.cut is None else part.cut.version
            yield RelationState(flow, part.record.format, version, *step)


# --- where it goes


def location_of(destination: str) -> str:
    """A backup's folder as people name it: from where they are."""
    return destination if "://" in destination else os.path.abspath(destination.removeprefix("file:"))


def _require_apart(warehouse: Warehouse, destination: str) -> None:
    """A backup in the lake would be a part of what is backed up, or of what is deleted with it."""
    places = {"the warehouse": warehouse.context.warehouse, "the project's state": warehouse.context.home}
    real = _real(destination)
    for what, place in places.items():
        own = _real(place)
        within = real == own or inside(real, own) is not None
        if within or inside(own, real) is not None:
            lies = "lies in" if within else "is a folder above"
            raise UsageError(
                Code.INVALID_VALUE,
                f"the backup's folder {destination} {lies} {what}, {place}",
                hint="name a folder outside of it, best on another disk",
            )


def _real(place: str) -> str:
    return place if "://" in place else os.path.realpath(place)


def _require_empty(target: Files) -> None:
    if target.is_local and os.path.lexists(target.root) and not os.path.isdir(target.root):
        raise UsageError(
            Code.BACKUP_NOT_EMPTY, f"{target.root} is a file, and a backup is a folder", hint="name another folder"
        )
    if not target.list():
        if target.is_local:
            with suppress(OSError):  # who writes into it says why it can't be made
                os.makedirs(target.root, mode=0o700, exist_ok=True)
        return
    unfinished = target.exists(BEGUN) and not target.exists(MANIFEST)
    what = "a backup that was cut off" if unfinished else "something already"
    raise UsageError(
        Code.BACKUP_NOT_EMPTY,
        f"there is {what} in {target.root}, and a backup needs an empty folder",
        hint="delete it, or name another folder" if unfinished else "name another folder",
    )


@contextmanager
def _cleared_on_failure(target: Files) -> Iterator[None]:
    """What is not whole is of no use, and takes room."""
    try:
        yield
    except BaseException as error:
        _clear(target, (*ROOTS, STATE, MANIFEST, BEGUN))
        is_there = isinstance(error, HeadwaterError) and target.root in error.problem.message
        if isinstance(error, HeadwaterError) and error.code is Code.STORAGE_FAILED and is_there:
            message = f"the backup was given up, and what there was of it deleted: {error.problem.message}"
            hint = "free some space there or name another folder, and take it again"
            raise type(error)(error.code, message, hint=hint) from error
        raise


def _clear(target: Files, names: Iterable[str]) -> None:
    for name in names:
        with suppress(HeadwaterError):
            target.delete(name)
