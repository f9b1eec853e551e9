"""Types of columns in Postgres, and how Spark writes their values for COPY.

Postgres holds each value exactly. What it can't hold at all is refused row by row, with the reason: a zero byte in a
text, NaN and infinity inside of JSON, a day or time before the year 1 or after 9999.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from headwater.core.errors import Code, UsageError
from headwater.targets.json_columns import as_json, require_json

_PLAIN: dict[type[DataType], str] = {
    BooleanType: "boolean",
    ByteType: "smallint",
    ShortType: "smallint",
    IntegerType: "integer",
    LongType: "bigint",
    FloatType: "real",
    DoubleType: "double precision",
    StringType: "text",
    CharType: "text",
    VarcharType: "text",
    BinaryType: "bytea",
    DateType: "date",
    TimestampType: "timestamp with time zone",
    TimestampNTZType: "timestamp without time zone",
}
_NESTED = (ArrayType, MapType, StructType)
_WIDER: dict[str, frozenset[str]] = {
    "smallint": frozenset({"integer", "bigint", "numeric"}),
    "integer": frozenset({"bigint", "numeric"}),
    "bigint": frozenset({"numeric"}),
    "real": frozenset({"double precision"}),
    "text": frozenset({"character varying"}),
    "jsonb": frozenset({"json"}),
}
"""Types of a column that is there already, which take every value, or refuse it with an error."""
NULL = "\\N"


def column_type(type_: DataType, name: str) -> str:
    """The type of a column in Postgres, as `format_type` writes it."""
    if isinstance(type_, DecimalType):
        return f"numeric({type_.precision},{type_.scale})"
    if isinstance(type_, _NESTED):
        require_json(type_, name)
        return "jsonb"
    found = _PLAIN.get(type(type_))
    if found is None:
        message = f"the column '{name}' is {type_.simpleString()}, and Postgres has no type for it"
        raise UsageError(Code.UNSUPPORTED, message, hint=f"give it another type: schema: '{name} string'")
    return found


def takes(there: str, wanted: str) -> bool:
    """Whether a column that is there takes the values of the type that we would give it."""
    bare = there.partition("(")[0].strip() if not there.startswith("timestamp") else there
    if there == wanted or bare in _WIDER.get(wanted, ()):
        return True
    if wanted.startswith("numeric(") and bare == "numeric":
        return there == "numeric" or all(a >= b for a, b in zip(_digits(there), _digits(wanted), strict=True))
    return False


def widens(there: str, wanted: str) -> bool:
    """Whether a column that an export has made may become another type, with its values."""
    if wanted.startswith("numeric(") and there.startswith("numeric("):
        (whole, scale), (new_whole, new_scale) = _digits(there), _digits(wanted)
        return new_whole >= whole and new_scale >= scale
    return wanted.partition("(")[0] in _WIDER.get(there, ()) and wanted != "character varying"


def _digits(numeric: str) -> tuple[int, int]:
    """Before and after the point."""
    precision, _, scale = numeric.partition("(")[2].rstrip(")").partition(",")
    return (int(precision) - int(scale or 0), int(scale or 0))


def copied(value: Column, type_: DataType) -> Column:
    """A value as COPY's text has it."""
    if isinstance(type_, (StringType, CharType, VarcharType)):
        text = _escaped(value)
    elif isinstance(type_, BinaryType):
        text = F.concat(F.lit("\\\\x"), F.hex(value))
    elif isinstance(type_, TimestampType):
        text = F.concat(value.cast("string"), F.lit("+00"))
    elif isinstance(type_, _NESTED):
        text = _escaped(as_json(value))
    else:
        text = value.cast("string")
    return F.coalesce(text, F.lit(NULL))


def _escaped(text: Column) -> Column:
    for letter, written in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        text = F.replace(text, F.lit(letter), F.lit(written))
    return text


def refused(value: Column, type_: DataType, name: str) -> Column | None:
    """Why Postgres can't hold a value; NULL where it can; None: it holds all of them."""
    test = _unheld(value, type_, 0)
    if test is None:
        return None
    problem, why = test
    return F.when(problem, F.lit(f"{name}: {why}"))


def _unheld(value: Column, type_: DataType, depth: int) -> tuple[Column, str] | None:
    if isinstance(type_, (StringType, CharType, VarcharType)):
        return F.instr(value, "\0") > 0, "Postgres holds no text with a zero byte"
    if isinstance(type_, (DateType, TimestampType, TimestampNTZType)):
        return ~F.year(value).between(1, 9999), "a year before 1 or after 9999"
    if isinstance(type_, (FloatType, DoubleType)) and depth:
        endless = value.isin(float("inf"), float("-inf"))
        return F.isnan(value) | endless, "JSON has neither NaN nor infinity"
    if isinstance(type_, StructType):
        return _any([_unheld(value.getField(f.name), f.dataType, depth + 1) for f in type_.fields])
    if isinstance(type_, ArrayType):
        return _within(value, type_.elementType, depth)
    if isinstance(type_, MapType):
        parts = [
            _within(F.map_keys(value), type_.keyType, depth),
            _within(F.map_values(value), type_.valueType, depth),
        ]
        return _any(parts)
    return None


def _within(values: Column, type_: DataType, depth: int) -> tuple[Column, str] | None:
    found: list[str] = []

    def test(element: Column) -> Column:
        inner = _unheld(element, type_, depth + 1)
        if inner is None:
            return F.lit(False)
        found.append(inner[1])
        return F.coalesce(inner[0], F.lit(False))

    column = F.exists(values, test)
    return (column, found[0]) if found else None


def _any(parts: list[tuple[Column, str] | None]) -> tuple[Column, str] | None:
    """One test for several, NULL being none."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    whole = F.lit(False)
    for test, _ in known:
        whole = whole | F.coalesce(test, F.lit(False))
    return whole, " or ".join(dict.fromkeys(why for _, why in known))
