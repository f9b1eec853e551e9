"""Records that are JSON objects."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from headwater.core.quotes import backticked
from headwater.sources.decoders.base import (
    CAST_FAILURES,
    DECODE,
    EVENT,
    PROBLEM,
    RAW,
    SCHEMA,
    TOO_LARGE,
    UNKNOWN,
    Decoder,
)
from headwater.sources.decoders.checks import Checks, any_of
from headwater.sources.decoders.keys import (
    count_keys,
    count_values,
    has_keys_beyond,
    has_more_objects,
    has_repeated_map_keys,
    has_unknown_keys,
    is_parted,
    repeated_key,
    without_escaped,
)
from headwater.sources.decoders.kinds import LARGEST, SAMPLE, agreed
from headwater.sources.decoders.typed import PROBLEM_TYPE, problem
from headwater.spark.arrow_bridge import local_frame
from headwater.spark.internals import java, java_frame, java_session

CORRUPT = "_headwater_corrupt"
_PARSED = "_headwater_parsed"
_TEXT = "_headwater_text"
_TEXTS = "_headwater_texts"
_AGAIN = "_headwater_again"
_OPTIONS = {"columnNameOfCorruptRecord": CORRUPT, "allowSingleQuotes": "false"}
_LAST = "_headwater_last"
"""The key of an object that is put behind a text, to see where the text's own object ends."""
_SHOWN = 60
"""Characters of a value that a message shows."""
TYPED_ROWS = {"allowNonNumericNumbers": "true"}
"""For rows that had types and were written as JSON: NaN and infinity are values of theirs."""
LONGEST_TEXT = 20_000_000
"""Characters of one text in a record, the most that Spark's JSON reader takes (Jackson's `maxStringLength`)."""
_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = r"\\u[dD][89a-fA-F]"
REPEATED = "an object has a key more than once: "
NO_NAME = "a key is empty, and no column can have that name"
LONE_SURROGATE = "a text has half of a character: a lone surrogate such as \\ud800"


