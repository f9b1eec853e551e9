"""Remembers that nothing is wrong with a project, so that commands which only look need not check it again.

`.headwater/checked` holds a digest of all that the check has read. `check`, `plan` and `run` never ask it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwater.project.definition import ProjectDefinition
from headwater.project.load.code import code_digest

_NAME = "checked"
_CODE = Path(__file__).parents[1]
"""The check is as its code is: another release may find more."""


def is_known_good(project: ProjectDefinition) -> bool:
    """Whether a check of exactly this has found nothing."""
    try:
        return (project.home / _NAME).read_text(encoding="ascii") == digest(project)
    except (OSError, ValueError):
        return False


def remember_good(project: ProjectDefinition) -> None:
    """A check has found nothing. Only noted where the project has its own folder by now."""
    with suppress(OSError):
        if project.home.is_dir():
            made = project.home / f".{_NAME}.{os.getpid()}.tmp"
            made.write_text(digest(project), encoding="ascii")
            made.replace(project.home / _NAME)


def digest(project: ProjectDefinition) -> str:
    """Changes with whatever a check may find something in: definitions, code, seeds, and the check itself."""
    found = hashlib.sha256()
    for part in _parts(project):
        found.update(f"{part}\n".encode())
    return found.hexdigest()


def _parts(project: ProjectDefinition) -> Iterator[object]:
    yield from (project.target, project.root, code_digest(project.root, project.settings.code))
    sections: tuple[Mapping[str, Any], ...] = (
        project.catalogs, project.sources, project.topics, project.tables, project.views,
        project.exports, project.monitors, project.alerts,
    )  # fmt: skip
    yield project.settings.model_dump_json()
    for section in sections:
        for name, definition in section.items():
            yield (name, definition.model_dump_json())
    for function in project.functions:
        yield (function.role, function.name, function.file, _stamp(Path(function.file)))
    for table in project.tables.values():
        if table.seed is not None:
            yield (table.seed, _stamp(Path(project.location(table.seed))))
    for folder in ("project", "sql", "formats", "sources", "core"):
        yield max(_stamp(file) for file in (_CODE / folder).rglob("*.py"))


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
