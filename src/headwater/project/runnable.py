"""What this release can run. Other definitions are understood and checked, but not kept up to date."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.errors import Code, Problem
from headwater.project.definition import Project
from headwater.project.transforms import streaming_tables
from headwater.spec import Definition


def not_runnable(project: Project) -> list[Problem]:
    """A note for each definition that this release does not run."""
    return list(_notes(project))


def _notes(project: Project) -> Iterator[Problem]:
    runs = streaming_tables(project)
    sections: dict[str, dict[str, Definition]] = {
        "tables": {name: table for name, table in project.tables.items() if name not in runs},
        "views": dict(project.views),
        "exports": dict(project.exports),
        "monitors": dict(project.monitors),
    }
    for section, definitions in sections.items():
        for name, definition in definitions.items():
            yield _note(f"{section}.{name} can't run yet", definition)


def _note(message: str, definition: Definition) -> Problem:
    return Problem(Code.NOT_RUNNABLE_YET, message, definition.where)
