"""Everything that can be known to be wrong with a project before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from headwater.core.errors import Code, Problem, UsageError, Where, did_you_mean
from headwater.core.model import Kind
from headwater.core.spec import Export, Topic
from headwater.formats.registry import FORMATS
from headwater.project.capabilities import capability_problems
from headwater.project.checks.addresses import address_problems
from headwater.project.checks.places import place_problems
from headwater.project.columns import STANDARD, column_problems, columns_of, declared_columns, renamed_column_notes
from headwater.project.definition import ProjectDefinition
from headwater.project.graph import Graph, Name, cycle_problems, graph_of, named, sql_line
from headwater.project.load.build import Built
from headwater.project.queries import query_problems
from headwater.project.runnable import not_runnable
from headwater.project.signatures import function_problems
from headwater.project.transforms import transform_problems
from headwater.sources.files.config import FilesSource
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.registry import remarks
from headwater.sources.table.config import TableSource
from headwater.sql.conditions import column_paths, misspelt
from headwater.sql.references import InvalidSql, is_query, parse_condition, parse_query
from headwater.targets.registry import TARGETS

SCHEMES = ("file", "s3", "s3a", "abfss", "gs", "hdfs")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def check_project(project: ProjectDefinition, broken: Mapping[str, Collection[str]] | None = None) -> list[Problem]:
    """All problems, in the order of the files. `broken` are names of definitions that could not be read."""
    more = broken or {}
    known = {kind: {*project.relations(kind), *more.get(kind.plural, ())} for kind in Kind}
    graph = graph_of(project, known)
    found = [
        *graph.problems,
        *cycle_problems(project, graph),
        *_setting_problems(project),
        *address_problems(project),
        *_source_problems(project),
        *_topic_problems(project, {*project.sources, *more.get("sources", ())}),
        *function_problems(project.functions, list(project.topics.values()), project.root),
        *transform_problems(project),
        *_table_problems(project, graph),
        *_view_problems(graph),
        *_temporal_problems(project, graph),
        *_outlet_problems(project, known, {*project.alerts, *more.get("alerts", ())}),
        *_name_problems(project),
        *place_problems(project),
        *column_problems(project),
        *query_problems(project),
        *capability_problems(project, graph),
    ]
    return in_order([_as_written(project, problem) for problem in found])


def all_problems(built: Built) -> list[Problem]:
    """What is wrong with the files, and with what they say as far as it could be read."""
    found = list(built.problems)
    if built.project is not None:
        found += check_project(built.project, built.broken)
    return in_order(found)


def all_notes(project: ProjectDefinition) -> list[Problem]:
    """What is not wrong and may be meant otherwise: what does nothing, is called otherwise, or is not there yet."""
    return in_order([*not_runnable(project), *renamed_column_notes(project), *_source_notes(project)])


def _source_notes(project: ProjectDefinition) -> Iterator[Problem]:
    for name, source in project.sources.items():
        for one in remarks(source, project.location):
            where = project.where(f"sources.{name}.{one.key}")
            yield Problem(Code.SOURCE_UNAVAILABLE, one.message, where, one.hint)


def in_order(problems: list[Problem]) -> list[Problem]:
    """Once each, by file and line."""

    def place(problem: Problem) -> tuple[str, int]:
        where = problem.where or Where("")
        return where.file, where.line or 0

    return sorted(dict.fromkeys(problems), key=place)


def _as_written(project: ProjectDefinition, problem: Problem) -> Problem:
    """A problem that shows `${VARIABLE}` and not what the variable holds."""
    value, written = project.written.get(problem.where.path or "" if problem.where else "", ("", ""))
    if not value:
        return problem
    old, new = (value, written) if len(value) > 3 else (f"'{value}'", f"'{written}'")
    hint = None if problem.hint is None else problem.hint.replace(old, new)
    excerpt = None if problem.excerpt is None else problem.excerpt.replace(old, new)
    return Problem(problem.code, problem.message.replace(old, new), problem.where, hint, excerpt)


def _setting_problems(project: ProjectDefinition) -> Iterator[Problem]:
    scheme = _SCHEME.match(project.settings.warehouse)
    if scheme is not None and scheme[1].lower() not in SCHEMES:
        message = f"a warehouse can't be at {scheme[1]}://"
        hint = "it is a local folder, s3://, abfss://, gs:// or hdfs://"
        yield Problem(Code.INVALID_VALUE, message, project.where("warehouse"), hint)


def _source_problems(project: ProjectDefinition) -> Iterator[Problem]:
    for name, source in project.sources.items():
        for key in ("schema", "schema_hints"):
            ddl = getattr(source, "schema_" if key == "schema" else key, None)
            if ddl is not None:
                yield from _caught(project.where(f"sources.{name}.{key}"), declared_columns, ddl)
        if isinstance(source, TableSource) and source.table is not None and _in_catalogs(source.format):
            yield from _catalog_problems(project, source.table, f"sources.{name}.table")
        readers = [topic for topic in project.topics.values() if topic.from_ == name]
        if isinstance(source, FilesSource) and source.after != "keep":
            for topic in readers[1:]:
                message = (
                    f"'{name}' clears its files away (`after: {source.after}`), and topics.{readers[0].name} reads it"
                )
                hint = "give each topic a folder of its own, or keep the files"
                yield Problem(Code.INVALID_VALUE, message, project.where(f"topics.{topic.name}.from"), hint)


def _topic_problems(project: ProjectDefinition, sources: Collection[str]) -> Iterator[Problem]:
    groups = {f.group for f in project.functions if f.role == "mapper"}
    filters = {f.name for f in project.functions if f.role == "filter"}
    for name, topic in project.topics.items():
        path = f"topics.{name}"
        if topic.from_ not in sources:
            place = project.where(f"{path}.from")
            hint = did_you_mean(topic.from_, sources)
            yield Problem(Code.UNKNOWN_REFERENCE, f"there is no source '{topic.from_}'", place, hint)
        for group in topic.mappers:
            if group not in groups:
                hint = did_you_mean(group, groups) if project.settings.code else "`code` names the file with them"
                message = f"there are no mappers '{group}'"
                yield Problem(Code.UNKNOWN_REFERENCE, message, project.where(f"{path}.mappers"), hint)
        if topic.filter is not None and topic.filter not in filters:
            yield from _condition(project, topic.filter, f"{path}.filter")
            yield from _filter_problems(project, topic, f"{path}.filter")
        yield from _captured_problems(project, path, topic)


def _filter_problems(project: ProjectDefinition, topic: Topic, path: str) -> Iterator[Problem]:
    """Names that look like a standard column's; whether the payload has a key is for the records to tell."""
    if topic.filter is None:
        return
    try:
        named = column_paths(topic.filter)
    except InvalidSql:
        return
    declared = columns_of(project, topic) or ()
    for column in named:
        hint = None if column[0] in declared else misspelt(column, STANDARD)
        if hint is not None:
            yield Problem(Code.INVALID_SQL, f"no column '{column[0]}'", project.where(path), hint)


