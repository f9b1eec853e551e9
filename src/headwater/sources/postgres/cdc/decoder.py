"""Changes as events: each record is read by the shape that its table had when it was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from headwater.schema.merge import retyped
from headwater.schema.types import covers
from headwater.sources.decoders.base import DECODE, EVENT, PROBLEM, RAW, SCHEMA, Decoder
from headwater.sources.decoders.typed import PROBLEM_TYPE, conform, problem
from headwater.sources.postgres.cdc.changes import ODD
from headwater.sources.postgres.cdc.relations import AFTER, BEFORE, OP, UNCHANGED, RelationLog, TableShape
from headwater.sources.postgres.cdc.types import typed, unfit
from headwater.spark import frames

RELATION = "_relation"
_OF = "_headwater_relation"
_SENT = "_headwater_sent_{}"
_TYPED = "_headwater_typed_{}"
_CORRUPT = "_headwater_corrupt"
_SHOWN = 60
"""Characters of a value that a message shows."""


class CdcDecoder(Decoder):
    """Over `_raw` alone; where the reader gives `_relation` too, that is quicker."""

    def __init__(self, relations: RelationLog) -> None:
        self._relations = relations
        self._present: frozenset[str] | None = None
        self._made: _ShapeExpressions | None = None

    def narrow(self, ids: Iterable[str] | None) -> None:
        """The records that come next are of these shapes, and no others have to be looked for; None: of any."""
        self._present = None if ids is None else frozenset(ids)

    def detect(self, records: DataFrame) -> StructType:
        ids = [row[0] for row in records.select(_id(records)).distinct().collect() if row[0] is not None]
        known = [relation for relation in self._relations.all() if relation.id in ids]
        merged: StructType | None = None
        for relation in known:
            merged = relation.event if merged is None else retyped(merged, relation.event)
        return merged or StructType()

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        made = self._expressions(self._looked_for(records), schema)
        df = records.withColumn(_OF, _id(records)).select("*", *made.sent).select("*", *made.typed)
        return df.select(*map(frames.column, records.columns), F.col(_OF), *made.decoded)

    def _expressions(self, relations: list[TableShape], schema: StructType) -> _ShapeExpressions:
        """Made once for a schema: a live step is small, and to build them takes longer than to run them."""
        ids = tuple(relation.id for relation in relations)
        if self._made is None or (self._made.schema, self._made.relations) != (schema, ids):
            self._made = _expressions(relations, schema)
        return self._made

    def unknown(self, schema: StructType) -> Column | None:
        """A column has a type even where it has no value: it is new for all records of a shape or for none."""
        new = [one.id for one in self._relations.all() if not covers(schema, one.event)]
        return F.col(_OF).isin(new) if new else None

    def _looked_for(self, records: DataFrame) -> list[TableShape]:
        known = self._relations.all()
        if self._present is None or RELATION not in records.columns:
            return known
        return [relation for relation in known if relation.id in self._present]


@dataclass(frozen=True)
class _ShapeExpressions:
    """What makes events of records of some shapes, in one schema."""

    schema: StructType
    relations: tuple[str, ...]
    sent: list[Column]
    typed: list[Column]
    decoded: list[Column]


def _expressions(relations: list[TableShape], schema: StructType) -> _ShapeExpressions:
    events, problems, typed_columns = [], [], []
    for n, relation in enumerate(relations):
        cast_failures: list[Column] = []
        typed_columns.append(_typed(n, relation, cast_failures))
        event = conform(F.col(_TYPED.format(n)), relation.event, schema, "", cast_failures)
        events.append((relation, event))
        problems.append((relation, F.coalesce(*cast_failures)))
    strange = problem(DECODE, F.concat(F.lit("it is of a shape that is not known: "), F.col(_OF)))
    no_record = F.when(F.col(_OF).isNull(), problem(DECODE, "no record of a change")).otherwise(strange)
    event = _chosen(events if schema.fields else [], F.lit(None).cast(schema))
    return _ShapeExpressions(
        schema,
        tuple(relation.id for relation in relations),
        [_sent(n, relation) for n, relation in enumerate(relations)],
        typed_columns,
        [event.cast(schema).alias(EVENT), _chosen(problems, no_record).cast(PROBLEM_TYPE).alias(PROBLEM)],
    )


def _id(records: DataFrame) -> Column:
    if RELATION in records.columns:
        return F.col(RELATION).alias(_OF)
    return F.get_json_object(F.col(RAW).cast("string"), "$.relation").alias(_OF)


def _sent(n: int, relation: TableShape) -> Column:
    fields = [
        *relation.record.fields,
        StructField(ODD, MapType(StringType(), StringType())),
        StructField(_CORRUPT, StringType()),
    ]
    options = {"columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_json(F.col(RAW).cast("string"), StructType(fields), options)
    return F.when(F.col(_OF) == relation.id, parsed).alias(_SENT.format(n))


def _typed(n: int, relation: TableShape, cast_failures: list[Column]) -> Column:
    sent = F.col(_SENT.format(n))
    cast_failures.append(F.when(sent.getField(_CORRUPT).isNotNull(), problem(DECODE, "no record of a change")))
    odd = sent.getField(ODD)
    told = F.concat(F.array_join(F.map_keys(odd), ", "), F.lit(": such a value has no place in a column"))
    cast_failures.append(F.when(F.coalesce(F.size(odd), F.lit(0)) > 0, problem(SCHEMA, told)))
    images = {}
    for of in (BEFORE, AFTER):
        fields = []
        for column in relation.columns:
            text = sent.getField(of).getField(column.name)
            fields.append(typed(text, column.type).alias(column.name))
            value = F.col(_TYPED.format(n)).getField(of).getField(column.name)
            wrong = unfit(text, value, column.type)
            if wrong is not None:
                shown = F.array_join(text, ",", "NULL") if column.type.element is not None else text
                kind = column.type.spark.simpleString()
                message = F.concat(
                    F.lit(f"{of}.{column.name}: "), F.substring(shown, 1, _SHOWN), F.lit(f" does not fit {kind}")
                )
                cast_failures.append(F.when(wrong, problem(SCHEMA, message)))
        images[of] = F.when(sent.getField(of).isNotNull(), F.struct(*fields))
    unchanged = F.coalesce(sent.getField(UNCHANGED), F.array().cast(ArrayType(StringType())))
    event = F.struct(
        sent.getField("op").alias(OP),
        images[BEFORE].alias(BEFORE),
        images[AFTER].alias(AFTER),
        unchanged.alias(UNCHANGED),
    )
    return F.when(sent.isNotNull() & sent.getField(_CORRUPT).isNull(), event).alias(_TYPED.format(n))


def _chosen(values: Sequence[tuple[TableShape, Column]], otherwise: Column) -> Column:
    """The value of each record's own relation."""
    chosen: Column | None = None
    for relation, value in values:
        mine = F.col(_OF) == relation.id
        chosen = F.when(mine, value) if chosen is None else chosen.when(mine, value)
    return otherwise if chosen is None else chosen.otherwise(otherwise)
