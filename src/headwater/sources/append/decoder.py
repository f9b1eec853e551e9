"""Appended rows: JSON objects, of which it is told which numbers were decimals.

Their column is a decimal with room for others, whatever the first ones look like. One that does not fit exactly, or
would have to go through a double, is a mismatch and never rounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headwater.sources.append.records import ELEMENT, PATH
from headwater.sources.decoders.base import CAST_FAILURES, EVENT, PROBLEM, SCHEMA, UNKNOWN
from headwater.sources.decoders.cast_failures import texts_or_none as cast_failures_or_none
from headwater.sources.decoders.cast_failures import with_more
from headwater.sources.decoders.json import JsonDecoder
from headwater.sources.decoders.typed import PROBLEM_TYPE, problem

DECIMALS = "_headwater_decimals"
"""What is told of a row's decimals; see `Records`."""
DIGITS, SCALE = 38, 18
"""Of a column of decimals, where nothing else is said: 20 digits before the point and 18 after it."""
_WRONG = "_headwater_wrong"
_MARKS = "map<string,array<string>>"
_NO_LIMIT, _FLOAT_DIGITS = 10**6, 6


@dataclass(frozen=True)
class _Leaf:
    """A column, or a part of one, that decimals may come to."""

    path: tuple[str, ...]
    type: DataType

    @property
    def key(self) -> str:
        return PATH.join(self.path)

    @property
    def limits(self) -> tuple[int, int]:
        """Digits before and after the point; (-1, n): a number of at most n digits that a double keeps."""
        if isinstance(self.type, DecimalType):
            return self.type.precision - self.type.scale, self.type.scale
        return -1, _FLOAT_DIGITS if isinstance(self.type, FloatType) else _NO_LIMIT


@dataclass(frozen=True)
class _Checks:
    """What finds the decimals that do not fit one schema. Made once for it; see `JsonDecoder`."""

    schema: StructType
    wrong: Column
    """Over DECIMALS: those of them that do not fit; NULL where there are no decimals."""
    problem: Column
    """Over it, as `_WRONG`."""
    event: Column
    cast_failures: Column


class AppendDecoder(JsonDecoder):
    """JSON, with the decimals that the rows were given with."""

    def __init__(self) -> None:
        super().__init__()
        self._given: DataFrame | None = None
        self._checked: _Checks | None = None

    def detect(self, records: DataFrame) -> StructType:
        return self._with_decimals(records, super().detect(records))

    def agreed(self, records: DataFrame, found: StructType) -> tuple[StructType, tuple[str, ...]]:
        agreed_schema, notes = super().agreed(records, found)
        return self._with_decimals(records, agreed_schema), notes

    def _with_decimals(self, records: DataFrame, found: StructType) -> StructType:
        # Records that have been decoded come without it: those of the same step have it.
        given = records if DECIMALS in records.columns else self._given
        for path, before, after in [] if given is None else _decimals(given):
            found = _with_decimal(found, tuple(path.split(PATH)), before, after)
        return found

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        decoded = super().decode(records, schema)
        self._given = records if DECIMALS in records.columns else None
        if self._given is None or not schema.fields:
            return decoded
        checks = self._checks(schema)
        values = {PROBLEM: checks.problem, EVENT: checks.event, CAST_FAILURES: checks.cast_failures}
        return decoded.withColumn(_WRONG, checks.wrong).withColumns(values).drop(_WRONG)

    def quick(self, records: DataFrame, schema: StructType) -> DataFrame | None:
        found = super().quick(records, schema)
        self._given = records if DECIMALS in records.columns else None
        if found is None or self._given is None:
            return found
        return found.withColumn(UNKNOWN, F.col(UNKNOWN) | (F.size(self._checks(schema).wrong) > 0))

    def _checks(self, schema: StructType) -> _Checks:
        if self._checked is None or self._checked.schema != schema:
            self._checked = _checks(schema)
        return self._checked


