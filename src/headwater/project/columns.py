"""Columns that definitions name, against those that can be known before anything runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.core.errors import Code, Problem, UsageError, did_you_mean
from headwater.core.model import Kind
from headwater.core.spec import RelationSpec, Table, Topic, View
from headwater.project.definition import ProjectDefinition
from headwater.sources.base import EventColumns
from headwater.sources.column_names import MAPPED, RESERVED, is_of_a_format, renamed_columns
from headwater.sql.conditions import column_paths
from headwater.sql.references import InvalidSql, parse_query, parse_reference, references

STANDARD = (
    "event_id",
    "event_type",
    "event_timestamp",
    "aggregate_id",
    "tenant_id",
    "event_version",
    "event_date",
    "_source",
    "_position",
    "_ingested_at",
    "_raw",
)
"""Columns that a topic may have whatever its payload is."""

_INSIDE = re.compile(r"\w+\s*\((.*)\)")


def column_problems(project: ProjectDefinition) -> Iterator[Problem]:
    """Columns named by definitions whose columns are known, and not among them."""
    for kind in Kind:
        for name, relation in project.relations(kind).items():
            known = columns_of(project, relation)
            if known is not None:
                yield from _unknown_columns(project, f"{kind.plural}.{name}", relation, known)
    for name, table in project.tables.items():
        yield from _watermark_problems(project, name, table)
        yield from _expectation_problems(project, name, table)
        yield from _apply_problems(project, name, table)


def renamed_column_notes(project: ProjectDefinition) -> Iterator[Problem]:
    """A note for each declared column of a source that its topics have under another name."""
    for name, source in project.sources.items():
        for key, attribute in (("schema", "schema_"), ("schema_hints", "schema_hints")):
            ddl = getattr(source, attribute, None)
            declared = None if ddl is None else _declared(ddl)
            mapped = getattr(source, "columns", EventColumns())
            for column, kept in renamed_columns(declared or (), mapped).items():
                message = f"column '{column}' is kept as '{kept}': {_why_renamed(column)}"
                place = project.where(f"sources.{name}.{key}")
                yield Problem(Code.RENAMED_COLUMN, message, place, f"name '{kept}' where you read it")


def _why_renamed(column: str) -> str:
    if is_of_a_format(column):
        return "table formats keep that name for themselves"
    if column.lower() in (*RESERVED, *MAPPED):
        return f"every topic has a column '{column.lower()}' of its own"
    return "another one differs from it only in case"


def declared_columns(ddl: str) -> list[str]:
    """The top-level names of a declared schema; INVALID_VALUE if it is none."""
    return list(declared_types(ddl))


def declared_types(ddl: str) -> dict[str, str]:
    """They and their types, as Spark writes those; INVALID_VALUE if it is no schema."""
    try:
        built = exp.DataType.build(f"struct<{ddl}>", dialect="spark")
    except SqlglotError:
        built = None
    parts = [] if built is None else [part for part in built.expressions if isinstance(part, exp.ColumnDef)]
    # sqlglot forgives a comma at the end, Spark does not.
    if built is None or not parts or len(parts) != len(built.expressions) or ddl.rstrip().endswith(","):
        raise UsageError(Code.INVALID_VALUE, f"'{ddl}' is not a schema", hint="write `id bigint, name string`")
    return {part.name: part.kind.sql(dialect="spark").lower() if part.kind else "" for part in parts}


def columns_of(project: ProjectDefinition, relation: RelationSpec) -> Collection[str] | None:
    """The columns that a relation will have; None where only the data can tell."""
    if isinstance(relation, Topic):
        return _topic_columns(project, relation)
    if isinstance(relation, Table) and relation.seed is not None:
        return _header(Path(project.location(relation.seed)))
    if isinstance(relation, (Table, View)) and relation.sql is not None:
        return _selected(relation.sql)
    if isinstance(relation, Table) and relation.schema_ is not None:
        return _declared(relation.schema_)
    return None


def _topic_columns(project: ProjectDefinition, topic: Topic) -> Collection[str] | None:
    declared = getattr(project.sources.get(topic.from_), "schema_", None)
    if declared is None or topic.mappers or any(f.role == "mapper" for f in project.functions):
        return None
    names = _declared(declared)
    return None if names is None else [*STANDARD, *names]


def _declared(ddl: str) -> Collection[str] | None:
    try:
        return declared_columns(ddl)
    except UsageError:
        return None


def _header(file: Path) -> Collection[str] | None:
    if file.suffix.lower() != ".csv" or not file.is_file():
        return None
    with file.open(encoding="utf-8-sig", newline="", errors="replace") as lines:
        return next(csv.reader(lines), None)


def _selected(sql: str) -> Collection[str] | None:
    try:
        query = parse_query(sql)
    except InvalidSql:
        return None
    names = query.named_selects
    return None if "*" in names or "" in names else names


def _unknown_columns(
    project: ProjectDefinition, path: str, relation: RelationSpec, known: Collection[str]
) -> Iterator[Problem]:
    keys = relation.keys if isinstance(relation, Table) else ()
    by = relation.deduplicate_by if isinstance(relation, Topic) else ()
    named = {
        "keys": keys,
        "deduplicate_by": by,
        "partition_by": relation.partition_by,
        "z_order_by": relation.z_order_by,
        "cluster.by": relation.clustering.by,
        "parquet.bloom_filter": relation.parquet.bloom_filter,
    }
    for key, columns in named.items():
        for column in columns:
            inside = _INSIDE.fullmatch(column.strip())
            bare = inside[1].split(",")[-1].strip() if inside else column
            # A path into a struct is left to the data; a number is the width of a bucket.
            if bare in known or "." in bare or bare.isdigit():
                continue
            message = f"no column '{bare}'"
            yield Problem(Code.INVALID_VALUE, message, project.where(f"{path}.{key}"), did_you_mean(bare, known))


def _apply_problems(project: ProjectDefinition, name: str, table: Table) -> Iterator[Problem]:
    """Keys and order against the columns of the topic, where those are declared."""
    if table.apply is None or table.from_ is None:
        return
    try:
        topic = project.topics.get(parse_reference(table.from_).name)
    except UsageError:
        return
    known = None if topic is None else columns_of(project, topic)
    if topic is None or known is None or {"before", "after"} <= set(known):
        return  # rows before and after: their columns are inside
    for key, columns in (("keys", table.apply.keys), ("sequence_by", (table.apply.sequence_by,))):
        for column in columns:
            if column not in known:
                place = project.where(f"tables.{name}.apply.{key}")
                yield Problem(Code.INVALID_VALUE, f"no column '{column}'", place, did_you_mean(column, known))


def _watermark_problems(project: ProjectDefinition, name: str, table: Table) -> Iterator[Problem]:
    if table.watermark is None:
        return
    where = project.where(f"tables.{name}.watermark")
    if table.sql is None and table.transform is None:
        message = "a watermark is for tables made by `sql` or `transform`"
        yield Problem(Code.INVALID_VALUE, message, where)
        return
    known = None if table.sql is None else _event_columns(project, table.sql)
    column = table.watermark.column
    if known is not None and column.lower() not in {name.lower() for name in known}:
        place = project.where(f"tables.{name}.watermark.column")
        message = f"no input that drives the table has a column '{column}'"
        yield Problem(Code.INVALID_VALUE, message, place, did_you_mean(column, known))


def _event_columns(project: ProjectDefinition, sql: str) -> set[str] | None:
    """The columns of what drives a query, without the histories that it looks into; None where only data can tell."""
    try:
        named = references(parse_query(sql))
    except InvalidSql:
        return None
    whole = not any(one.driving for one in named)
    found: set[str] = set()
    for one in named:
        if not one.driving and (not whole or one.temporal or one.latest):
            continue
        kinds = list(Kind) if one.kind is None else [one.kind]
        meant = [project.relations(kind)[one.name] for kind in kinds if one.name in project.relations(kind)]
        known = columns_of(project, meant[0]) if len(meant) == 1 else None
        if known is None:
            return None
        found |= set(known)
    return found


def _expectation_problems(project: ProjectDefinition, name: str, table: Table) -> Iterator[Problem]:
    """Columns that a check names, against those of the table; and whether anything asks for the check."""
    if table.expect and table.sql is None and table.transform is None:
        message = "expectations are for tables made by `sql` or `transform`"
        hint = f"write a table `SELECT * FROM table('{name}')` that has them"
        yield Problem(Code.INVALID_VALUE, message, project.where(f"tables.{name}.expect"), hint)
        return
    known = columns_of(project, table)
    if known is None:
        return
    for title, expectation in table.expect.items():
        try:
            named = column_paths(expectation.check)
        except InvalidSql:
            continue
        for column in named:
            if column[0].lower() not in {one.lower() for one in known}:
                place = project.where(f"tables.{name}.expect.{title}.check")
                hint = did_you_mean(column[0], known)
                yield Problem(Code.INVALID_SQL, f"the table has no column '{column[0]}'", place, hint)