def _captured_problems(project: ProjectDefinition, path: str, topic: Topic) -> Iterator[Problem]:
    """A topic of a CDC source follows one of its tables; elsewhere `table` is a place to keep it."""
    source = project.sources.get(topic.from_)
    if isinstance(source, PostgresCdcSource):
        if topic.table is None and len(source.tables) > 1:
            message = f"'table' must be given: '{topic.from_}' captures {len(source.tables)} tables"
            yield Problem(Code.MISSING_KEY, message, project.where(path), f"one of {', '.join(source.tables)}")
        elif topic.table is not None and topic.table not in source.tables:
            message = f"'{topic.from_}' does not capture the table '{topic.table}'"
            hint = did_you_mean(topic.table, source.tables)
            yield Problem(Code.UNKNOWN_REFERENCE, message, project.where(f"{path}.table"), hint)
    elif source is not None and topic.table is not None and topic.path is not None:
        yield Problem(Code.INVALID_VALUE, "give `path` or `table`, not both", project.where(f"{path}.table"))


def _table_problems(project: ProjectDefinition, graph: Graph) -> Iterator[Problem]:
    transforms = {f.name for f in project.functions if f.role == "transform"}
    for name, table in project.tables.items():
        path = f"tables.{name}"
        for each in graph.inputs.get(Name(Kind.TABLE, name), ()):
            if each.of.kind is Kind.VIEW:
                message = f"tables read topics and tables, and {each.reference} is a view"
                yield Problem(Code.INVALID_VALUE, message, each.where, "make this a view, or that one a table")
        if table.transform is not None and table.transform not in transforms:
            hint = did_you_mean(table.transform, transforms)
            message = f"there is no @transform '{table.transform}'"
            yield Problem(Code.UNKNOWN_REFERENCE, message, project.where(f"{path}.transform"), hint)
        if table.seed is not None and "://" not in table.seed and not Path(project.location(table.seed)).is_file():
            message = f"there is no file {table.seed}"
            yield Problem(Code.UNKNOWN_REFERENCE, message, project.where(f"{path}.seed"))
        if table.schema_ is not None:
            yield from _caught(project.where(f"{path}.schema"), declared_columns, table.schema_)
        if table.apply is not None and table.apply.delete_when is not None:
            yield from _condition(project, table.apply.delete_when, f"{path}.apply.delete_when")
        for title, expectation in table.expect.items():
            yield from _condition(project, expectation.check, f"{path}.expect.{title}.check")


def _view_problems(graph: Graph) -> Iterator[Problem]:
    for name, inputs in graph.inputs.items():
        for each in inputs:
            if name.kind is Kind.VIEW and each.reference.driving:
                hint = "every input drives a view: leave stream() out"
                yield Problem(Code.INVALID_SQL, "stream() is for tables", each.where, hint)


