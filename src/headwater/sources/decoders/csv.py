"""Records that are lines of CSV; their columns come from a header, from names, or from where they stand."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.core.quotes import backticked
from headwater.sources.decoders.base import CAST_FAILURES, DECODE, EVENT, PROBLEM, RAW, SCHEMA, Decoder
from headwater.sources.decoders.cells import JSON, Cells, nested_in
from headwater.sources.decoders.checks import any_of, balanced
from headwater.sources.decoders.json import inferred
from headwater.sources.decoders.keys import has_keys_beyond
from headwater.sources.decoders.text_values import (
    is_another_number,
    is_day,
    is_moment,
    is_no_number,
)
from headwater.sources.decoders.typed import problem
from headwater.spark.years import is_beyond_years, is_time

DEFAULTS = {"sep": ",", "quote": '"', "escape": '"'}
"""Quotes inside quotes are doubled, as RFC 4180 has it; Spark's own default is a backslash before them."""

_OURS = frozenset({"header", "multiline", "mode", "inferschema", "columnnameofcorruptrecord", "encoding", "comment"})
_BROKEN = "broken"
_PARSED = "_headwater_parsed"
_TEXTS = "_headwater_texts"
_HEADER = "_headwater_header"
_LINE = "_headwater_line"
_UNREADABLE = "_headwater_unreadable"
_WRONG = "_headwater_wrong"
_WRONG_TYPE = "array<struct<name:string,text:string,type:string>>"
_SHOWN = 60
"""Characters of a value that a message shows."""

_WHOLE = r"^-?(0|[1-9]\d*)\z"
_NUMBER = r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\z"
_LONG_WHOLE = r"^-?\d{16,}\z"
_POSITIONAL = re.compile(r"^_c(\d+)$")


@dataclass(frozen=True)
class CsvLayout:
    """The columns of some lines, in their order, and the header that tells them from others."""

    names: tuple[str, ...]
    header: str | None = None