class JsonDecoder(Decoder):
    """One JSON object a record, in UTF-8; `options` are those of Spark's reader, as it spells them."""

    textual = True
    canonical = False
    """Whether the texts are known to be made of parsed values: in valid UTF-8, a key and its colon side by side."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self._options = {**_OPTIONS, **(options or {})}
        self._made: _Expressions | None = None

    def detect(self, records: DataFrame) -> StructType:
        return self._inferred(records.select(F.col(RAW).cast(StringType())))

    def agreed(self, records: DataFrame, found: StructType) -> tuple[StructType, tuple[str, ...]]:
        spark = records.sparkSession
        small = records.where(F.length(RAW) <= LARGEST).select(RAW).limit(SAMPLE).collect()

        def infer(texts: list[str]) -> StructType:
            return self._inferred(local_frame(spark, pa.table({"text": pa.array(texts, pa.string())})))

        return agreed(found, [bytes(row[0]) for row in small], infer)

    def _inferred(self, lines: DataFrame) -> StructType:
        return inferred(lines, self._options)

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        made = self._expressions(schema)
        parsed = records.select("*", *made.parsed)
        if made.texts is not None:
            parsed = parsed.withColumn(_TEXTS, made.texts)
        parsed = parsed.withColumn(_AGAIN, made.again)
        return parsed.select(*map(backticked, records.columns), *made.decoded)

    def quick(self, records: DataFrame, schema: StructType) -> DataFrame | None:
        made = self._expressions(schema)
        if made.quick is None:
            return None
        parsed = records.withColumn(EVENT, made.event)
        if made.quick_texts is not None:
            parsed = parsed.withColumn(_TEXTS, made.quick_texts)
        found = parsed.withColumn(UNKNOWN, made.quick)
        if made.as_wanted is not None:
            found = found.withColumn(EVENT, made.as_wanted)
        return found if made.quick_texts is None else found.drop(_TEXTS)

    def unknown(self, schema: StructType) -> Column | None:
        return self._expressions(schema).unknown

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        return has_keys_beyond(raw.cast(StringType()), schema, self._options)

    @property
    def width(self) -> Column | None:
        return count_keys(F.col(RAW).cast(StringType()))

    def _expressions(self, schema: StructType) -> _Expressions:
        """Made once for a schema: a live step is small, and to build them takes longer than to run them."""
        if self._made is None or (self._made.schema, self._made.canonical) != (schema, self.canonical):
            self._made = _expressions(schema, self._options, canonical=self.canonical)
        return self._made


def inferred(lines: DataFrame, options: Mapping[str, str]) -> StructType:
    """The schema of some JSON texts; a key that an object has twice is one field of it."""
    spark = lines.sparkSession
    jvm: Any = java(spark)
    texts = getattr(java_frame(lines), "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    reader = java_session(spark).read().option("dropFieldIfAllNull", "true")
    for name, value in options.items():
        reader = reader.option(name, value)
    found = StructType.fromJson(json.loads(reader.json(texts).schema().json()))
    schema = _once(found)
    assert isinstance(schema, StructType)
    return StructType([f for f in schema.fields if f.name != CORRUPT])


def _once(data_type: DataType) -> DataType:
    """The type with each field of a struct once, as it was found last."""
    if isinstance(data_type, ArrayType):
        return ArrayType(_once(data_type.elementType))
    if not isinstance(data_type, StructType):
        return data_type
    return StructType(
        [StructField(name, one) for name, one in {f.name: _once(f.dataType) for f in data_type.fields}.items()]
    )


@dataclass(frozen=True)
class _Expressions:
    """What makes events of records by one schema."""

    schema: StructType
    canonical: bool
    parsed: list[Column]
    decoded: list[Column]
    unknown: Column
    event: Column
    """The event and whether it is corrupt, in one struct: nothing is copied where all is well."""
    quick: Column | None
    texts: Column | None
    """What has to be read alongside the event; see `Checks`."""
    quick_texts: Column | None
    """The same for the quick way."""
    again: Column
    """A key that is given more than once."""
    as_wanted: Column | None
    """The event by the schema, where it was read by another one."""


def _expressions(schema: StructType, options: Mapping[str, str], *, canonical: bool) -> _Expressions:
    raw, text, parsed, again = F.col(RAW), F.col(_TEXT), F.col(_PARSED), F.col(_AGAIN)
    checks = Checks(schema, options)
    asked = StructType([*checks.read.fields, StructField(CORRUPT, StringType())])
    as_text = raw.cast(StringType())
    checked = checks.of(parsed, None if checks.texts is None else F.col(_TEXTS), text)
    wrong = any_of([one.wrong for one in checked.values()])
    broken = parsed.getField(CORRUPT).isNotNull()
    unfit = broken if wrong is None else broken | F.coalesce(wrong, F.lit(False))
    invalid = F.decode(raw, "UTF-8") != text
    # Spark reads the first object of a text and leaves the rest: what is suspect is looked at as a whole.
    loose = _is_loose(text, options)
    keys = (count_keys(text) != count_values(parsed, schema)) | is_parted(text)
    suspect = broken | ~F.endswith(F.rtrim(text), F.lit("}")) | keys | loose | has_more_objects(text, parsed, schema)
    twice = any_of([suspect, has_repeated_map_keys(parsed, schema)])
    assert twice is not None
    is_one = _is_one_object(text, options)
    no_object = parsed.isNull() | F.when(suspect, ~is_one).otherwise(False)
    nameless = _has_empty_key(text, options)
    values = {name: one.value for name, one in checked.items()}
    cast_failures = _cast_failures(text, schema, values, options)
    why = (
        F.when(raw.isNull(), F.lit(None))
        .when(invalid, problem(DECODE, "not valid UTF-8"))
        .when(no_object & _is_too_long(text, options), problem(TOO_LARGE, _too_long(raw)))
        .when(no_object, problem(DECODE, _no_object(text)))
        .when(_has_lone_surrogate(text), problem(DECODE, LONE_SURROGATE))
        .when(nameless, problem(DECODE, NO_NAME))
        .when(again.isNotNull(), problem(DECODE, F.concat(F.lit(REPEATED), again)))
    )
    readable = parsed.isNotNull() & ~invalid & ~no_object & ~_has_lone_surrogate(text) & ~nameless & again.isNull()
    fields = [value.cast(schema[name].dataType).alias(name) for name, value in values.items()]
    event = F.when(readable, F.struct(*fields)) if fields else F.lit(None)
    wanted = StructType([*schema.fields, StructField(CORRUPT, StringType())])
    return _Expressions(
        schema,
        canonical,
        [
            as_text.alias(_TEXT),
            F.from_json(as_text, asked, dict(options)).alias(_PARSED),
        ],
        [
            event.cast(schema).alias(EVENT),
            why.when(unfit, problem(SCHEMA, _described(cast_failures, schema))).cast(PROBLEM_TYPE).alias(PROBLEM),
            F.when(unfit, cast_failures).alias(CAST_FAILURES),
        ],
        has_unknown_keys(as_text, F.col(EVENT), schema, canonical=canonical) | _is_loose(as_text, options),
        F.from_json(as_text, asked, dict(options)),
        _is_strange(schema, options, checks, canonical=canonical) if fields else None,
        _texts(checks, text, parsed, options),
        _texts(checks, as_text, F.col(EVENT), options),
        F.when(twice, repeated_key(text, schema, options)),
        F.col(EVENT).cast(wanted) if checks.read != schema else None,
    )


def _texts(checks: Checks, text: Column, parsed: Column, options: Mapping[str, str]) -> Column | None:
    """What is read of a text alongside its values; NULL where that is not needed."""
    if checks.texts is None:
        return None
    texts = F.from_json(text, checks.texts, dict(options))
    return texts if checks.always else F.when(checks.may_be_rounded(parsed, text), texts)


def _is_one_object(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text is one JSON object and nothing else: before another one in an array, it is the first of two."""
    listed = F.concat(F.lit("["), text, F.lit('\n,{"' + _LAST + '":""}]'))
    objects = F.from_json(listed, "array<map<string,string>>", dict(options))
    both = (F.size(objects) == 2) & F.get(objects, 0).isNotNull() & F.get(objects, 1).getItem(_LAST).isNotNull()
    return F.coalesce(both, F.lit(False))


