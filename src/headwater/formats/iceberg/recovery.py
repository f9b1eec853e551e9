"""Which metadata file is a table's, where the catalog that said so is gone.

A file is written before the catalog is asked to make it the table's: one whose commit was refused, or cut off, may be
the newest. So every commit that landed is noted in the lake, and the ledger says which steps were taken.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Any

from headwater.catalogs.base import CatalogSpec
from headwater.catalogs.embedded import embedded
from headwater.core.storage import Files
from headwater.formats.base import LakeContext
from headwater.formats.iceberg.metadata import Metadata
from headwater.formats.iceberg.names import TableName
from headwater.formats.iceberg.relocation import metadata_files, read_metadata
from headwater.formats.relocation import inside

_NUMBER = re.compile(r"v?(\d+)")

Step = tuple[int, int]
"""Epoch and number."""
LastStep = Callable[[str], Step | None]
"""A flow's newest step in the ledger."""


def note_landed(context: LakeContext, name: TableName, location: str) -> None:
    """A commit has landed: its metadata file is the table's. For the embedded catalog, which a machine can lose."""
    if name.folder is None and name.catalog in embedded(context.catalogs):
        note, told = landed_note(name.parts, inside(location, context.warehouse) or location)
        Files(context.warehouse, context.storage).write_atomic(note, told)


def landed_note(parts: tuple[str, ...], metadata: str) -> tuple[str, bytes]:
    """The file of the lake that says which metadata file is a table's, and what stands in it."""
    return _note(parts), json.dumps({"metadata": metadata}).encode()


def forget_landed(context: LakeContext, name: TableName) -> None:
    """The table is dropped."""
    if name.folder is None and name.catalog in embedded(context.catalogs):
        Files(context.warehouse, context.storage).delete(_note(name.parts))


def present_metadata(files: Files, parts: tuple[str, ...], folder: str, last: LastStep) -> str | None:
    """The metadata file that is a table's, newest of those that are known to have landed; None if none is.

    `parts` is the table's name, catalog first. Where the process ended between a commit and its note, the ledger's
    last step tells that the commit landed. A lake of an earlier release has no notes: there a file is known by the
    steps in it.
    """
    found = metadata_files(files, folder)
    note = files.find(_note(parts))
    noted = None if note is None else str(json.loads(note)["metadata"])
    if noted is None or noted not in found:
        return _by_steps(files, found, last)
    for path in found[: found.index(noted)]:
        text = read_metadata(files, path)
        if _follows(json.loads(text), noted) and _step(Metadata(text), last) is not None:
            return path
    return noted


def _follows(metadata: dict[str, Any], earlier: str) -> bool:
    """Whether the file was written on top of an earlier one."""
    log = metadata.get("metadata-log") or ()
    return posixpath.basename(earlier) in {posixpath.basename(entry["metadata-file"]) for entry in log}


def _by_steps(files: Files, paths: list[str], last: LastStep) -> str | None:
    """The file with the newest step that the ledger has; where it has none of them, nothing tells: the newest file."""
    best: tuple[Step, str] | None = None
    for path in paths:
        step = _step(Metadata(read_metadata(files, path)), last)
        if step is not None and (best is None or step > best[0]):
            best = (step, path)
    if best is not None:
        return best[1]
    return paths[0] if paths else None


def _step(metadata: Metadata, last: LastStep) -> Step | None:
    """The newest step in a file, if the ledger has it and nothing that changed rows came after it."""
    for snapshot in metadata.lineage():
        commit_tag = snapshot.commit_tag
        if commit_tag is not None:
            newest, step = last(commit_tag.flow), (commit_tag.epoch, commit_tag.step)
            return step if newest is not None and step <= newest else None
        if snapshot.operation != "replace":
            return None
    return None


def _note(parts: tuple[str, ...]) -> str:
    return f"_headwater/iceberg/{'.'.join(parts)}.json"


def noted_metadata(files: Files) -> Iterator[tuple[tuple[str, ...], str]]:
    """Those tables, each with the metadata file of its last commit: a path from the warehouse, or a whole one."""
    for parts in noted_tables(files):
        note = files.find(_note(parts))
        if note is not None:
            yield parts, str(json.loads(note)["metadata"])


def is_older(metadata: str, noted: str) -> bool:
    """Whether a metadata file was written before the one of the last commit: then whoever names it is an old copy."""
    numbers = [_NUMBER.match(posixpath.basename(each)) for each in (metadata, noted)]
    one, other = (-1 if number is None else int(number[1]) for number in numbers)
    return one < other or (one == other and posixpath.basename(metadata) != posixpath.basename(noted))


def noted_tables(files: Files) -> Iterator[tuple[str, ...]]:
    """The names of the tables that have landed commits, catalog first."""
    for name in files.names("_headwater/iceberg"):
        if name.endswith(".json"):
            yield tuple(name.removesuffix(".json").split("."))


def folder_of(parts: tuple[str, ...], spec: CatalogSpec | None) -> str | None:
    """Where a catalog's table lies in the warehouse; None where the catalog puts its tables elsewhere."""
    return posixpath.join(*parts[1:]) if spec is None or spec.warehouse is None else None
