"""The last traces of rows that were removed: Delta's log tells the least and greatest values of files that are gone.

A commit that removes files names them with their statistics and partitions, and so do the commits that added them,
checkpoints, and the change files of deletes. So a commit of its own follows the removal, with a checkpoint that keeps
no removed file, and when all readers are past it the log begins there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwater.core.model import Version
from headwater.core.storage import Files

RENEWED = "headwater.renewed"
"""What the log's own property was before."""
TOMBSTONES = "delta.deletedFileRetentionDuration"
_UNSET = "-"
_LOG = "_delta_log"
_NUMBERED = re.compile(r"^\.?(\d{20})\.")


def before_checkpoint(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a commit that names no file, so that its checkpoint keeps no removed one."""
    before = properties.get(RENEWED) or properties.get(TOMBSTONES) or _UNSET
    return {RENEWED: before, TOMBSTONES: "interval 0 seconds"}


def after_erasure(properties: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What is to be set and unset so that the properties are as they were."""
    before = properties.get(RENEWED)
    if before is None:
        return {}, []
    return ({}, [RENEWED, TOMBSTONES]) if before == _UNSET else ({TOMBSTONES: before}, [RENEWED])


def erase_log(files: Files, oldest: Version) -> None:
    """Delete the commits and checkpoints before a version that has a checkpoint."""
    for entry in files.list(_LOG, recursive=True):
        numbered = _NUMBERED.match(entry.name)
        if not entry.is_folder and numbered is not None and int(numbered.group(1)) < oldest:
            files.delete(entry.path)
            files.delete(entry.path.replace(entry.name, f".{entry.name}.crc"))  # Hadoop's own checksum of it