def _temporal_problems(project: ProjectDefinition, graph: Graph) -> Iterator[Problem]:
    """`FOR SYSTEM_TIME AS OF` needs rows with their validity."""
    for inputs in graph.inputs.values():
        for each in inputs:
            table = project.tables.get(each.of.name) if each.of.kind is Kind.TABLE else None
            kept = table is not None and table.apply is not None and table.apply.history == "all"
            broken = each.of.kind is Kind.TABLE and table is None
            if each.reference.temporal and not kept and not broken:
                message = f"{each.reference} keeps no history for FOR SYSTEM_TIME AS OF to look into"
                hint = "set `apply: {history: all}` on it, or look up its latest state: AS OF PROCTIME()"
                yield Problem(Code.UNSUPPORTED, message, each.where, hint)
            if each.reference.latest and kept:
                message = f"{each.reference} keeps all states, and PROCTIME() is for tables that keep the latest"
                hint = "name the time of the row: FOR SYSTEM_TIME AS OF a column"
                yield Problem(Code.UNSUPPORTED, message, each.where, hint)


def _outlet_problems(
    project: ProjectDefinition, known: Mapping[Kind, Collection[str]], alerts: Collection[str]
) -> Iterator[Problem]:
    for name, export in project.exports.items():
        yield from _export_problems(project, name, export, known)
    for name, monitor in project.monitors.items():
        path = f"monitors.{name}.on"
        yield from _caught(project.where(path), named, project, monitor.on, path, known)
        for alert in monitor.notify:
            if alert not in alerts:
                hint = did_you_mean(alert, alerts)
                place = project.where(f"monitors.{name}.notify")
                yield Problem(Code.UNKNOWN_REFERENCE, f"there is no alert '{alert}'", place, hint)


def _export_problems(
    project: ProjectDefinition, name: str, export: Export, known: Mapping[Kind, Collection[str]]
) -> Iterator[Problem]:
    """What is copied is there, changes as the copy can follow, and goes to a place that there is."""
    path = f"exports.{name}"
    if is_query(export.from_):
        if export.mode == "streaming":
            message, hint = "a query is not kept up to date by an export", "make it a view, and export that"
            yield Problem(Code.UNSUPPORTED, message, project.where(f"{path}.from"), hint)
        yield from _caught(project.where(f"{path}.from"), parse_query, export.from_)
    else:
        yield from _caught(project.where(f"{path}.from"), named, project, export.from_, f"{path}.from", known)
        yield from _unfollowed(project, path, export, known)
    if export.filter is not None:
        yield from _condition(project, export.filter, f"{path}.filter")
    if export.format in TARGETS:
        locate = TARGETS.get(export.format).locate
        yield from _caught(project.where(f"{path}.to"), locate, export, project.location, project.lake_context)


def _unfollowed(
    project: ProjectDefinition, path: str, export: Export, known: Mapping[Kind, Collection[str]]
) -> Iterator[Problem]:
    """Rows that change, and a copy that can only grow."""
    if export.mode == "snapshot" or export.primary_key:
        return
    try:
        of = named(project, export.from_, f"{path}.from", known).of
    except UsageError:
        return
    table = project.tables.get(of.name) if of.kind is Kind.TABLE else None
    if of.kind is Kind.VIEW or (table is not None and (table.apply or table.keys or table.seed)):
        message = f"rows of {of} change and go, which a copy without keys can't follow"
        hint = "name the columns that tell its rows apart: `primary_key`"
        yield Problem(Code.UNSUPPORTED, message, project.where(f"{path}.mode"), hint)


def _catalog_problems(project: ProjectDefinition, table: str, path: str) -> Iterator[Problem]:
    """A name in an Iceberg catalog begins with a catalog of the project."""
    if "/" in table:
        return
    catalog = table.partition(".")[0]
    if catalog not in project.catalogs:
        hint = did_you_mean(catalog, project.catalogs)
        yield Problem(Code.UNKNOWN_REFERENCE, f"there is no catalog '{catalog}'", project.where(path), hint)


def _name_problems(project: ProjectDefinition) -> Iterator[Problem]:
    """Names in catalogs that are given to relations."""
    for kind in Kind:
        for name, relation in project.relations(kind).items():
            captured = isinstance(relation, Topic) and isinstance(
                project.sources.get(relation.from_), PostgresCdcSource
            )
            if relation.table is not None and not captured and _in_catalogs(project.format_of(relation)):
                yield from _catalog_problems(project, relation.table, f"{kind.plural}.{name}.table")


def _in_catalogs(format: str) -> bool:
    return format in FORMATS and FORMATS.get(format).in_catalogs


def _condition(project: ProjectDefinition, sql: str, path: str) -> Iterator[Problem]:
    try:
        parse_condition(sql)
    except InvalidSql as error:
        yield Problem(error.code, error.problem.message, sql_line(project, path, error.line))


def _caught(where: Where, look: Callable[..., object], *arguments: Any) -> Iterator[Problem]:
    try:
        look(*arguments)
    except UsageError as error:
        yield Problem(error.code, error.problem.message, where, error.problem.hint)
