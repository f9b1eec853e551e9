"""A Paimon table at its latest version, for a backup."""

from __future__ import annotations

import re

from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext, TableCut
from headwater.formats.paimon.names import location

_SNAPSHOT = re.compile(r"snapshot-(\d+)")
_NUMBERED = re.compile(r"(?:snapshot/snapshot|changelog/changelog)-(\d+)")
_HINTS = ("snapshot/LATEST", "snapshot/EARLIEST")
_METADATA = ("snapshot", "schema", "manifest", "tag", "branch", "changelog", "statistics", "consumer", "service")


def cut(address: Address, context: LakeContext) -> TableCut | None:
    """The table as it is now; None where there is none."""
    folder = location(address, context)
    files = Files(folder, context.storage)
    if not files.exists("schema"):
        return None
    numbers = [int(found[1]) for entry in files.list("snapshot") if (found := _SNAPSHOT.fullmatch(entry.name))]
    version = max(numbers, default=None)

    def is_later(path: str) -> bool:
        numbered = _NUMBERED.fullmatch(path)
        return numbered is not None and (version is None or int(numbered[1]) > version)

    hints = (max(numbers), min(numbers)) if numbers else ()
    replaced = {path: str(number).encode() for path, number in zip(_HINTS, hints, strict=False)}
    return TableCut(folder, version, _METADATA, is_later, replaced)