def _checks(schema: StructType) -> _Checks:
    leaves = list(_leaves(schema, ()))
    limits = F.from_json(F.lit(json.dumps({leaf.key: leaf.limits for leaf in leaves})), "map<string,array<int>>")
    types = F.from_json(
        F.lit(json.dumps({leaf.key: leaf.type.simpleString() for leaf in leaves})), "map<string,string>"
    )

    def does_not_fit(path: Column, told: Column) -> Column:
        limit, before, after = F.element_at(limits, path), told[0].cast("int"), told[1].cast("int")
        of_decimal = (before > limit[0]) | (after > limit[1])
        of_double = (told[3] == "false") | (before + after > limit[1])
        return F.coalesce(F.when(limit[0] >= 0, of_decimal).otherwise(of_double), F.lit(False))

    wrong = F.when(F.col(DECIMALS).isNotNull(), F.map_filter(F.from_json(DECIMALS, _MARKS), does_not_fit))
    found = F.col(_WRONG)
    is_wrong = F.coalesce(F.size(found) > 0, F.lit(False))
    sentences = F.transform(
        F.map_entries(found),
        lambda one: F.concat(
            _name(one["key"]), F.lit(": "), one["value"][2], F.lit(" does not fit "), F.element_at(types, one["key"])
        ),
    )
    told = problem(SCHEMA, F.array_join(sentences, "; "))
    texts = F.transform_keys(F.transform_values(found, lambda _, told: told[2]), lambda path, _: _name(path))
    # What is told of a decimal is exact: it comes before what was seen of the parsed text.
    replaced = F.coalesce(F.col(PROBLEM)["reason"] == SCHEMA, F.lit(True))
    columns = F.transform(F.map_keys(found), lambda path: F.substring_index(path, PATH, 1))
    others = F.map_filter(cast_failures_or_none(F.col(CAST_FAILURES)), lambda name, _: ~F.array_contains(columns, name))
    return _Checks(
        schema,
        wrong,
        F.when(is_wrong & replaced, told).otherwise(F.col(PROBLEM)).cast(PROBLEM_TYPE),
        F.when(is_wrong, _without(found, schema, leaves)).otherwise(F.col(EVENT)).cast(schema),
        F.when(is_wrong, with_more(texts, others)).otherwise(F.col(CAST_FAILURES)),
    )


def _without(wrong: Column, schema: StructType, leaves: list[_Leaf]) -> Column:
    """The event without the values that do not fit; NULL where one is in an array, from which it can't be taken."""
    paths, checked = F.map_keys(wrong), {leaf.key for leaf in leaves}

    def kept(value: Column, data_type: DataType, path: tuple[str, ...]) -> Column:
        if isinstance(data_type, StructType) and data_type.fields:
            fields = (kept(value.getField(f.name), f.dataType, (*path, f.name)).alias(f.name) for f in data_type.fields)
            return F.when(value.isNotNull(), F.struct(*fields))
        key = PATH.join(path)
        return F.when(~F.array_contains(paths, F.lit(key)), value) if key in checked else value

    event = kept(F.col(EVENT), schema, ())
    return F.when(~F.exists(paths, lambda path: F.contains(path, F.lit(PATH + ELEMENT))), event)


def _name(path: Column) -> Column:
    """A path as people write it."""
    return F.replace(F.replace(path, F.lit(PATH + ELEMENT), F.lit("")), F.lit(PATH), F.lit("."))


def _decimals(records: DataFrame) -> list[tuple[str, int, int]]:
    """The paths of decimals in the records, with the most digits before and after the point."""
    told = records.where(F.col(DECIMALS).isNotNull()).select(F.explode(F.from_json(DECIMALS, _MARKS)).alias("p", "of"))
    most = [F.max(F.col("of")[at].cast("int")).alias(name) for at, name in enumerate(("before", "after"))]
    return sorted((row["p"], row["before"], row["after"]) for row in told.groupBy("p").agg(*most).collect())


def _with_decimal(found: DataType, path: tuple[str, ...], before: int, after: int) -> StructType:
    """The schema with a decimal at the end of the path, if that is a number there."""
    changed = _changed(found, path, before, after)
    assert isinstance(changed, StructType)
    return changed


def _changed(found: DataType, path: tuple[str, ...], before: int, after: int) -> DataType:
    if path and isinstance(found, StructType):
        return StructType(
            [
                StructField(f.name, _changed(f.dataType, path[1:], before, after)) if f.name == path[0] else f
                for f in found.fields
            ]
        )
    if path and path[0] == ELEMENT and isinstance(found, ArrayType):
        return ArrayType(_changed(found.elementType, path[1:], before, after))
    if path or not isinstance(found, (LongType, DoubleType, DecimalType)):
        return found
    if isinstance(found, DecimalType):  # integers alongside it that are larger than a long
        before, after = max(before, found.precision - found.scale), max(after, found.scale)
    if before + after > DIGITS:
        return DecimalType(DIGITS, SCALE)
    return DecimalType(DIGITS, min(max(SCALE, after), DIGITS - before))


def _leaves(data_type: DataType, path: tuple[str, ...]) -> Iterator[_Leaf]:
    if isinstance(data_type, StructType):
        for f in data_type.fields:
            yield from _leaves(f.dataType, (*path, f.name))
    elif isinstance(data_type, ArrayType):
        yield from _leaves(data_type.elementType, (*path, ELEMENT))
    elif isinstance(data_type, (DecimalType, DoubleType, FloatType, StringType)):
        yield _Leaf(path, data_type)
