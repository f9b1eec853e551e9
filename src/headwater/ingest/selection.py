"""Which records a topic ingests: by event type, and by a condition. What can't be decoded stays, as dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.quotes import backticked
from headwater.core.spec import Topic
from headwater.ingest.code.event import HIDDEN
from headwater.ingest.code.functions import called
from headwater.ingest.columns import EVENT_DATE, STANDARD
from headwater.project.decorators import Registered
from headwater.project.signatures import code_location, signature_of
from headwater.sources.decoders.base import EVENT, PROBLEM, SCHEMA
from headwater.spark.errors import without_plan
from headwater.spark.frames import column
from headwater.sql.conditions import Path, column_paths, misspelt
from headwater.sql.references import InvalidSql

EVENT_TYPE = "event_type"
PAYLOAD = "payload"
"""The name of the whole payload in a condition."""


def select(df: DataFrame, topic: Topic, functions: Sequence[Registered], payload: StructType) -> DataFrame:
    """The records that pass the topic's include_events, exclude_events and filter, and those with a problem.

    A record with a problem is left out only where its event type is known, and not one that the topic takes.
    """
    if topic.include_events or topic.exclude_events:
        df = _by_type(df, topic, payload)
    if topic.filter is None:
        return df
    named = next((f for f in functions if f.role == "filter" and f.name == topic.filter), None)
    return _by_sql(df, topic, payload) if named is None else _by_function(df, topic, named)


def _by_type(df: DataFrame, topic: Topic, payload: StructType) -> DataFrame:
    if EVENT_TYPE not in df.columns:
        if topic.include_events and payload.fields:
            raise _no_event_type(topic)
        return df
    kind = column(EVENT_TYPE)
    taken = ~kind.isin(*topic.exclude_events) if topic.exclude_events else F.lit(True)
    if topic.include_events:
        taken = taken & kind.isin(*topic.include_events)
        return df.where(taken | (kind.isNull() & column(PROBLEM).isNotNull()))
    return df.where(F.coalesce(taken, F.lit(True)))


def _no_event_type(topic: Topic) -> UsageError:
    return UsageError(
        Code.INVALID_VALUE,
        f"topics.{topic.name} has include_events, and its records have no event_type",
        where=topic.where,
        hint="say where it comes from: `columns: {type: kind}` on the source",
    )


def _by_function(df: DataFrame, topic: Topic, function: Registered) -> DataFrame:
    signature_of(function)
    condition = called(function, df.schema)
    if not isinstance(condition, Column):
        message = f"filter '{function.name}' returned {type(condition).__name__}"
        hint = 'return a condition as a Column: event["amount"] > 10'
        raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint=hint)
    try:
        return df.where(_passes(condition, topic))
    except PySparkException as error:
        message = f"filter '{function.name}': {without_plan(str(error))}"
        raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function)) from None


def _by_sql(df: DataFrame, topic: Topic, payload: StructType) -> DataFrame:
    assert topic.filter is not None
    try:
        paths = column_paths(topic.filter)
    except InvalidSql as error:
        raise UsageError(error.code, f"filter: {error.problem.message}", where=topic.where) from None
    _refuse_typos(paths, df.columns, payload, topic)
    columns = {f.name: f.dataType for f in df.schema.fields if f.name != EVENT}
    strict = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    named = _named(paths, columns, payload, strict)
    wide = df.select("*", *[value.alias(name) for name, value in named.items()])
    try:
        taken = wide.where(_passes(F.expr(topic.filter), topic))
    except PySparkException as error:
        raise UsageError(Code.INVALID_SQL, f"filter: {without_plan(str(error))}", where=topic.where) from None
    return taken.select(*[column(name) for name in df.columns])


def keeps_without_values(topic: Topic) -> bool:
    """Whether a record stays without the values of it that do not fit."""
    return topic.schema_.mismatch == "discard_value" or topic.schema_.new_column == "rescue"


def is_only_cast_failure() -> Column:
    """Whether nothing is wrong with a record but values that do not fit; NULL where nothing is wrong."""
    return (column(PROBLEM).getField("reason") == SCHEMA) & column(EVENT).isNotNull()


def _passes(condition: Column, topic: Topic) -> Column:
    """Whether a record goes on: a dead letter is not lost to a filter.

    One that becomes a row without the value that does not fit is left out where the filter is plainly false.
    """
    is_bad = column(PROBLEM).isNotNull()
    if not keeps_without_values(topic):
        return is_bad | condition
    is_row = is_only_cast_failure()
    return F.when(is_bad & ~is_row, F.lit(True)).when(is_bad, F.coalesce(condition, F.lit(True))).otherwise(condition)


def _refuse_typos(paths: Iterable[Path], columns: Sequence[str], payload: StructType, topic: Topic) -> None:
    """A key that no record has had yet is NULL; one that looks like a known column misspelt is a mistake."""
    known = {name.lower() for name in (*columns, *payload.names)}
    for path in paths:
        if path[0].lower() in known:
            continue
        hint = misspelt(path, STANDARD)
        if path[0].startswith("_"):
            hint = did_you_mean(path[0], [name for name in columns if name not in HIDDEN])
        elif path[0].lower() == EVENT_DATE:
            hint = "it is made with the commit: write date(event_timestamp)"
        if hint is not None:
            raise UsageError(Code.INVALID_SQL, f"filter: no column '{path[0]}'", where=topic.where, hint=hint)


def _named(paths: Iterable[Path], columns: dict[str, DataType], payload: StructType, strict: bool) -> dict[str, Column]:
    """The columns that a condition names and the frame lacks, from the payload; `strict`: as to case."""
    roots: dict[str, list[Path]] = {}
    for path in paths:
        roots.setdefault(path[0], []).append(path[1:])
    held = {name.lower(): name for name in columns}
    named: dict[str, Column] = {}
    for root, rests in roots.items():
        same = root.lower() in held or root.lower() in {name.lower() for name in named}
        if root in columns or (same and not strict):
            continue
        if root.lower() in held:
            named[root] = column(held[root.lower()])
        elif root.lower() == PAYLOAD and (any(rests) or _key(root, payload) is None):
            named[root] = _with_paths(column(EVENT), payload, rests)
        elif (key := _key(root, payload)) is not None:
            named[root] = _with_paths(column(EVENT).getField(key), payload[key].dataType, rests)
        else:
            known = STANDARD[root.lower()][1] if root.lower() in STANDARD else _nothing(rests)
            named[root] = F.lit(None).cast(known)
    return named


def _key(name: str, struct: StructType) -> str | None:
    """A field by its name as Spark would find it: exactly, else without regard to case."""
    if name in struct.names:
        return name
    return next((known for known in struct.names if known.lower() == name.lower()), None)


def _with_paths(value: Column, have: DataType, rests: Iterable[Path]) -> Column:
    """A struct in which the paths exist: what it lacks is NULL."""
    if not isinstance(have, StructType):
        return value
    below: dict[str, list[Path]] = {}
    for rest in rests:
        if rest:
            below.setdefault(rest[0], []).append(rest[1:])
    for part, deeper in below.items():
        key = _key(part, have)
        if key is None:
            value = value.withField(backticked(part), F.lit(None).cast(_nothing(deeper)))
        elif isinstance(have[key].dataType, StructType) and any(deeper):
            value = value.withField(backticked(key), _with_paths(value.getField(key), have[key].dataType, deeper))
    return value


def _nothing(rests: Iterable[Path]) -> DataType:
    """The type of a value that nobody has seen: text, or an object with the fields that are asked of it."""
    fields: dict[str, list[Path]] = {}
    for rest in rests:
        if rest:
            fields.setdefault(rest[0], []).append(rest[1:])
    if not fields:
        return StringType()
    return StructType([StructField(name, _nothing(deeper)) for name, deeper in fields.items()])
