"""Which lake this is: an id in the lake itself, with the place where it was seen last."""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass

from headwater.core.errors import Code, HeadwaterError, IntegrityError
from headwater.core.storage import Files

PATH = "_headwater/lake.json"


@dataclass(frozen=True)
class LakeIdentity:
    """A lake, and where it and the state that runs it were seen last."""

    id: str
    warehouse: str
    home: str
    copied_from: str | None = None
    """The id of the lake that this one is a copy of."""

    @staticmethod
    def new(warehouse: str, home: str, copied_from: str | None = None) -> LakeIdentity:
        return LakeIdentity(uuid.uuid4().hex, warehouse, home, copied_from)

    @staticmethod
    def read(files: Files) -> LakeIdentity | None:
        found = files.find(PATH)
        if found is None:
            return None
        try:
            told = json.loads(found)
            return LakeIdentity(told["id"], told["warehouse"], told["home"], told.get("copied_from"))
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"{files.join(PATH)} can't be read: {error}",
                hint="delete it: it is made again",
            ) from error

    def write(self, files: Files) -> None:
        files.write_atomic(PATH, json.dumps(asdict(self), indent=2, sort_keys=True))


def is_at(files: Files, id: str) -> bool:
    """Whether the lake of an id is there; a place that can't be reached is taken to have none."""
    try:
        found = LakeIdentity.read(files)
    except HeadwaterError:
        return False
    return found is not None and found.id == id


def is_same_place(one: str, other: str) -> bool:
    """Whether two paths lead to the same folder, by links say."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
