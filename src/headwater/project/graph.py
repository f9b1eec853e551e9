"""What reads what: the inputs of every table, view, export and monitor, and the circles among them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.core.errors import Code, Problem, UsageError, Where
from headwater.core.model import Kind
from headwater.core.spec import Table
from headwater.project.decorators import Registered
from headwater.project.definition import ProjectDefinition
from headwater.project.transforms import inputs_of, line_of, transform_of
from headwater.sql.references import InvalidSql, Reference, parse_query, parse_reference, references, resolve
from headwater.sql.temporal import with_validity


class Name(NamedTuple):
    """A relation of the project."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.plural}.{self.name}"


@dataclass(frozen=True)
class Dependency:
    """A relation that another one reads, as it is named there."""

    of: Name
    reference: Reference
    where: Where


@dataclass(frozen=True)
class Graph:
    """The inputs of tables and views, and of what leaves the lake, as far as they could be resolved."""

    inputs: Mapping[Name, tuple[Dependency, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def order(self) -> list[Name]:
        """Tables and views, each after what it reads; only for a graph without circles."""
        done: dict[Name, None] = {}

        def visit(name: Name) -> None:
            for each in self.inputs.get(name, ()):
                visit(each.of)
            if name in self.inputs:
                done.setdefault(name)

        for name in self.inputs:
            visit(name)
        return list(done)

    def cycles(self) -> list[list[Name]]:
        """Every circle once, from where it was first met."""
        found: list[list[Name]] = []
        state: dict[Name, bool] = {}
        path: list[Name] = []

        def visit(name: Name) -> None:
            state[name] = True
            path.append(name)
            for of in dict.fromkeys(each.of for each in self.inputs.get(name, ())):
                if state.get(of):
                    found.append([*path[path.index(of) :], of])
                elif of not in state:
                    visit(of)
            path.pop()
            state[name] = False

        for name in self.inputs:
            if name not in state:
                visit(name)
        return found


def graph_of(project: ProjectDefinition, known: Mapping[Kind, Collection[str]] | None = None) -> Graph:
    """The project's graph. `known` are the names to resolve by, if more than the project's own."""
    names = known or {kind: project.relations(kind).keys() for kind in Kind}
    problems: list[Problem] = []
    inputs: dict[Name, tuple[Dependency, ...]] = {}
    for kind in (Kind.TABLE, Kind.VIEW):
        for name in project.relations(kind):
            inputs[Name(kind, name)] = tuple(_inputs(project, Name(kind, name), names, problems))
    return Graph(inputs, tuple(problems))


def named(project: ProjectDefinition, text: str, path: str, known: Mapping[Kind, Collection[str]]) -> Dependency:
    """What a `from:` or `on:` names; UsageError if nothing."""
    reference = parse_reference(text)
    return Dependency(Name(resolve(reference, known), reference.name), reference, project.where(path))


def _inputs(
    project: ProjectDefinition, reader: Name, known: Mapping[Kind, Collection[str]], problems: list[Problem]
) -> Iterator[Dependency]:
    definition = project.relations(reader.kind)[reader.name]
    function = transform_of(project, definition) if isinstance(definition, Table) else None
    if function is not None:
        yield from _taken(project, reader, function, known, problems)
        return
    source = getattr(definition, "from_", None)
    path = f"{reader}.from" if source is not None else f"{reader}.sql"
    try:
        if source is not None:
            yield named(project, source, path, known)
            return
        sql = getattr(definition, "sql", None)
        query = parse_query(sql) if sql is not None else None
        found = references(query) if query is not None else []
        if any(reference.temporal for reference in found):
            assert query is not None
            with_validity(query)
    except InvalidSql as error:
        told, where = error.problem, sql_line(project, path, error.line)
        problems.append(Problem(error.code, told.message, where, told.hint, told.excerpt))
        return
    except UsageError as error:
        problems.append(_at(error, project.where(path), reader, project))
        return
    for reference in found:
        where = sql_line(project, path, reference.line)
        try:
            yield Dependency(Name(resolve(reference, known), reference.name), reference, where)
        except UsageError as error:
            problems.append(_at(error, where, reader, project))


def _taken(
    project: ProjectDefinition,
    reader: Name,
    function: Registered,
    known: Mapping[Kind, Collection[str]],
    problems: list[Problem],
) -> Iterator[Dependency]:
    """What a `@transform` takes."""
    place = line_of(function, project.root)
    try:
        inputs = inputs_of(function, project.root)
    except UsageError:
        return  # told where functions are looked at
    for text in inputs.values():
        try:
            reference = parse_reference(text)
            yield Dependency(Name(resolve(reference, known), reference.name), reference, place)
        except UsageError as error:
            problems.append(_at(error, place, reader, project))


def sql_line(project: ProjectDefinition, path: str, line: int | None) -> Where:
    """The place of a line inside a query."""
    start = project.where(path)
    if line is None or start.line is None:
        return start
    return Where(start.file, start.line + line - 1, path)


def _at(error: UsageError, where: Where, reader: Name, project: ProjectDefinition) -> Problem:
    hint = error.problem.hint
    name = error.problem.message.rpartition(" '")[2].rstrip("'")
    if error.code is Code.UNKNOWN_REFERENCE and name in project.sources and not (hint or "").startswith("did"):
        hint = f"'{name}' is a source; {reader.kind.plural} read topics that are fed from it"
    return Problem(error.code, error.problem.message, where, hint)


def cycle_problems(project: ProjectDefinition, graph: Graph) -> Iterator[Problem]:
    for circle in graph.cycles():
        first = circle[0]
        message = "depends on itself: " + " → ".join(str(name) for name in circle)
        where = project.relations(first.kind)[first.name].where
        yield Problem(Code.CYCLE, message, where, "one of them must read something else")
