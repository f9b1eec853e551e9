"""What `headwater check` says of a folder that is on this machine: that it is missing, empty, or of other files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from headwater.core.errors import nearest
from headwater.sources.base import Remark
from headwater.sources.files.config import FilesSource
from headwater.sources.files.endings import format_of
from headwater.sources.files.folder import UNFINISHED, split

LOOKED_AT = 200
"""Entries of a folder at most: this is a glance, not a listing."""


def remarks(spec: FilesSource, location: str) -> Iterator[Remark]:
    """`location` is the path as Spark takes it."""
    if "://" in location:
        return
    folder, glob = split(spec.path, location)
    place = Path(folder)
    if not place.exists():
        yield Remark("path", f"there is no folder {place}", _where_instead(spec, place))
        return
    files = [place] if place.is_file() else [*islice(_files(place), LOOKED_AT)]
    if not files and glob is None:
        yield Remark("path", f"there are no files in {place} yet", "put one there")
    kinds = Counter(format_of(file.name) for file in files)
    kind = kinds.most_common(1)[0][0] if kinds else None
    if glob is None and spec.pattern is None and kind not in (None, spec.file_format, "text") and not _is_text(spec):
        name = next(file.name for file in files if format_of(file.name) == kind)
        message = f"{name} looks like {kind}, and is read as {spec.file_format}"
        yield Remark("file_format", message, f"let `file_format` be {kind}")


def _where_instead(spec: FilesSource, place: Path) -> str:
    siblings = [one.name for one in islice(place.parent.iterdir(), LOOKED_AT)] if place.parent.is_dir() else []
    best = nearest(place.name, siblings)
    return "make it, or correct `path`" if best is None else f"did you mean '{best}'?"


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not UNFINISHED.search(str(path.relative_to(folder))):
            yield path


def _is_text(spec: FilesSource) -> bool:
    """Whether it takes files of any kind as they are."""
    return spec.file_format in ("text", "binary")
