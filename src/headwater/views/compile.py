"""A view's query, ready to be computed: over which relations, kept in which way, or why it can't be kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType, TimestampNTZType, TimestampType
from sqlglot import exp

from headwater.core.errors import Code, UsageError, Where
from headwater.core.model import At, Kind
from headwater.incremental.query import Query, incremental
from headwater.incremental.relations import InputRelation, RelationVersion, relation_of
from headwater.incremental.schema_growth import differences, grown, without_later_fields
from headwater.incremental.state.base import HIDDEN, StoredResult
from headwater.incremental.state.choice import kept
from headwater.incremental.translation.refusal import NotIncremental
from headwater.project.graph import Name
from headwater.spark.errors import piece_of, reason, without_plan
from headwater.spark.frames import column
from headwater.sql.blame import blame, fragment
from headwater.sql.places import InvalidSql, Span, span_of, where_in
from headwater.sql.references import Reference, parse_query, references, resolve
from headwater.sql.rewrite import with_relations
from headwater.sql.temporal import times_asked, with_validity
from headwater.views.column_use import used_columns
from headwater.views.presentation import Presented, presented
from headwater.warehouse import Warehouse

_REWRITTEN = re.compile(r";? line \d+ pos \d+;?$")
"""Spark counts in the text that it was given, which nobody has written."""
_COLUMN = re.compile(r"`(\w+)#\d+`|\b(\w+)#\d+")
"""A column that got a number, to be told from others of its name."""
_RELATION = re.compile(r"\bhw_\w+")

Columns = Mapping[str, StructType]
"""The columns of each relation, by its label, as they were when the view was first built."""


@dataclass(frozen=True)
class ViewQuery:
    """A view's query over the lake's relations, under names that the session has for them."""

    sql: str
    presented: Presented
    text: str
    """For Spark: without the order and limit at the top."""
    relations: Mapping[str, InputRelation]
    """By their names in `text`."""
    driving: frozenset[str] = frozenset()
    """Labels of the relations whose changes drive the result; the others are looked up."""
    streams: frozenset[str] = frozenset()
    """Those among them whose rows are the events: not the histories that are joined as of a time."""
    origin: Where | None = None
    """Where its text begins in the user's files."""
    times: tuple[tuple[exp.Expr, str], ...] = ()
    """The times that histories are joined as of, each with a text for Spark that has it as its column."""

    adds_only: ClassVar[bool] = False
    """Whether no row can be taken back that was made of a topic."""
    pinned: ClassVar[bool] = True
    """Its columns are others only when it is another one."""

    def inputs(self) -> list[InputRelation]:
        """Each relation once."""
        return list({one.label: one for one in self.relations.values()}.values())

    def put(self, versions: Mapping[str, RelationVersion], recorded: Columns | None) -> None:
        """Make the relations at some versions known to the session, with the columns that they had."""
        for name, relation in self.relations.items():
            rows = relation.rows(versions[relation.label])
            _limited(rows, relation, recorded).createOrReplaceTempView(name)

    def compiled(
        self, spark: SparkSession, versions: Mapping[str, RelationVersion], recorded: Columns | None = None
    ) -> Compiled:
        """Analysed over the relations at some versions."""
        return compiled(self, spark, versions, recorded)

    def changed(self, recorded: Columns, now: Columns) -> str | None:
        """What its inputs had when it was built, and it names, and they have not any more."""
        return changed(self, recorded, now)


@dataclass(frozen=True)
class Compiled:
    """A query that Spark has analysed."""

    view_query: ViewQuery
    schema: StructType
    """Of the result, without what is there for the order alone."""
    answered: DataFrame = field(repr=False)
    """The result over the sessions' views, as they are."""
    query: Query | None = None
    kept: StoredResult | None = None
    refused: NotIncremental | None = None
    """Why it can't be kept incrementally."""

    @property
    def columns(self) -> list[str]:
        return [f.name for f in self.schema.fields]

    @property
    def shown(self) -> str | None:
        filtered = self.kept is not None and self.kept.filtered
        return self.view_query.presented.shown(self.columns, filtered=filtered, plain=self.kept is None)

    @property
    def rows(self) -> str:
        """What is shown, without order and limit."""
        return self.view_query.presented.rows(self.columns, filtered=self.kept is not None and self.kept.filtered)


