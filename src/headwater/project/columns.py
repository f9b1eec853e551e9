"""Columns that definitions name, against those that can be known before anything runs."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlglot import exp
from sqlglot.errors import SqlglotError

from headwater.errors import Code, Problem, UsageError, did_you_mean
from headwater.model import Kind
from headwater.project.definition import Project
from headwater.spec import Relation, Table, Topic, View
from headwater.sql.references import InvalidSql, parse_query, parse_reference

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


def column_problems(project: Project) -> Iterator[Problem]:
    """Columns named by definitions whose columns are known, and not among them."""
    for kind in Kind:
        for name, relation in project.relations(kind).items():
            known = columns_of(project, relation)
            if known is not None:
                yield from _unknown_columns(project, f"{kind.plural}.{name}", relation, known)
    for name, table in project.tables.items():
        yield from _watermark_problems(project, name, table)
        yield from _apply_problems(project, name, table)


def declared_columns(ddl: str) -> list[str]:
    """The top-level names of a declared schema; INVALID_VALUE if it is none."""
    try:
        built = exp.DataType.build(f"struct<{ddl}>", dialect="spark")
    except SqlglotError:
        built = None
    names = [] if built is None else [part.name for part in built.expressions if isinstance(part, exp.ColumnDef)]
    # sqlglot forgives a comma at the end, Spark does not.
    if built is None or not names or len(names) != len(built.expressions) or ddl.rstrip().endswith(","):
        raise UsageError(Code.INVALID_VALUE, f"'{ddl}' is not a schema", hint="write `id bigint, name string`")
    return names


def columns_of(project: Project, relation: Relation) -> Collection[str] | None:
    """The columns that a relation will have; None where only the data can tell."""
    if isinstance(relation, Topic):
        return _topic_columns(project, relation)
    if isinstance(relation, Table) and relation.seed is not None:
        return _header(Path(project.location(relation.seed)))
    if isinstance(relation, (Table, View)) and relation.sql is not None:
        return _selected(relation.sql)
    return None


def _topic_columns(project: Project, topic: Topic) -> Collection[str] | None:
    declared = getattr(project.sources.get(topic.from_), "schema_", None)
    if declared is None or topic.mappers or any(f.role == "mapper" for f in project.functions):
        return None
    try:
        return [*STANDARD, *declared_columns(declared)]
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


def _unknown_columns(project: Project, path: str, relation: Relation, known: Collection[str]) -> Iterator[Problem]:
    keys = relation.keys if isinstance(relation, Table) else ()
    by = relation.deduplicate_by if isinstance(relation, Topic) else ()
    named = {
        "keys": keys,
        "deduplicate_by": by,
        "partition_by": relation.partition_by,
        "z_order_by": relation.z_order_by,
        "parquet.bloom_filter": relation.parquet.bloom_filter,
    }
    lower = {name.lower() for name in known}
    for key, columns in named.items():
        for column in columns:
            inside = _INSIDE.fullmatch(column.strip())
            bare = inside[1].split(",")[-1].strip() if inside else column
            # A path into a struct is left to the data; a number is the width of a bucket.
            if bare.lower() in lower or "." in bare or bare.isdigit():
                continue
            message = f"no column '{bare}'"
            yield Problem(Code.INVALID_VALUE, message, project.place(f"{path}.{key}"), did_you_mean(bare, known))


def _apply_problems(project: Project, name: str, table: Table) -> Iterator[Problem]:
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
            if column.lower() not in {name.lower() for name in known}:
                place = project.place(f"tables.{name}.apply.{key}")
                yield Problem(Code.INVALID_VALUE, f"no column '{column}'", place, did_you_mean(column, known))


def _watermark_problems(project: Project, name: str, table: Table) -> Iterator[Problem]:
    if table.watermark is None:
        return
    where = project.place(f"tables.{name}.watermark")
    if table.sql is None and table.transform is None:
        message = "a watermark is for tables made by `sql` or `transform`"
        yield Problem(Code.INVALID_VALUE, message, where)
        return
    if table.sql is None:
        return
    try:
        query = parse_query(table.sql)
    except InvalidSql:
        return
    if query.find(exp.Star) is not None:
        return
    used = {column.name for column in query.find_all(exp.Column)} | set(query.named_selects)
    column = table.watermark.column
    if column.lower() not in {name.lower() for name in used}:
        place = project.place(f"tables.{name}.watermark.column")
        yield Problem(Code.INVALID_VALUE, f"the query has no column '{column}'", place, did_you_mean(column, used))
