"""A Delta table at its latest version, for a backup."""

from __future__ import annotations

import json
import re

from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext, TableCut

_LOG = "_delta_log"
_POINTER = f"{_LOG}/_last_checkpoint"
_ENTRY = re.compile(r"(\d{20})\.json")
_NUMBERED = re.compile(r"_delta_log/(?:.*/)?\.?(?:\d{20}\.)?(\d{20})\.[^/]*")
"""A file of the log and the last version that it tells of; compacted ones name their first before it."""


def cut(address: Address, context: LakeContext) -> TableCut | None:
    """The table as it is now; None where there is none."""
    assert address.path is not None
    files = Files(address.path, context.storage)
    found = (_ENTRY.fullmatch(entry.name) for entry in files.list(_LOG))
    version = max((int(entry[1]) for entry in found if entry), default=None)
    if version is None:
        return None
    pointer = files.find(_POINTER)
    pointed = 0 if pointer is None else int(json.loads(pointer).get("version", 0))

    def is_later(path: str) -> bool:
        if path.startswith((_POINTER, f"{_LOG}/._last_checkpoint")):
            return pointed > version  # without it a reader lists the log
        numbered = _NUMBERED.fullmatch(path)
        return numbered is not None and int(numbered[1]) > version

    return TableCut(address.path, version, (_LOG,), is_later)
