"""A plain Parquet table at its latest version, for a backup."""

from __future__ import annotations

import json
import re

from headwater.core.storage import Files
from headwater.formats.base import Address, LakeContext, TableCut
from headwater.formats.parquet.log import FOLDER, POINTER, Log
from headwater.formats.parquet.staged_files import STAGING

_NUMBERED = re.compile(rf"{FOLDER}/(\d{{20}})(\.checkpoint)?\.json")


def cut(address: Address, context: LakeContext) -> TableCut | None:
    """The table as it is now; None where there is none."""
    assert address.path is not None
    files = Files(address.path, context.storage)
    if not Log(files).exists():
        return None
    found = [each for entry in files.list(FOLDER) if (each := _NUMBERED.fullmatch(entry.path))]
    version = max((int(each[1]) for each in found), default=None)
    checkpoint = max((int(each[1]) for each in found if each[2]), default=None)

    def is_later(path: str) -> bool:
        if path.startswith(f"{STAGING}/"):
            return True  # of a commit that is under way
        numbered = _NUMBERED.fullmatch(path)
        return numbered is not None and (version is None or int(numbered[1]) > version)

    replaced = {} if checkpoint is None else {POINTER: json.dumps({"checkpoint": checkpoint}).encode()}
    return TableCut(address.path, version, (FOLDER,), is_later, replaced)
