"""What `forget` has done, and what `forget --check` has found: kept in the lake without the values themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass

from headwater.core.record import Record
from headwater.core.storage import Files
from headwater.ingest.forgotten import FOLDER
from headwater.operations.erasure.exports import ErasedExport
from headwater.operations.erasure.search import Holding, UndecodedFile

RECEIPTS = f"{FOLDER}/receipts"


@dataclass(frozen=True)
class ErasedRelation(Record):
    """One relation of which something was erased."""

    name: str
    """`topics.orders`."""
    rows_found: int
    """Rows that held a value, in files of all its versions: one that was written again counts again."""
    rows_removed: int
    """How many fewer it has now."""
    versions_expired: int
    files_deleted: int
    labels: tuple[str, ...] = ()
    """Labels that went with the versions that they stood for."""


@dataclass(frozen=True)
class ErasureReceipt(Record):
    """What became of a condition."""

    id: str | None
    """The id of the condition in the lake's list; None: nothing was written down."""
    topic: str
    at: str
    rows: int
    """Rows of the topic that met the condition when the command began."""
    rows_before: int
    dead_letters: int
    relations: tuple[ErasedRelation, ...]
    files_checked: int
    held: tuple[Holding, ...]
    """Files that hold a value after it: of what does not come from the topic."""
    undecoded: tuple[UndecodedFile, ...]
    legible: bool
    """The condition in the lake's list has values in it, as it could not be kept as digests."""
    done: bool
    """False: nothing was changed."""
    exports: tuple[ErasedExport, ...] = ()
    """Copies of it: what became of them, and which are left."""


@dataclass(frozen=True)
class ErasureCheck(Record):
    """Whether a lake holds the values of a condition."""

    topic: str
    files: int
    bytes: int
    held: tuple[Holding, ...]
    undecoded: tuple[UndecodedFile, ...]
    by_condition_only: bool
    """The condition compares no column with a value: only files that have its columns could be looked through."""
    kept_conditions: tuple[str, ...]
    """Lists of forgotten conditions with values in them, as they could not be kept as digests."""
    clean: bool
    """Every file was decoded, and none holds a value."""


def keep(files: Files, receipt: ErasureReceipt) -> str:
    """Write a receipt down; where it is."""
    path = f"{RECEIPTS}/{receipt.topic}-{receipt.id}-{receipt.at.replace(':', '').replace('+', 'Z')[:17]}.json"
    files.write_atomic(path, json.dumps(receipt.to_dict(), indent=2))
    return path