def _no_object(text: Column) -> Column:
    """What a record is that is not one JSON object."""
    bare = F.trim(text)
    return (
        F.when(bare == "null", F.lit("null, not a JSON object"))
        .when(F.startswith(bare, F.lit("[")) & F.endswith(bare, F.lit("]")), F.lit("an array, not one JSON object"))
        .otherwise(F.lit("not one JSON object"))
    )


def _is_strange(schema: StructType, options: Mapping[str, str], checks: Checks, *, canonical: bool) -> Column:
    """Whether a record has to be looked at closely; over RAW and the event with its CORRUPT."""
    raw, event = F.col(RAW), F.col(EVENT)
    text = raw.cast(StringType())
    whole = F.endswith(text, F.lit("}")) | F.endswith(F.rtrim(text), F.lit("}"))
    at_all = event.isNull() | event.getField(CORRUPT).isNotNull() | ~whole | has_more_objects(text, event, schema)
    if not canonical:
        at_all |= (F.decode(raw, "UTF-8") != text) | _may_have_surrogates(text)
    checked = checks.of(event, None if checks.texts is None else F.col(_TEXTS), text)
    for wrong in (any_of([one.wrong for one in checked.values()]), has_repeated_map_keys(event, schema)):
        if wrong is not None:
            at_all |= F.coalesce(wrong, F.lit(False))
    return F.when(raw.isNull(), False).otherwise(
        at_all | has_unknown_keys(text, event, schema, canonical=canonical) | _is_loose(text, options)
    )