class CsvDecoder(Decoder):
    """One line a record.

    With `names` these are the columns in their order. If they are `headed`, a record is its header, a line feed
    and its line, so that it says by itself what its columns are; `headers` names those to expect (None: look). With
    neither, the columns are `_c0`, `_c1`, … and the first record says how many.
    """

    textual = True

    def __init__(
        self,
        options: Mapping[str, str] | None = None,
        names: Sequence[str] | None = None,
        *,
        headed: bool = False,
        headers: Callable[[], Iterable[str]] | None = None,
    ) -> None:
        given = {_spelled(key): value for key, value in (options or {}).items()}
        self._options = {**DEFAULTS, **{key: value for key, value in given.items() if key.lower() not in _OURS}}
        self._cells = Cells(self._options)
        self._names = None if names is None else tuple(names)
        self._headed = headed or headers is not None
        self._headers = headers
        self._nested: dict[str, DataType] = {}
        """Columns whose cells are JSON by the schema that was last asked for."""

    def detect(self, records: DataFrame) -> StructType:
        """By itself no cell is JSON; where the schema says so, what is in the cells is told."""
        found: dict[str, DataType] = {}
        lines = self._lines(records)
        for layout in self._layouts(records):
            for name, one in self._detected(lines, layout).items():
                found[name] = _common(found[name], one) if name in found else one
        return StructType([StructField(name, one) for name, one in found.items()])

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        layouts = self._layouts(records, schema)
        self._nested = nested_in(schema)
        decoded = self._lines(records)
        for i, layout in enumerate(layouts):
            mine = self._belongs(layout)
            typed = self._parsed(self._types(layout, schema))
            decoded = decoded.withColumn(f"{_PARSED}{i}", F.when(mine, typed))
            # Looked at again as text, but only where something did not fit: to say what.
            again = mine & F.col(f"{_PARSED}{i}.{_BROKEN}").isNotNull()
            texts = self._parsed([StringType()] * len(layout.names))
            decoded = decoded.withColumn(f"{_TEXTS}{i}", F.when(again, texts))
        numbered = list(enumerate(layouts))
        cells = self._cells
        unreadable = F.coalesce(self._unreadable(), *[_ragged(i, layout) for i, layout in numbered])
        decoded = decoded.withColumn(_UNREADABLE, unreadable)
        wrong = F.coalesce(*[_wrong(i, layout, schema, cells) for i, layout in numbered], F.lit(None).cast(_WRONG_TYPE))
        decoded = decoded.withColumn(_WRONG, F.when(F.col(_UNREADABLE).isNull(), wrong))
        event = F.coalesce(*[_event(i, layout, schema, cells) for i, layout in numbered], F.lit(None).cast(schema))
        readable = F.col(_UNREADABLE).isNull() & F.col(RAW).isNotNull()
        cast_failure = F.when(F.size(_WRONG) > 0, problem(SCHEMA, _described()))
        return decoded.select(
            *[F.col(backticked(name)) for name in records.columns],
            F.when(readable, event).alias(EVENT),
            F.coalesce(F.col(_UNREADABLE), cast_failure).alias(PROBLEM),
            F.when(F.size(_WRONG) > 0, F.map_from_entries(_entries())).alias(CAST_FAILURES),
        )

    def unknown(self, schema: StructType) -> Column | None:
        """A column that the schema lacks has a value, or a cell of JSON has a key that its type lacks; lines of another
        length are looked at closely, too."""
        if self._headed and self._headers is None:
            return F.lit(True)
        line = _after_header() if self._headed else F.col(RAW).cast(StringType())
        if self._is_positional and not _positional(schema):
            return F.lit(True)
        self._nested = nested_in(schema)
        return any_of([self._has_unknown(layout, schema, line) for layout in self._layouts(None, schema)])

    def _has_unknown(self, layout: CsvLayout, schema: StructType, line: Column) -> Column | None:
        texts = self._parsed([StringType()] * len(layout.names), line)
        new = [texts.getField(f"c{i}") for i, name in enumerate(layout.names) if name not in schema.names]
        found = [F.coalesce(*new).isNotNull() if new else None]
        for i, name in enumerate(layout.names):
            if name in self._nested:
                beyond = has_keys_beyond(texts.getField(f"c{i}"), self._nested[name], JSON)
                found.append(None if beyond is None else F.coalesce(beyond, F.lit(False)))
        if self._is_positional:
            found.append(texts.getField(_BROKEN).isNotNull())
        has = any_of(found)
        if has is None or layout.header is None:
            return has
        return (F.substring_index(F.col(RAW).cast(StringType()), "\n", 1) == layout.header) & has

    def names_in(self, header: str) -> tuple[str, ...]:
        """The columns that a header names; an empty name is `_c` and its number, a repeated one gets its number."""
        sep, quote = self._options["sep"], self._options["quote"]
        if len(sep) == 1 and len(quote) == 1:
            parts = next(csv.reader(io.StringIO(header), delimiter=sep, quotechar=quote), [])
        else:
            parts = header.split(sep)
        names: list[str] = []
        for i, part in enumerate(parts):
            name = part.strip() or f"_c{i}"
            names.append(f"{name}_{i}" if name in names else name)
        return tuple(names)

    # --- inside

    @property
    def _is_positional(self) -> bool:
        return self._names is None and not self._headed

    def _layouts(self, records: DataFrame | None, schema: StructType | None = None) -> list[CsvLayout]:
        if self._names is not None:
            return [CsvLayout(self._names)]
        if self._headed:
            headers = self._headers() if self._headers is not None else _headers_of(records)
            return [CsvLayout(self.names_in(header), header) for header in sorted(set(headers))]
        if schema is not None and _positional(schema):
            return [CsvLayout(_positional(schema))]
        assert records is not None
        return [CsvLayout(tuple(f"_c{i}" for i in range(self._width(records))))]

    def _width(self, records: DataFrame) -> int:
        first = records.where(F.length(RAW) > 0).select(F.col(RAW).cast(StringType())).first()
        return 1 if first is None else len(self.names_in(str(first[0])))

    def _lines(self, records: DataFrame) -> DataFrame:
        text = F.col(RAW).cast(StringType())
        if not self._headed:
            return records.withColumn(_LINE, text)
        header = F.substring_index(text, "\n", 1)
        return records.withColumn(_HEADER, header).withColumn(_LINE, _after_header())

    def _belongs(self, layout: CsvLayout) -> Column:
        return F.lit(True) if layout.header is None else F.col(_HEADER) == layout.header

    def _parsed(self, types: Sequence[DataType], line: Column | None = None) -> Column:
        """The line under columns `c0`, `c1`, …; with BROKEN where a value or the number of columns does not fit."""
        fields = [StructField(f"c{i}", one) for i, one in enumerate(types)]
        schema = StructType([*fields, StructField(_BROKEN, StringType())])
        options = {**self._options, "columnNameOfCorruptRecord": _BROKEN}
        return F.from_csv(F.col(_LINE) if line is None else line, schema.simpleString(), options)

    def _types(self, layout: CsvLayout, schema: StructType) -> list[DataType]:
        wanted = {f.name: f.dataType for f in schema.fields}
        return [self._cells.read_as(wanted.get(name, StringType())) for name in layout.names]

    def _unreadable(self) -> Column:
        raw, quote = F.col(RAW), self._options["quote"]
        why = F.when(F.length(F.trim(F.col(_LINE))) == 0, problem(DECODE, "an empty line"))
        why = why.when(not_utf8(raw), problem(DECODE, "not valid UTF-8"))
        if quote and self._options["escape"] == quote:
            # A quote that is never closed takes the rest of the line into its value, and nobody would know.
            quotes = F.length(_LINE) - F.length(F.translate(_LINE, quote, ""))
            begins = F.col(_LINE).rlike(f"(^|{re.escape(self._options['sep'])}){re.escape(quote)}")
            why = why.when((quotes % 2 == 1) & begins, problem(DECODE, "a quote that is not closed"))
        return why

    def _detected(self, lines: DataFrame, layout: CsvLayout) -> dict[str, DataType]:
        """Of each column that has a value the narrowest type under which `decode` reads every value."""
        width = len(layout.names)
        texts = self._parsed([StringType()] * width)
        tries = {candidate: self._parsed([candidate] * width) for candidate in _CANDIDATES}
        sound = lines.where(self._belongs(layout) & self._unreadable().isNull())
        parsed = sound.select(texts.alias("t"), *[one.alias(f"p{n}") for n, one in enumerate(tries.values())])
        readable = parsed.where(F.col(f"t.{_BROKEN}").isNull())
        asked: list[Column] = []
        for i in range(width):
            text = F.col(f"t.c{i}")
            asked.append(F.max(text.isNotNull()))
            for n, candidate in enumerate(tries):
                value = F.col(f"p{n}.c{i}")
                fits = value.isNotNull() & self._looks_like(text, candidate)
                if isinstance(candidate, DoubleType):
                    fits &= ~is_no_number(value, candidate) & ~is_another_number(text, value, candidate)
                elif is_time(candidate):
                    fits &= ~is_beyond_years(value, candidate)
                asked.append(F.max(text.isNotNull() & ~fits))
        answer = readable.agg(*asked).first()
        assert answer is not None
        found: dict[str, DataType] = {}
        per = 1 + len(tries)
        for i, name in enumerate(layout.names):
            has_value, *cast_failures = answer[i * per : (i + 1) * per]
            if has_value or self._is_positional:  # where columns are counted, an empty one counts
                fitting = (one for one, cast_failure in zip(tries, cast_failures, strict=True) if not cast_failure)
                found[name] = next(fitting, StringType()) if has_value else StringType()
        for i, name in enumerate(layout.names):
            if name in found and name in self._nested:
                found[name] = self._inside(readable.select(F.col(f"t.c{i}").alias("text")), self._nested[name])
        return found

    def _inside(self, cells: DataFrame, known: DataType) -> DataType:
        """What cells of JSON hold that are values of a type; that type, if they hold nothing more."""
        text = F.col("text")
        fitting = cells.where(self._cells.value(text, known).isNotNull())
        found = inferred(fitting.select(F.concat(F.lit('{"value":'), text, F.lit("\n}"))), JSON)
        return found["value"].dataType if "value" in found.names else known

    def _looks_like(self, text: Column, candidate: DataType) -> Column:
        """Spark reads `007` as a number, `12f` as a double and `10:30` as a time of today: these stay text."""
        if isinstance(candidate, (LongType, DecimalType)):
            return text.rlike(_WHOLE)
        if isinstance(candidate, DoubleType):
            return text.rlike(_NUMBER) & ~text.rlike(_LONG_WHOLE)
        if isinstance(candidate, DateType) and "dateFormat" not in self._options:
            return is_day(text)
        if isinstance(candidate, TimestampType) and "timestampFormat" not in self._options:
            return is_moment(text)
        return F.lit(True)


