"""Events of old versions lifted to the newest, one version at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructField, StructType

from headwater.core.errors import Code, UsageError
from headwater.core.spec import Topic
from headwater.ingest.code.batches import Lifted, Packed
from headwater.ingest.code.functions import expressions, types_of
from headwater.ingest.code.shipment import packed_as
from headwater.project.decorators import Registered
from headwater.project.signatures import Mode, code_location, signature_of
from headwater.schema.arrow import arrow_type
from headwater.schema.cast import conformed, struct_of
from headwater.schema.merge import exact_type
from headwater.schema.types import parse_ddl, without_untyped
from headwater.sources.decoders.base import EVENT, PROBLEM
from headwater.spark.frames import column

EVENT_TYPE = "event_type"
EVENT_VERSION = "event_version"


def upcast(
    df: DataFrame, functions: Sequence[Registered], payload: StructType, topic: Topic
) -> tuple[DataFrame, StructType]:
    """The events in their newest versions, with that in `event_version`, and the payload's schema afterwards.

    An event without a version counts as version 1. An event on which an upcaster raises gets a problem.
    """
    upcasters = upcasters_of(topic, functions)
    if not upcasters or EVENT_TYPE not in df.columns:
        return df, payload
    if EVENT_VERSION not in df.columns:
        df = df.withColumn(EVENT_VERSION, F.lit(None).cast(LongType()))
    for mode, steps in _in_order(upcasters):
        if mode is Mode.EVENT:
            df, payload = _by_python(df, steps, payload)
        else:
            df, payload = _by_columns(df, steps, payload)
    return df, payload


def upcasters_of(topic: Topic, functions: Sequence[Registered]) -> list[Registered]:
    """The upcasters of event types that a topic may ingest."""
    return [
        f
        for f in functions
        if f.role == "upcaster"
        and (not topic.include_events or f.events[0] in topic.include_events)
        and f.events[0] not in topic.exclude_events
    ]


def _in_order(upcasters: Sequence[Registered]) -> Iterator[tuple[Mode, list[Registered]]]:
    """By version, since each works on what the one before it made: all Column functions of a version in one
    projection, and Python functions of versions that follow each other in one pass."""
    moded = [(f, signature_of(f).mode) for f in upcasters]
    moded.sort(key=lambda one: (one[0].from_version or 0, one[1].value))
    for (mode, _), group in groupby(moded, key=lambda one: (one[1], one[1] is Mode.COLUMN and one[0].from_version)):
        yield mode, [function for function, _ in group]


def _is_for(function: Registered) -> Column:
    version = F.coalesce(column(EVENT_VERSION), F.lit(1))
    fits = (column(EVENT_TYPE) == function.events[0]) & (version == function.from_version)
    return column(PROBLEM).isNull() & column(EVENT).isNotNull() & fits


def _by_columns(df: DataFrame, steps: Sequence[Registered], payload: StructType) -> tuple[DataFrame, StructType]:
    """One projection: a CASE over the event types."""
    upcast: list[dict[str, Column | None]] = []
    types: list[dict[str, DataType]] = []
    wanted = payload
    for function in steps:
        fields = expressions(function, df.schema)
        upcast.append(fields)
        data_types = types_of(function, {name: value for name, value in fields.items() if value is not None}, df)
        types.append(data_types)
        known = {name: without_untyped(data_type) for name, data_type in data_types.items()}
        kept = [StructField(name, data_type) for name, data_type in known.items() if data_type is not None]
        wanted = _widened(wanted, StructType(kept), function)
    event = F.when(column(EVENT).isNotNull(), struct_of(column(EVENT), payload, wanted))
    version = column(EVENT_VERSION)
    lifted: Column | None = None
    numbered: Column | None = None
    for function, fields, data_types in zip(steps, upcast, types, strict=True):
        made = _with_fields(fields, data_types, payload, wanted)
        now = F.lit((function.from_version or 1) + 1).cast(LongType())
        lifted = _when(lifted, _is_for(function), made)
        numbered = _when(numbered, _is_for(function), now)
    assert lifted is not None and numbered is not None
    columns = {EVENT: lifted.otherwise(event), EVENT_VERSION: numbered.otherwise(version)}
    return df.select(*[columns.get(name, column(name)).alias(name) for name in df.columns]), wanted


def _with_fields(
    fields: dict[str, Column | None], types: dict[str, DataType], payload: StructType, wanted: StructType
) -> Column:
    """The payload with some fields changed."""
    made = []
    for f in wanted.fields:
        value = fields.get(f.name)
        if value is not None:
            one = conformed(value, types[f.name], f.dataType)
        elif f.name in fields or f.name not in payload.names:
            one = F.lit(None).cast(f.dataType)
        else:
            one = conformed(column(EVENT).getField(f.name), payload[f.name].dataType, f.dataType)
        made.append(one.alias(f.name))
    return F.struct(*made)


def _by_python(df: DataFrame, steps: Sequence[Registered], payload: StructType) -> tuple[DataFrame, StructType]:
    wanted = payload
    for function in steps:
        declared = parse_ddl(df.sparkSession, signature_of(function).schema)
        if declared is not None:
            wanted = _widened(wanted, declared, function)
    event = arrow_type(wanted.jsonValue())
    chains: dict[str, dict[int, Packed]] = {}
    for function in steps:
        chains.setdefault(function.events[0], {})[function.from_version or 1] = packed_as(function, Mode.EVENT, event)
    schema = StructType([StructField(f.name, wanted if f.name == EVENT else f.dataType) for f in df.schema.fields])
    return df.mapInArrow(Lifted(chains, event), schema), wanted


def _widened(payload: StructType, fields: StructType, function: Registered) -> StructType:
    """The payload's schema with an upcaster's fields."""
    types = {f.name: f.dataType for f in payload.fields}
    for f in fields.fields:
        widened = exact_type(types[f.name], f.dataType) if f.name in types else f.dataType
        if widened is None:
            message = (
                f"upcaster '{function.name}' gives '{f.name}' as {f.dataType.simpleString()}, "
                f"and events have it as {types[f.name].simpleString()}"
            )
            hint = "cast it, tell the type in the source's schema_hints, or give it another name"
            raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint=hint)
        types[f.name] = widened
    return StructType([StructField(name, widened) for name, widened in types.items()])


def _when(cases: Column | None, condition: Column, value: Column) -> Column:
    return F.when(condition, value) if cases is None else cases.when(condition, value)
