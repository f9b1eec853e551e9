"""What the state knows of each relation, kept in the lake too: the state is rebuilt from here when it is lost.

`_headwater/relations/<kind>.<name>.json`
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict

from headwater.core.errors import Code, IntegrityError
from headwater.core.model import Kind
from headwater.core.state import RelationRecord
from headwater.core.state.records import record_of
from headwater.core.storage import Files

FOLDER = "_headwater/relations"


class Manifest:
    """The records of one lake; their paths start from the warehouse."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def put(self, record: RelationRecord) -> None:
        told = asdict(record) | {"kind": record.kind.value, "created_at": record.created_at.isoformat()}
        self._files.write_atomic(_path(record.kind, record.name), json.dumps(told, indent=2, sort_keys=True))

    def remove(self, kind: Kind, name: str) -> None:
        self._files.delete(_path(kind, name))

    def add_missing(self, records: Iterable[RelationRecord]) -> None:
        """Of an earlier release, which kept them in the state alone."""
        for record in records:
            if not self._files.exists(_path(record.kind, record.name)):
                self.put(record)

    def records(self) -> list[RelationRecord]:
        entries = self._files.list(FOLDER) if self._files.exists(FOLDER) else []
        return [self._read(entry.path) for entry in entries if entry.name.endswith(".json")]

    def _read(self, path: str) -> RelationRecord:
        try:
            told = json.loads(self._files.read_text(path))
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