_CANDIDATES: tuple[DataType, ...] = (
    LongType(),
    DecimalType(38, 0),
    DoubleType(),
    BooleanType(),
    DateType(),
    TimestampType(),
)


def not_utf8(raw: Column) -> Column:
    """Whether bytes are no text: what is put in for broken bytes is not what was there."""
    return F.decode(raw, "UTF-8") != raw.cast(StringType())


def _event(i: int, layout: CsvLayout, schema: StructType, cells: Cells) -> Column:
    """The columns by name; one that the line lacks is NULL."""
    at = {name: n for n, name in enumerate(layout.names)}
    fields = []
    for f in schema.fields:
        value: Column = F.lit(None)
        if f.name in at:
            value = cells.value(F.col(f"{_PARSED}{i}.c{at[f.name]}"), f.dataType)
        fields.append(value.cast(f.dataType).alias(f.name))
    return F.when(F.col(f"{_PARSED}{i}").isNotNull(), F.struct(*fields))


def _ragged(i: int, layout: CsvLayout) -> Column:
    broken = F.col(f"{_TEXTS}{i}.{_BROKEN}").isNotNull()
    return F.when(broken, problem(DECODE, f"not {len(layout.names)} columns"))


def _wrong(i: int, layout: CsvLayout, schema: StructType, cells: Cells) -> Column:
    """The columns whose text is there and whose value is not; NULL where there is none."""
    wanted = {f.name: f.dataType for f in schema.fields}
    found: list[Column] = []
    unfit = [F.col(f"{_TEXTS}{i}").isNotNull()]
    for n, name in enumerate(layout.names):
        data_type = wanted.get(name, StringType())
        if isinstance(data_type, StringType):
            continue
        parsed, text = F.col(f"{_PARSED}{i}.c{n}"), F.col(f"{_TEXTS}{i}.c{n}")
        missing = text.isNotNull() & parsed.isNull()
        if cells.makes(data_type):
            missing = parsed.isNotNull() & cells.value(parsed, data_type).isNull()
            unfit.append(missing)
            if isinstance(cells.read_as(data_type), StringType):
                text = parsed
            else:
                missing = missing | (text.isNotNull() & parsed.isNull())
                text = F.coalesce(text, parsed.cast(StringType()))
        told = (F.lit(name).alias("name"), text.alias("text"), F.lit(data_type.simpleString()).alias("type"))
        found.append(F.when(missing, F.struct(*told)))
    if not found:
        return F.lit(None).cast(_WRONG_TYPE)
    some = balanced(unfit)
    return F.when(some, F.filter(F.array(*found), lambda one: one.isNotNull())).cast(_WRONG_TYPE)