def bind_query(
    warehouse: Warehouse, sql: str, spark: SparkSession, *, streams: bool = False, origin: Where | None = None
) -> ViewQuery:
    """Find the relations that a query reads; `streams`: only those inside `stream(…)` drive the result, and histories
    that are joined as of a time. Where there is no `stream(…)`, all do."""
    known = {kind: warehouse.names(kind) for kind in Kind}
    query = parse_query(sql)
    named = references(query)
    of_tables = next((one for one in named if one.driving or one.temporal or one.latest), None)
    if not streams and of_tables is not None:
        what = "stream()" if of_tables.driving else "FOR SYSTEM_TIME AS OF"
        message = f"{what} belongs to tables: in a view every input drives the result"
        raise InvalidSql(message, text=sql, span=of_tables.span)
    whole = not any(one.driving for one in named)
    asking = [one for one in named if one.driving or (whole and not one.latest)]
    driving = {str(Name(resolve(one, known), one.name)) for one in named if one in asking or one.temporal}
    events = {str(Name(resolve(one, known), one.name)) for one in asking if one.driving or not one.temporal}
    presentation = presented(with_validity(query), sql)
    relations: dict[str, InputRelation] = {}

    def place(reference: Reference, at: At | None) -> str:
        kind = resolve(reference, known)
        name = _name(kind, reference.name, at)
        if name not in relations:
            relations[name] = relation_of(warehouse, kind, reference.name, spark, at, keeps_removed=streams)
        return name

    text = with_relations(presentation.query, place)
    times = tuple((time, with_relations(probe, place)) for time, probe in times_asked(query))
    labels = {one.label for one in relations.values()}
    return ViewQuery(
        sql, presentation, text, relations, frozenset(driving & labels), frozenset(events & labels), origin, times
    )


