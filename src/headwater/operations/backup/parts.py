"""The parts of a lake that are backed up one after another: a flow with its table, and the tables that no flow keeps.

A part is one state of the lake: the ledger's newest step is the table's last one, or the next. It is found without
stopping anybody: what is small is copied until nothing of it has changed while it was copied. A crash at that moment
would have left the same, and a flow goes on from there. Data files are written once, and are copied after that.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from headwater.core.errors import Code, HeadwaterError, TransientError, Unsupported
from headwater.core.model import Kind
from headwater.core.state import RelationRecord
from headwater.core.storage import FileEntry, FolderFiles
from headwater.formats.base import Address, TableCut
from headwater.formats.feed_folders import feed_folder
from headwater.formats.registry import FORMATS, SYSTEM_FORMAT
from headwater.formats.relocation import inside
from headwater.ingest.dead_letter_list import address_in
from headwater.operations.backup.manifest import Root
from headwater.operations.backup.writer import BackupWriter, Gone
from headwater.recovery.identity import PATH as IDENTITY
from headwater.recovery.manifest import Manifest
from headwater.sources.append.inbox import INBOX, KEYS
from headwater.warehouse import Warehouse

PATIENCE = 120.0
"""Seconds for which a flow may go on changing whenever its state is copied."""
PAUSE = 0.01
"""Seconds between two tries."""
_SLACK = timedelta(seconds=2)
"""How much later than a commit its data files may seem to be."""

_HADOOP_CHECKSUM = re.compile(r"\..+\.crc")
"""Beside a file that Hadoop has written on a local disk; the file can be read without."""

T = TypeVar("T")
Listing = Mapping[tuple[Root, str], FileEntry]
"""Files by their paths from the warehouse, or from the project's folder."""


@dataclass(frozen=True)
class TakenPart:
    """What of a flow is in the backup."""

    record: RelationRecord | None
    cut: TableCut | None
    letters: int | None
    """The version of the dead letters."""


@dataclass(frozen=True)
class _Look(TakenPart):
    """A flow as it was when it was looked at."""

    small: Listing
    at: datetime

    def stands(self, later: _Look) -> bool:
        """Whether nothing has changed since but for rows that came into an inbox."""
        if (self.record, self.cut, self.letters) != (later.record, later.cut, later.letters):
            return False
        same = all(later.small.get(path) == entry for path, entry in self.small.items())
        return same and all(path in self.small or _arrives(path[1]) for path in later.small)