def _described() -> Column:
    sentences = F.transform(
        F.col(_WRONG),
        lambda one: F.concat(
            one.getField("name"),
            F.lit(": "),
            F.substring(one.getField("text"), 1, _SHOWN),
            F.lit(" does not fit "),
            one.getField("type"),
        ),
    )
    return F.array_join(sentences, "; ")


def _entries() -> Column:
    return F.transform(
        F.col(_WRONG),
        lambda one: F.struct(one.getField("name").alias("key"), one.getField("text").alias("value")),
    )


def _common(one: DataType, other: DataType) -> DataType:
    """A type that holds the values of both."""
    if one == other:
        return one
    for family in ((LongType, DecimalType), (LongType, DoubleType), (DateType, TimestampType)):
        if isinstance(one, family) and isinstance(other, family):
            return one if isinstance(one, family[1]) else other
    return StringType()


def _positional(schema: StructType) -> tuple[str, ...]:
    numbers = [int(found[1]) for name in schema.names if (found := _POSITIONAL.match(name))]
    return tuple(f"_c{i}" for i in range(max(numbers) + 1)) if numbers else ()


def _headers_of(records: DataFrame | None) -> list[str]:
    assert records is not None
    header = F.substring_index(F.col(RAW).cast(StringType()), "\n", 1).alias("header")
    return [row.header for row in records.where(F.col(RAW).isNotNull()).select(header).distinct().collect()]


def _after_header() -> Column:
    return F.expr("substring(cast(_raw as string), length(substring_index(cast(_raw as string), '\n', 1)) + 2)")


def _spelled(key: str) -> str:
    """Spark takes options in any case, and `delimiter` for `sep`."""
    known = {"sep": "sep", "delimiter": "sep", "quote": "quote", "escape": "escape"}
    known |= {"dateformat": "dateFormat", "timestampformat": "timestampFormat"}
    return known.get(key.lower(), key)
