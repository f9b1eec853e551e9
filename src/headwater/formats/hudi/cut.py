"""A Hudi table at its latest version, for a backup."""

from __future__ import annotations

import re

from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext, TableCut
from headwater.formats.hudi.instants import COMMITS

_TIMELINE = ".hoodie/timeline"
_COMPLETED = re.compile(r"(\d+)_\d+\.(\w+)")


def cut(address: Address, context: LakeContext) -> TableCut | None:
    """The table as it is now; None where there is none. What is under way is rolled back by whoever writes next.

    The timeline and its metadata table are one state only while neither changes.
    """
    assert address.path is not None
    files = Files(address.path, context.storage)
    if not files.exists(".hoodie/hoodie.properties"):
        return None
    names = sorted(entry.name for entry in files.list(_TIMELINE) if not entry.is_folder)
    done = [found for found in map(_COMPLETED.fullmatch, names) if found and found[2] in COMMITS]
    version = max((int(found[1]) for found in done), default=None)
    return TableCut(address.path, version, (".hoodie",), at_rest=(".hoodie",), state="\n".join(names))
