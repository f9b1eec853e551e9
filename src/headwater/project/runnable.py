"""What this release can run. Other definitions are understood and checked, but not kept up to date."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.errors import Code, Problem
from headwater.project.definition import Project
from headwater.project.transforms import streaming_tables, transform_of
from headwater.spec import Definition


def kept_tables(project: Project) -> list[str]:
    """The tables that a flow keeps: by a query or function, from a topic's changes, from a file."""
    streaming = streaming_tables(project)
    return [
        name
        for name, table in project.tables.items()
        if name in streaming or table.apply or table.seed or table.sql or transform_of(project, table)
    ]


def not_runnable(project: Project) -> list[Problem]:
    """A note for each definition that this release does not run."""
    return list(_notes(project))


def _notes(project: Project) -> Iterator[Problem]:
    by_hand = {name for name, table in project.tables.items() if not any(table.origins.values())}
    runs = {*kept_tables(project), *by_hand}
    sections: dict[str, dict[str, Definition]] = {
        "tables": {name: table for name, table in project.tables.items() if name not in runs},
        "exports": dict(project.exports),
        "monitors": dict(project.monitors),
    }
    for section, definitions in sections.items():
        for name, definition in definitions.items():
            yield _note(f"{section}.{name} can't run yet", definition)


def _note(message: str, definition: Definition) -> Problem:
    return Problem(Code.NOT_RUNNABLE_YET, message, definition.where)