def compiled(
    view_query: ViewQuery, spark: SparkSession, versions: Mapping[str, RelationVersion], recorded: Columns | None = None
) -> Compiled:
    """Have Spark analyse it over the relations at some versions; they become views of the session."""
    view_query.put(versions, recorded)
    _require_times(view_query, spark)
    try:
        answered = spark.sql(view_query.text)
    except AnalysisException as error:
        raise _blamed(view_query, error) from error
    fields = answered.schema.fields
    names = [f.name.lower() for f in fields]
    twice = next((at for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        message = f"two columns of the result have the name '{names[twice]}'"
        raise _wrong(view_query, message, _column_at(view_query, twice), "name them: … AS x")
    hidden = view_query.presented.hidden
    view_query.presented.require_places(len(fields) - hidden, view_query.sql)
    schema = StructType(fields[: len(fields) - hidden] if hidden else fields)
    unfit = not_storable(schema)
    if unfit is not None:
        raise _wrong(view_query, unfit[1], _column_at(view_query, unfit[0]), unfit[2])
    made = Compiled(view_query, schema, answered)
    try:
        query = incremental(spark, view_query.text, list(view_query.relations))
    except NotIncremental as refused:
        return replace(made, refused=_refusal(view_query, refused))
    return replace(made, query=query, kept=kept(spark, query))


def not_storable(schema: StructType) -> tuple[int, str, str] | None:
    """Which column can't be one of a table, why, and what to do; None if all can."""
    for at, f in enumerate(schema.fields):
        if f.name.lower().startswith(HIDDEN):
            message = f"column '{f.name}': names that begin with {HIDDEN} are Headwater's own"
            return at, message, "name it otherwise: … AS x"
        if "void" in _types(f.dataType):
            return at, f"column '{f.name}' is NULL in every row, and of no type", "give it one: CAST(NULL AS STRING)"
    return None


def _types(data_type: DataType) -> set[str]:
    """A type, and those inside of it."""
    inside: list[DataType] = []
    if isinstance(data_type, StructType):
        inside = [f.dataType for f in data_type.fields]
    elif isinstance(data_type, ArrayType):
        inside = [data_type.elementType]
    elif isinstance(data_type, MapType):
        inside = [data_type.keyType, data_type.valueType]
    return {data_type.typeName(), *(name for one in inside for name in _types(one))}


def _require_times(view_query: ViewQuery, spark: SparkSession) -> None:
    """Refuse to look into a history by something that is no time: a text would be valid at none."""
    for time, text in view_query.times:
        try:
            (field,) = spark.sql(text).schema.fields
        except AnalysisException:
            continue  # the whole query is wrong in the same way, and that is told
        if not isinstance(field.dataType, (TimestampType, TimestampNTZType, DateType)):
            name = time.sql(dialect="spark")
            message = f"FOR SYSTEM_TIME AS OF {name}: {name} is {field.dataType.simpleString()}, and no time"
            raise _wrong(view_query, message, span_of(time), f"write CAST({name} AS TIMESTAMP)")


def _wrong(view_query: ViewQuery, message: str, span: Span | None, hint: str | None) -> UsageError:
    """A mistake at its place: by file and line, or shown in the statement that was given."""
    where = view_query.origin
    if span is None:
        return UsageError(Code.INVALID_SQL, message, where=where, hint=hint)
    place = where_in(view_query.sql, span)
    if where is None:
        return InvalidSql(message, text=view_query.sql, span=span, hint=hint)
    if where.line is not None and place.line is not None:
        where = replace(where, line=where.line + place.line - 1)
    return UsageError(Code.INVALID_SQL, message, where=where, hint=hint)


def _column_at(view_query: ViewQuery, at: int) -> Span | None:
    """Where a column of the result stands in the text; None behind a star."""
    query = parse_query(view_query.sql)
    return span_of(query.selects[at]) if not query.is_star and at < len(query.selects) else None


def in_words_of(view_query: ViewQuery, text: str) -> str:
    """A part of the query, by the names that the user has for things."""
    names = {name: one.name for name, one in view_query.relations.items()}
    text = _COLUMN.sub(lambda match: match[1] or match[2], text)
    return _RELATION.sub(lambda match: names.get(match[0], match[0]), text)


def _refusal(view_query: ViewQuery, refused: NotIncremental) -> NotIncremental:
    """The same, in words of the user."""
    said = NotIncremental(in_words_of(view_query, refused.reason), hint=in_words_of(view_query, refused.hint))
    said.part = in_words_of(view_query, refused.part)
    return said


def _blamed(view_query: ViewQuery, error: AnalysisException) -> UsageError:
    """What Spark finds wrong, at its place in the text that the user wrote."""
    named = blame(
        error.getErrorClass() or "", error.getMessageParameters() or {}, view_query.sql, parse_query(view_query.sql)
    )
    if named is not None:
        return _wrong(view_query, named.problem.message, named.span, named.problem.hint)
    piece = piece_of(error)
    span = None if piece is None else fragment(piece, view_query.sql)
    return _wrong(view_query, _REWRITTEN.sub("", without_plan(reason(error))), span, None)


def columns_now(relations: Sequence[InputRelation], versions: Mapping[str, RelationVersion]) -> dict[str, StructType]:
    return {one.label: one.schema(versions[one.label]) for one in relations}


def changed(view_query: ViewQuery, recorded: Columns, now: Columns) -> str | None:
    """A column that the query names and that has gone or changed its type, in words; fields that came to a struct are
    left out."""
    used = used_columns(view_query.sql, [Name(one.kind, one.name) for one in view_query.inputs()])
    for label, schema in recorded.items():
        for path, was, is_now in differences(schema, now.get(label, StructType())):
            if not used(label, tuple(name.lower() for name in path)):
                continue
            what = f"column '{'.'.join(path)}' of {label}"
            if is_now is None:
                return f"{what} is gone"
            return f"{what} was {was.simpleString()} and is {is_now.simpleString()} now"
    return None


def _limited(rows: DataFrame, relation: InputRelation, recorded: Columns | None) -> DataFrame:
    """Columns that came later are not the view's: a star means what it meant when the view was built."""
    known = None if recorded is None else recorded.get(relation.label)
    if known is None:
        return rows
    have = {name.lower() for name in rows.columns}
    wanted = [f.name for f in known.fields if f.name.lower() in have]
    return without_later_fields(rows.select(*map(column, wanted)), grown(known, rows.schema))


def _name(kind: Kind, name: str, at: At | None) -> str:
    when = "" if at is None else "_" + hashlib.sha256(str(at).encode()).hexdigest()[:8]
    return f"hw_{kind.plural}_{name}{when}"
