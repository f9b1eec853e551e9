"""What this release does not run: definitions that nothing keeps up to date, and keys that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import Code, Problem
from headwater.core.model import Kind
from headwater.core.spec import Definition
from headwater.project.definition import ProjectDefinition
from headwater.project.transforms import streaming_tables, transform_of


def kept_tables(project: ProjectDefinition) -> list[str]:
    """The tables that a flow keeps: by a query or function, from a topic's changes, from a file."""
    streaming = streaming_tables(project)
    return [
        name
        for name, table in project.tables.items()
        if name in streaming or table.apply or table.seed or table.sql or transform_of(project, table)
    ]


def not_runnable(project: ProjectDefinition) -> list[Problem]:
    """A note for each definition that this release does not run, and for each key that does nothing."""
    return [*_definitions(project), *_settings(project), *_relations(project), *_sources(project)]


def _definitions(project: ProjectDefinition) -> Iterator[Problem]:
    by_hand = {name for name, table in project.tables.items() if not any(table.origins.values())}
    runs = {*kept_tables(project), *by_hand}
    sections: dict[str, dict[str, Definition]] = {
        "tables": {name: table for name, table in project.tables.items() if name not in runs},
        "monitors": dict(project.monitors),
        "alerts": dict(project.alerts),
    }
    for section, definitions in sections.items():
        for name, definition in definitions.items():
            yield Problem(Code.NOT_RUNNABLE_YET, f"{section}.{name} can't run yet", definition.where)


def _settings(project: ProjectDefinition) -> Iterator[Problem]:
    if "server" in project.settings.model_fields_set:
        yield _not_yet(project, "server", "there is no `headwater serve` yet", None)


def _relations(project: ProjectDefinition) -> Iterator[Problem]:
    """Keys of topics, tables and views that nothing reads yet, or not for such a relation."""
    for kind in Kind:
        for name, relation in project.relations(kind).items():
            path = f"{kind.plural}.{name}"
            if relation.publish:
                yield _not_yet(project, f"{path}.publish", "no other catalog gets to know it yet", None)
    for name, table in project.tables.items():
        if table.trigger is not None and not any(table.origins.values()):
            yield _no_effect(project, f"tables.{name}.trigger", "the table is filled by hand: no flow keeps it")


def _sources(project: ProjectDefinition) -> Iterator[Problem]:
    for name, source in project.sources.items():
        path = f"sources.{name}"
        if source.reader_class is None:
            yield _not_yet(project, path, f"nothing reads a source of type {source.type} yet", None)
        if source.options and not source.takes_options:
            yield _no_effect(project, f"{path}.options", f"options of a source of type {source.type} have no effect")
        for key, needed in source.unused_keys():
            yield _no_effect(project, f"{path}.{key}", f"`{key}` has no effect without {needed}")


def _not_yet(project: ProjectDefinition, path: str, message: str, hint: str | None) -> Problem:
    return Problem(Code.NOT_RUNNABLE_YET, message, project.where(path), hint)


def _no_effect(project: ProjectDefinition, path: str, message: str) -> Problem:
    return Problem(Code.NO_EFFECT, message, project.where(path), "take it out")
