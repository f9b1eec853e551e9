"""What this release can run. Other definitions are understood and checked, but not kept up to date."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.errors import Code, Problem
from headwater.project.definition import Project
from headwater.spec import Definition, Topic

SOURCES = frozenset({"append", "files", "kafka"})
"""Types of sources that topics can be fed from."""

SECTIONS = frozenset({"sources", "topics", "catalogs"})
"""Sections of the project file whose definitions run."""


def not_runnable(project: Project) -> list[Problem]:
    """A note for each definition that this release does not run."""
    return list(_notes(project))


def not_runnable_because(project: Project, topic: Topic) -> str | None:
    """Why this release does not run a topic, if it does not."""
    source = project.sources.get(topic.from_)
    if source is not None and source.type not in SOURCES:
        return f"topics.{topic.name} can't run yet: its source is of type {source.type}"
    return None


def _notes(project: Project) -> Iterator[Problem]:
    for topic in project.topics.values():
        because = not_runnable_because(project, topic)
        if because is not None:
            yield _note(because, topic)
    sections: dict[str, dict[str, Definition]] = {
        "tables": dict(project.tables),
        "views": dict(project.views),
        "exports": dict(project.exports),
        "monitors": dict(project.monitors),
    }
    for section, definitions in sections.items():
        if section in SECTIONS:
            continue
        for name, definition in definitions.items():
            yield _note(f"{section}.{name} can't run yet", definition)


def _note(message: str, definition: Definition) -> Problem:
    return Problem(Code.NOT_RUNNABLE_YET, message, definition.where)
