"""What the state knows of each relation, kept in the lake too: the state is rebuilt from here when it is lost.

`_headwater/relations/<kind>.<name>.json`
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict

from headwater.core.errors import Code, IntegrityError
from headwater.core.model import Kind
from headwater.core.state import RelationRecord
from headwater.core.state.records import record_of
from headwater.core.storage import FileEntry, Files

FOLDER = "_headwater/relations"
_REVISION = "_headwater/relations.json"


class Manifest:
    """The records of one lake; their paths start from the warehouse."""

    def __init__(self, files: Files, alone: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        """`alone`: what keeps others from comparing lake and state while both are changed."""
        self._files = files
        self.alone = alone

    def put(self, record: RelationRecord) -> str:
        revision = self._renamed()
        told = asdict(record) | {"kind": record.kind.value, "created_at": record.created_at.isoformat()}
        self._files.write_atomic(_path(record.kind, record.name), json.dumps(told, indent=2, sort_keys=True))
        return revision

    def remove(self, kind: Kind, name: str) -> str:
        revision = self._renamed()
        self._files.delete(_path(kind, name))
        return revision

    def revision(self) -> str | None:
        """What the records are called since one was put or removed; the state holds the same. None: of a release that
        gave them no name."""
        text = self._files.find(_REVISION)
        try:
            return None if text is None else str(json.loads(text)["revision"])
        except (ValueError, KeyError, TypeError):
            return ""  # whatever the state has, the two are compared

    def _renamed(self) -> str:
        """Another name before each change: who is cut off in between has another one than the state."""
        revision = uuid.uuid4().hex
        self._files.write_atomic(_REVISION, json.dumps({"revision": revision}))
        return revision

    def add_missing(self, records: Iterable[RelationRecord]) -> None:
        """Of an earlier release, which kept them in the state alone."""
        for record in records:
            if not self._files.exists(_path(record.kind, record.name)):
                self.put(record)

    def find(self, kind: Kind, name: str) -> RelationRecord | None:
        text = self._files.find(_path(kind, name))
        return None if text is None else self._parsed(_path(kind, name), text)

    def entry(self, kind: Kind, name: str) -> FileEntry | None:
        """The file that holds a record."""
        return self._files.entry(_path(kind, name))

    def records(self) -> list[RelationRecord]:
        entries = self._files.list(FOLDER) if self._files.exists(FOLDER) else []
        return [
            self._parsed(entry.path, self._files.read_bytes(entry.path))
            for entry in entries
            if entry.name.endswith(".json")
        ]

    def _parsed(self, path: str, text: bytes) -> RelationRecord:
        try:
            told = json.loads(text)
            hidden = json.dumps(told["hidden"])
            return record_of({**told, "hidden": hidden, "catalog_table": told["table"]})
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the lake's {self._files.join(path)} can't be read: {error}",
                hint="delete it, and run the project once: it is written again",
            ) from error


def _path(kind: Kind, name: str) -> str:
    return f"{FOLDER}/{kind.plural}.{name}.json"
