"""Named snapshots: labels for versions of a relation, kept in the lake next to the ledger.

`_headwater/tags/<kind>.<name>.json`: whoever expires versions finds there what has to stay.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime, timezone

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.model import At, Kind, Version
from headwater.core.record import Record
from headwater.warehouse import Warehouse

_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Tag(Record):
    """A label and the version that it stands for."""

    label: str
    version: Version
    tagged_at: str


def tags_of(warehouse: Warehouse, kind: Kind, name: str) -> list[Tag]:
    """By label."""
    found = warehouse.files.find(_path(kind, name))
    return sorted((Tag(**one) for one in json.loads(found)), key=lambda tag: tag.label) if found else []


def protected(warehouse: Warehouse, kind: Kind, name: str) -> frozenset[Version]:
    """The versions that labels stand for: they are not to be expired."""
    return frozenset(tag.version for tag in tags_of(warehouse, kind, name))


def tag(warehouse: Warehouse, kind: Kind, name: str, label: str, at: At | None = None, *, replace: bool = False) -> Tag:
    """Give a version a name: the latest by default."""
    if not _LABEL.fullmatch(label):
        raise UsageError(
            Code.INVALID_NAME,
            f"'{label}' can't be a label",
            hint="a letter, then letters, digits, _ . and -, 100 at most",
        )
    table = warehouse.lookup(kind, name)
    version = table.version() if at is None else table.version_at(at)
    if version is None:
        raise UsageError(Code.NO_SUCH_VERSION, f"{kind.value} '{name}' has no version yet")
    others = [one for one in tags_of(warehouse, kind, name) if one.label != label]
    if len(others) < len(tags_of(warehouse, kind, name)) and not replace:
        raise UsageError(
            Code.ALREADY_EXISTS, f"{kind.value} '{name}' has a snapshot '{label}'", hint="--replace moves the label"
        )
    made = Tag(label, version, datetime.now(timezone.utc).isoformat(timespec="seconds"))
    _put(warehouse, kind, name, [*others, made])
    return made


def untag(warehouse: Warehouse, kind: Kind, name: str, label: str) -> None:
    """Take a label away; the version stays until it is expired."""
    known = tags_of(warehouse, kind, name)
    if label not in {one.label for one in known}:
        raise _unknown(kind, name, label, known)
    _put(warehouse, kind, name, [one for one in known if one.label != label])


def forget(warehouse: Warehouse, kind: Kind, name: str) -> None:
    """The relation is dropped, and all its versions with it."""
    warehouse.files.delete(_path(kind, name))


def version_of(warehouse: Warehouse, kind: Kind, name: str, label: str) -> Version:
    known = tags_of(warehouse, kind, name)
    for one in known:
        if one.label == label:
            return one.version
    raise _unknown(kind, name, label, known)


def _unknown(kind: Kind, name: str, label: str, known: list[Tag]) -> UsageError:
    return UsageError(
        Code.NO_SUCH_VERSION,
        f"{kind.value} '{name}' has no snapshot '{label}'",
        hint=did_you_mean(label, [one.label for one in known]),
    )


def _put(warehouse: Warehouse, kind: Kind, name: str, tags: list[Tag]) -> None:
    content = json.dumps([asdict(one) for one in tags], indent=2)
    warehouse.files.write_atomic(_path(kind, name), content)


def _path(kind: Kind, name: str) -> str:
    return f"_headwater/tags/{kind.plural}.{name}.json"
