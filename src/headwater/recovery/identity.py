"""Which lake this is: an id in the lake itself, with the place where it was seen last and the version of its layout."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass

from headwater.core.errors import Code, HeadwaterError, IntegrityError, TerminalError, Where
from headwater.core.state import LAKE_FORMAT
from headwater.core.storage import Files

PATH = "_headwater/lake.json"


@dataclass(frozen=True)
class LakeIdentity:
    """A lake, and where it and the state that runs it were seen last. What is here stays in all versions of the layout:
    an older Headwater reads it to say that the lake is too new for it."""

    id: str
    warehouse: str
    home: str
    copied_from: str | None = None
    """The id of the lake that this one is a copy of."""
    format: int | None = LAKE_FORMAT
    """The version of its layout; None: of a release that wrote none."""

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
            known = (told["id"], told["warehouse"], told["home"], told.get("copied_from"))
            return LakeIdentity(*known, None if told.get("format") is None else int(told["format"]))
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"{files.join(PATH)} can't be read: {error}",
                hint="delete it; it will be created again",
            ) from error

    def write(self, files: Files) -> None:
        files.write_atomic(PATH, json.dumps(asdict(self), indent=2, sort_keys=True))


def require_known_format(files: Files, format: int | None) -> None:
    """Refuse a lake whose layout a newer Headwater has changed."""
    if format is not None and format > LAKE_FORMAT:
        raise TerminalError(
            Code.LAKE_TOO_NEW,
            f"the lake has format {format}, and this Headwater knows formats up to {LAKE_FORMAT}: a newer Headwater has"
            " written it",
            where=Where(files.join(PATH)),
            hint="update Headwater here, or go on with the newer one; nothing was changed",
        )


def is_at(place: Callable[[], Files], id: str, *, unreachable: bool) -> bool:
    """Whether the lake of an id is there; `unreachable`: what is said of a place that can't be read."""
    try:
        found = LakeIdentity.read(place())
    except HeadwaterError:
        return unreachable
    return found is not None and found.id == id


def is_same_place(one: str, other: str) -> bool:
    """Whether two paths lead to the same folder, by links say."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