def _is_loose(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text may be in a style in which its keys can't be counted, if such a style is allowed at all."""
    signs = {
        "allowComments": F.contains(text, F.lit("//")) | F.contains(text, F.lit("/*")),
        "allowSingleQuotes": F.contains(text, F.lit("'")),
        "allowUnquotedFieldNames": text.rlike("[{,][ \t\r\n]*[^\"'{}\\[\\],: \t\r\n]+[ \t\r\n]*:"),
    }
    allowed = [sign for name, sign in signs.items() if options.get(name, "").lower() == "true"]
    return reduce(operator.or_, allowed, F.lit(False))


def _is_too_long(text: Column, options: Mapping[str, str]) -> Column:
    """Of what could not be read: whether it is JSON, with a text too long to be read."""
    # A value that nobody asks for is passed over, however long it is.
    passed = F.from_json(text, StructType([StructField(CORRUPT, StringType())]), dict(options))
    is_json = passed.isNotNull() & passed.getField(CORRUPT).isNull() & F.endswith(F.rtrim(text), F.lit("}"))
    return F.when(F.octet_length(text) > LONGEST_TEXT, is_json).otherwise(False)


def _too_long(raw: Column) -> Column:
    size = F.format_number(F.length(raw), 0)
    return F.concat(
        F.lit("the record has "), size, F.lit(f" bytes, and a text in it may have {LONGEST_TEXT:,} characters")
    )


def _may_have_surrogates(text: Column) -> Column:
    """Whether half of a character is written somewhere; most texts have no escape at all, and that is soon seen."""
    halves = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    return F.when(F.contains(text, F.lit("\\u")), F.when(halves, _has_lone_surrogate(text)).otherwise(False)).otherwise(
        False
    )


def _has_lone_surrogate(text: Column) -> Column:
    """Whether one stands without its other half: Java would put a question mark in its place."""
    halves = F.regexp_replace(without_escaped(text, '\\"'), _PAIR, "").rlike(_HALF)
    escaped = F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))
    return F.when(escaped, halves).otherwise(False)


def _has_empty_key(text: Column, options: Mapping[str, str]) -> Column:
    """Whether an object has a value without a name; Spark leaves it out."""
    found = F.lit(False)
    for quote in "\"'" if options.get("allowSingleQuotes", "").lower() == "true" else '"':
        key = without_escaped(text, "\\" + quote).rlike(quote * 2 + "[ \t\r\n]*:")
        found |= F.when(F.contains(text, F.lit(quote * 2)), key).otherwise(False)
    return found


def _cast_failures(
    text: Column, schema: StructType, values: Mapping[str, Column], options: Mapping[str, str]
) -> Column:
    """The top-level values that do not fit their type, as text; complex ones too where only their inside may not."""
    if not schema.fields:
        return F.lit(None).cast("map<string,string>")
    texts = StructType([StructField(f.name, StringType()) for f in schema.fields])
    as_text = F.from_json(text, texts, dict(options))
    found = F.map_from_arrays(
        F.array(*(F.lit(f.name) for f in schema.fields)),
        F.array(*(as_text.getField(f.name) for f in schema.fields)),
    )
    typed = F.map_from_arrays(
        F.array(*(F.lit(f.name) for f in schema.fields)),
        F.array(*(values[f.name].isNull() for f in schema.fields)),
    )
    wrong = F.map_filter(found, lambda name, value: value.isNotNull() & F.element_at(typed, name))
    nested = [f.name for f in schema.fields if isinstance(f.dataType, (StructType, ArrayType, MapType))]
    inside = F.map_filter(found, lambda name, value: value.isNotNull() & name.isin(*nested)) if nested else wrong
    return F.when(F.size(wrong) > 0, wrong).otherwise(inside)


def _described(cast_failures: Column, schema: StructType) -> Column:
    types = F.create_map(*(F.lit(part) for f in schema.fields for part in (f.name, f.dataType.simpleString())))
    sentences = F.transform(
        F.map_entries(cast_failures),
        lambda one: F.concat(
            one.getField("key"),
            F.lit(": "),
            F.substring(one.getField("value"), 1, _SHOWN),
            F.lit(" does not fit "),
            F.element_at(types, one.getField("key")),
        ),
    )
    return F.coalesce(F.nullif(F.array_join(sentences, "; "), F.lit("")), F.lit("a value does not fit its type"))