class Parts:
    """Copies the parts of one lake."""

    def __init__(self, warehouse: Warehouse, writer: BackupWriter, *, metadata_only: bool) -> None:
        self._warehouse = warehouse
        self._context = warehouse.context
        places: Mapping[Root, str] = {"lake": self._context.warehouse, "project": str(warehouse.project.root)}
        self._roots = {root: FolderFiles(place, self._context.storage) for root, place in places.items()}
        self._lake = self._roots["lake"]
        self._records = Manifest(self._lake)
        self._writer = writer
        self._metadata_only = metadata_only

    def beginning(self) -> None:
        """What the lake holds of its sources and of itself: it may be older than the state of flows, never newer."""
        for folder in ("_headwater/sources", "_headwater/statistics"):
            for entry in self._listed("lake", folder).values():
                with suppress(Gone):
                    self._writer.copy("lake", entry.path, self._lake, entry)
        identity = self._lake.entry(IDENTITY)
        assert identity is not None
        self._writer.copy("lake", IDENTITY, self._lake, identity)

    def take(self, flow: str) -> TakenPart:
        """A flow: its ledger, its notes, its record, its table, and the feeds of those who follow that."""
        return _until_still(flow, lambda: self._taken(flow))

    def take_table(self, format: str, address: Address) -> None:
        """A table that no flow keeps."""

        def taken() -> bool:
            at, cut = datetime.now(timezone.utc), self._cut(format, address)
            if cut is not None:
                self._table(cut, format, address, frozenset(), at)
            return True

        _until_still(str(address), taken)

    def letters(self) -> int | None:
        """The dead letters' version now."""
        cut = self._cut(SYSTEM_FORMAT.name, address_in(self._context))
        return None if cut is None else cut.version

    # --- inside

    def _taken(self, flow: str) -> TakenPart | None:
        record = self._record(flow)
        if record is not None and not self._took_feeds(self._address(record)):
            return None
        before = self._look(flow)
        stored = {
            self._writer.copy(root, path, self._roots[root], entry) for (root, path), entry in before.small.items()
        }
        if not before.stands(self._look(flow)):
            return None
        self._writer.keep_only(stored, lambda name: name.startswith(f"lake/_headwater/flows/{flow}/"))
        if before.cut is not None and before.record is not None:
            address = self._address(before.record)
            self._table(before.cut, before.record.format, address, stored, before.at)
        return TakenPart(before.record, before.cut, before.letters)

    def _look(self, flow: str) -> _Look:
        folder = f"_headwater/flows/{flow}"
        # Appended rows before their keys: a key without its rows is tried again, rows without their key are doubled.
        small = self._listed("lake", f"{folder}/{INBOX}") | self._listed("lake", f"{folder}/{KEYS}")
        small |= {path: entry for path, entry in self._listed("lake", folder).items() if not _arrives(path[1])}
        record, cut = self._record(flow), None
        if record is not None:
            found = self._records.entry(record.kind, record.name)
            if found is not None:
                small["lake", found.path] = found
            cut = self._cut(record.format, self._address(record))
        if cut is not None:
            root, folder = self._place(cut)
            for part in cut.at_rest:
                small |= self._listed(root, f"{folder}/{part}")
        return _Look(record, cut, self.letters(), small, datetime.now(timezone.utc))

    def _record(self, flow: str) -> RelationRecord | None:
        kinds, _, name = flow.partition(".")
        kind = next((kind for kind in Kind if kind.plural == kinds), None)
        return None if kind is None else self._records.find(kind, name)

    def _address(self, record: RelationRecord) -> Address:
        return Address(self._warehouse.state.roots.resolved(record.path), record.table)

    def _cut(self, format: str, address: Address) -> TableCut | None:
        found = FORMATS.get(format)
        if found.cut is None:
            raise Unsupported(f"tables of {found.title} can't be backed up ({address})")
        return found.cut(address, self._context)

    def _place(self, cut: TableCut) -> tuple[Root, str]:
        """Where a table lies: in the lake or the project's folder."""
        here = inside(cut.folder, self._context.warehouse)
        if here is not None:
            return "lake", here.rstrip("/")
        in_project = inside(cut.folder, str(self._warehouse.project.root))
        if in_project is not None and not in_project.startswith(".headwater"):
            return "project", in_project.rstrip("/")
        raise Unsupported(
            f"the table {cut.folder} lies neither in the warehouse nor in the project's folder: a lake that is restored"
            " elsewhere would write where the original does",
            hint="keep it in the warehouse: without a `path`, or with one in the project's folder",
        )

    def _table(
        self, cut: TableCut, format: str, address: Address, at_rest: Collection[str], looked_at: datetime
    ) -> None:
        """The files of a table at its version; its records first."""
        root, folder = self._place(cut)
        files, start = self._roots[root], len(folder) + 1
        listed = self._listed(root, folder).values()
        of_version = [one for one in listed if not cut.is_later(one.path[start:]) and not _is_hint(cut, one, start)]
        written = max((one.modified for one in of_version if cut.is_metadata(one.path[start:])), default=looked_at)
        latest = max(looked_at, written) + _SLACK  # by this machine's clock, and by that of who keeps the files
        kept = {name for name in at_rest if name.startswith(f"{root}/{folder}/")}
        for entry in sorted(of_version, key=lambda entry: not cut.is_metadata(entry.path[start:])):
            if cut.must_rest(entry.path[start:]):
                continue  # copied together with the ledger
            is_data = not cut.is_metadata(entry.path[start:])
            if is_data and entry.modified > latest:
                continue  # of a later commit, or of one under way
            if is_data and self._metadata_only:
                if not _HADOOP_CHECKSUM.fullmatch(entry.name):
                    kept.add(self._writer.name(root, entry.path, entry))
            else:
                kept.add(self._writer.copy(root, entry.path, files, entry))
        kept |= {self._writer.put(root, f"{folder}/{path}", text) for path, text in cut.replaced.items()}
        for path, text in cut.notes.items():
            self._writer.put("lake", path, text)
        self._writer.keep_only(kept, lambda name: name.startswith(f"{root}/{folder}/"))
        self._require_there(cut, format, address)

    def _require_there(self, cut: TableCut, format: str, address: Address) -> None:
        """A version that was let go of while it was copied may lack files."""
        native = FORMATS.get(format).native
        if native is None or cut.version is None:
            return
        try:
            native(address, self._context).version_at(cut.version)
        except Unsupported:
            return  # only Spark opens it
        except HeadwaterError as error:
            if error.code is Code.NO_SUCH_VERSION:
                raise Gone(cut.folder) from error
            raise

    def _took_feeds(self, address: Address) -> bool:
        """Copy what those who follow a table by a feed were given, whose checkpoints know the files by name."""
        folder = feed_folder(address, self._context)
        found = self._listed("lake", folder)
        stored = {self._writer.copy("lake", path, self._lake, entry) for (_, path), entry in found.items()}
        if self._listed("lake", folder) != found:
            return False
        self._writer.keep_only(stored, lambda name: name.startswith(f"lake/{folder}/"))
        return True

    def _listed(self, root: Root, folder: str) -> dict[tuple[Root, str], FileEntry]:
        found = self._roots[root].list(folder, recursive=True)
        return {(root, entry.path): entry for entry in found if not entry.is_folder}


def _until_still(what: str, attempt: Callable[[], T | None]) -> T:
    """What an attempt gives once nothing has changed, or gone away, while it was made."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            found = attempt()
        except Gone:
            found = None
        except HeadwaterError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            found = None  # a folder that went away while it was listed
        if found is not None:
            return found
        if time.monotonic() > deadline:
            raise TransientError(
                Code.BACKUP_BUSY,
                f"{what} has changed each time that it was copied, for {PATIENCE:.0f} seconds",
                hint="stop the runner while the backup is taken",
            )
        time.sleep(PAUSE)


def _is_hint(cut: TableCut, entry: FileEntry, start: int) -> bool:
    return entry.path[start:] in cut.replaced


def _arrives(path: str) -> bool:
    """Whether a file of a flow is one that anybody may put there at any time."""
    parts = path.split("/")
    return len(parts) > 4 and parts[1] == "flows" and parts[3] in (INBOX, KEYS)
