"""Postgres' types as Spark's: what a value's text becomes, and which text does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

LARGEST_PRECISION = 38
_PLAIN: dict[str, DataType] = {
    "bool": BooleanType(),
    "int2": IntegerType(),
    "int4": IntegerType(),
    "int8": LongType(),
    "oid": LongType(),
    "float4": FloatType(),
    "float8": DoubleType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamptz": TimestampType(),
    "bytea": BinaryType(),
    "money": DecimalType(19, 2),
}
"""What is not here, nor numeric with a precision, is kept as Postgres writes it."""

# Spark's own casts leave out what stands behind a date: '0044-03-15 BC' would become a day of another era.
_DATE = r"^\d{4}-\d\d-\d\d\z"
_TIMESTAMP = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?(\+00)?\z"
# In other places `$ 5,50` is five and a half.
_MONEY = r"^-?\$?\d{1,3}(,\d{3})*\.\d\d$"


@dataclass(frozen=True)
class PgType:
    """A type with its modifier; a domain is the type that it is made from."""

    name: str
    modifier: int = -1
    element: PgType | None = None
    """Of an array: what is in it."""

    @property
    def spark(self) -> DataType:
        if self.element is not None:
            return ArrayType(self.element.spark)
        if self.name == "numeric":
            return _numeric(self.modifier)
        return _PLAIN.get(self.name, StringType())

    @property
    def as_sent(self) -> DataType:
        """How a value stands in a record: text, or a list of texts."""
        return StringType() if self.element is None else ArrayType(StringType())

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self.name, "modifier": self.modifier}
        return made if self.element is None else {**made, "element": self.element.to_json()}

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> PgType:
        element = told.get("element")
        return PgType(told["name"], int(told["modifier"]), element and PgType.from_json(element))


def _numeric(modifier: int) -> DataType:
    """Without a precision, or with more digits than Spark has, a number is kept as text: exactly."""
    if modifier < 4:
        return StringType()
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    scale = scale - 0x800 if scale & 0x400 else scale
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return DecimalType(digits, max(scale, 0)) if digits <= LARGEST_PRECISION else StringType()


def typed(sent: Column, type: PgType) -> Column:
    """The value of a text, or of a list of texts; NULL too where it has no place in Spark's type."""
    if type.element is not None:
        inner = type.element
        if isinstance(inner.spark, StringType):
            return sent
        return F.transform(sent, lambda one: typed(one, inner))
    spark = type.spark
    if isinstance(spark, StringType):
        return sent
    if isinstance(spark, DateType):
        return F.when(sent.rlike(_DATE), sent.cast(spark))
    if isinstance(spark, TimestampType):
        bare = F.when(sent.endswith("+00"), F.substring_index(sent, "+", 1)).otherwise(sent)
        return F.when(sent.rlike(_TIMESTAMP), F.concat(bare, F.lit("Z")).cast(spark))
    if isinstance(spark, BinaryType):
        return F.unhex(F.when(sent.startswith("\\x"), sent.substr(F.lit(3), F.length(sent))))
    if type.name == "money":
        return F.when(sent.rlike(_MONEY), F.regexp_replace(sent, r"[$,]", "").cast(spark))
    return sent.cast(spark)


def unfit(sent: Column, value: Column, type: PgType) -> Column | None:
    """Whether there is a text that has become no value; None where that can't be."""
    if isinstance(type.spark, StringType) or (type.element is not None and isinstance(type.element.spark, StringType)):
        return None
    if type.element is None:
        return sent.isNotNull() & value.isNull()
    both = F.arrays_zip(sent.alias("sent"), value.alias("value"))
    lost = F.exists(both, lambda one: one["sent"].isNotNull() & one["value"].isNull())
    return sent.isNotNull() & lost


def items(text: str) -> list[str | None] | None:
    """The elements of an array's text (`{1,NULL,"a b"}`); None if it has more than one dimension."""
    at = text.index("{") + 1  # after bounds such as [0:2]=
    found: list[str | None] = []
    if text[at] == "}":
        return found
    while True:
        if text[at] == "{":
            return None
        if text[at] == '"':
            parts = []
            at += 1
            while (letter := text[at]) != '"':
                if letter == "\\":
                    at += 1
                    letter = text[at]
                parts.append(letter)
                at += 1
            found.append("".join(parts))
            at += 1
        else:
            end = at
            while text[end] not in ",}":
                end += 1
            word = text[at:end]
            found.append(None if word.upper() == "NULL" else word)
            at = end
        if text[at] == "}":
            return found
        at += 1
