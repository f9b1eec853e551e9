"""Source files that came along with a project: a copy has other times, and is not a file that has changed."""

from __future__ import annotations

import posixpath
from functools import partial

from headwater.core.storage import Files
from headwater.formats.relocation import inside
from headwater.recovery.context import Context
from headwater.sources.files.config import FilesSource
from headwater.sources.files.folder import Folder
from headwater.sources.files.log import InputFile, restamped


def restamp(lake: Context, old_root: str) -> None:
    """Take files for those that were ingested, which lie where the project is now and are as large as they were.

    Where the original is still there and has changed since, its copy is taken for a changed file too.
    """
    root = posixpath.dirname(lake.home.rstrip("/"))
    if old_root == root:
        return
    for topic in lake.project.topics.values():
        source = lake.project.sources.get(topic.from_)
        if not isinstance(source, FilesSource):
            continue
        location = lake.project.location(source.path)
        rest = inside(location, root)
        if rest is None:
            continue  # it stayed where it was
        here = Folder(source, location, lake.context.storage)
        there = Folder(source, posixpath.join(old_root, rest), lake.context.storage)
        if not here.is_local:
            continue
        flow = f"_headwater/flows/topics.{topic.name}"
        epochs = [entry.path for entry in lake.files.list(flow) if entry.is_folder and entry.name.startswith("epoch-")]
        for folder in (flow, *epochs):
            notes = Files(lake.files.join(folder), lake.context.storage)
            restamped(notes, partial(_same, here=here, there=there))


def _same(taken: InputFile, here: Folder, there: Folder) -> InputFile | None:
    """The file as it is here, if it is the one that was ingested."""
    now, original = here.find(taken.path), there.find(taken.path)
    if now is None or now.bytes != taken.bytes or now.modified == taken.modified:
        return None
    return None if original is not None and not there.is_same(original, taken) else now
