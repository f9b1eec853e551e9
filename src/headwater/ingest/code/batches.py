"""The project's Python functions over batches of records; imported by Spark's workers, so it stays without Spark.

A function that raises spoils nothing but the events that it raised on: each of them gets a problem.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.ingest.code.values import Fields, array_of, fields_of, kind_of, to_arrow, to_python
from headwater.sources.decoders.base import EVENT, PROBLEM

ROW = "_row"
MAPPER = "_mapper"
"""The number of the mapper that a record is for."""
TYPE = "event_type"
VERSION = "event_version"
REASON = "mapper"

Raised = dict[int, str]
"""Messages by row."""


class ContractBroken(Exception):
    """A function did not give what it has to give whatever the events are: not the events' fault."""


@dataclass(frozen=True)
class Packed:
    """A function as it travels to the workers."""

    code: bytes
    name: str
    """With its role: mapper order."""
    file: str
    line: int
    mode: str
    """event, pandas, batch or table."""
    row: pa.DataType
    """The struct that it gives."""

    def __str__(self) -> str:
        return f"{self.name} ({Path(self.file).name}:{self.line})"


@dataclass(frozen=True)
class Rows:
    """Adds `_row` to batches: what the mapper that `_mapper` numbers makes of the event."""

    functions: Mapping[int, Packed]
    row: pa.DataType
    hidden: frozenset[str] = frozenset()
    """Columns that are not for functions to see."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = {number: _Loaded(packed) for number, packed in self.functions.items()}
        for batch in batches:
            yield self._mapped(batch, loaded)

    def _mapped(self, batch: pa.RecordBatch, loaded: Mapping[int, _Loaded]) -> pa.RecordBatch:
        chosen = pc.fill_null(batch.column(MAPPER), -1).to_numpy(zero_copy_only=False)
        parts: list[tuple[Any, pa.Array]] = []
        raised: Raised = {}
        for number, function in loaded.items():
            at = np.flatnonzero(chosen == number)
            if len(at):
                rows, messages = function.rows(_events(_taken(batch, at), self.hidden))
                parts.append((at, conform(rows, self.row)))
                raised |= {int(at[index]): message for index, message in messages.items()}
        others = np.flatnonzero(~np.isin(chosen, list(loaded)))
        parts.append((others, pa.nulls(len(others), self.row)))
        columns = [*_with_problems(batch, raised).columns, _scattered(parts)]
        return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, ROW])


@dataclass(frozen=True)
class Lifted:
    """Lifts events of old versions; `event` is the type of the payload that comes out."""

    chains: Mapping[str, Mapping[int, Packed]]
    """Functions by event type and version."""
    event: pa.DataType

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        loaded = {
            kind: {version: _Loaded(packed) for version, packed in chain.items()} for kind, chain in self.chains.items()
        }
        for batch in batches:
            yield self._lifted(batch, loaded)

    def _lifted(self, batch: pa.RecordBatch, loaded: Mapping[str, Mapping[int, _Loaded]]) -> pa.RecordBatch:
        kinds = pc.is_in(batch.column(TYPE), value_set=pa.array(list(loaded), pa.string()))
        old = pc.and_(kinds, batch.column(PROBLEM).is_null())
        mask = old.to_numpy(zero_copy_only=False)
        at, others = np.flatnonzero(mask), np.flatnonzero(~mask)
        events = batch.column(EVENT)
        taken = _taken(batch, at)
        versions = batch.column(VERSION).to_pylist()
        values: list[Any] = []
        raised: Raised = {}
        for index, kind, value in zip(at, *(taken.column(n).to_pylist() for n in (TYPE, EVENT)), strict=True):
            lifted, versions[index], message = self._one(value, versions[index], loaded[kind], events.type)
            values.append(lifted)
            if message is not None:
                raised[int(index)] = message
        made, cast_failures = array_of(values, self.event)
        raised |= {int(at[index]): _message(error, "upcaster", "") for index, error in cast_failures.items()}
        rest = conform(events.take(pa.array(others)), self.event)
        columns = dict(zip(batch.schema.names, _with_problems(batch, raised).columns, strict=True))
        columns[EVENT] = _scattered([(at, made), (others, rest)])
        columns[VERSION] = pa.array(versions, pa.int64())
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _one(
        self, value: Any, version: int | None, chain: Mapping[int, _Loaded], of: pa.DataType
    ) -> tuple[Any, int | None, str | None]:
        """The event in its newest version, that version, and what went wrong."""
        payload, at = to_python(value, of), version or 1
        while at in chain:
            function = chain[at]
            try:
                fields = fields_of(function.function(payload))
                if fields is None:
                    raise TypeError("an upcaster returns the payload, as a dict")
                payload = Fields({**payload, **fields})
                to_arrow(payload, self.event)
            except MemoryError:
                raise
            except Exception as error:  # the user's code may raise anything
                return None, at, _message(error, function.packed.name, function.packed.file)
            at += 1
        return to_arrow(payload, self.event), at, None


class _Loaded:
    """A function at work."""

    def __init__(self, packed: Packed) -> None:
        self.packed = packed
        self.function: Callable[[Any], Any] = pickle.loads(packed.code)

    def rows(self, events: pa.RecordBatch) -> tuple[pa.Array, Raised]:
        """A struct per event, and messages for those that it raised on."""
        return self._one_by_one(events) if self.packed.mode == "event" else self._by_halves(events)

    def _one_by_one(self, events: pa.RecordBatch) -> tuple[pa.Array, Raised]:
        values: list[Any] = []
        raised: Raised = {}
        for index, event in enumerate(_dicts(events)):
            try:
                made = self.function(event)
                if fields_of(made) is None:
                    raise TypeError(f"returned {type(made).__name__}: a mapper returns a row")
                values.append(to_arrow(made, self.packed.row))
            except MemoryError:
                raise
            except Exception as error:  # the user's code may raise anything
                values.append(None)
                raised[index] = self._message(error)
        rows, cast_failures = array_of(values, self.packed.row)
        return rows, raised | {index: self._message(error) for index, error in cast_failures.items()}

    def _by_halves(self, events: pa.RecordBatch) -> tuple[pa.Array, Raised]:
        """All at once; where that raises each half by itself, down to the events that it raises on."""
        try:
            return self._at_once(events), {}
        except (ContractBroken, MemoryError):
            raise
        except Exception as error:  # the user's code may raise anything
            if events.num_rows == 1:
                return pa.nulls(1, self.packed.row), {0: self._message(error)}
        half = events.num_rows // 2
        first, raised = self._by_halves(events.slice(0, half))
        second, more = self._by_halves(events.slice(half))
        return pa.concat_arrays([first, second]), raised | {half + index: text for index, text in more.items()}

    def _at_once(self, events: pa.RecordBatch) -> pa.Array:
        mode = self.packed.mode
        if mode == "pandas":
            made = self._of_pandas(self.function(_pandas(events)))
        else:
            made = self._of_arrow(self.function(pa.Table.from_batches([events]) if mode == "table" else events))
        for name, values in made.items():
            if len(values) != events.num_rows:
                counts = f"{len(values)} rows for {events.num_rows} events"
                raise ContractBroken(f"{self.packed} returned {counts} in '{name}': it returns one per event")
        types = {f.name: f.type for f in self.packed.row}
        unknown = [name for name in made if name not in types]
        if unknown:
            raise ContractBroken(f"{self.packed} returned '{unknown[0]}', which is not in its schema")
        columns = [made.get(name, pa.nulls(events.num_rows, of)) for name, of in types.items()]
        columns = [_cast(values, f) for values, f in zip(columns, self.packed.row, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=list(self.packed.row))

    def _of_arrow(self, made: Any) -> dict[str, pa.Array]:
        if isinstance(made, pa.Table):
            made = made.combine_chunks()
            return {name: _one_array(made.column(name)) for name in made.schema.names}
        if isinstance(made, pa.RecordBatch):
            return dict(zip(made.schema.names, made.columns, strict=True))
        raise ContractBroken(f"{self.packed} returned {type(made).__name__}: it returns a RecordBatch or Table")

    def _of_pandas(self, made: Any) -> dict[str, pa.Array]:
        import pandas as pd

        if not isinstance(made, pd.DataFrame):
            raise ContractBroken(f"{self.packed} returned {type(made).__name__}: it returns a DataFrame")
        types = {f.name: f.type for f in self.packed.row}
        return {
            str(name): _of_series(made[name], types[str(name)]) if str(name) in types else pa.nulls(len(made))
            for name in made.columns
        }

    def _message(self, error: Exception) -> str:
        return _message(error, self.packed.name, self.packed.file)


def conform(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Values under a type that holds them: fields by name, missing ones NULL."""
    if array.type == to:
        return array
    if pa.types.is_struct(to) and pa.types.is_struct(array.type):
        parts = {f.name: child for f, child in zip(array.type, array.flatten(), strict=True)}
        children = [conform(parts[f.name], f.type) if f.name in parts else pa.nulls(len(array), f.type) for f in to]
        return pa.StructArray.from_arrays(children, fields=list(to), mask=array.is_null())
    if pa.types.is_nested(to) and pa.types.is_nested(array.type):
        return pa.array([to_arrow(to_python(one, array.type), to) for one in array.to_pylist()], to)
    return array.cast(to)


def _cast(values: pa.Array, to: pa.Field) -> pa.Array:
    """What a function gave under the type that it declared; no decimal is made of a float, no number of a text."""
    inexact = pa.types.is_floating(values.type) and pa.types.is_decimal(to.type)
    other = kind_of(values.type) != kind_of(to.type) and not pa.types.is_null(values.type)
    if inexact or other:
        raise TypeError(f"'{to.name}' does not fit {to.type}: it was given as {values.type}")
    try:
        return conform(values, to.type)
    except pa.ArrowInvalid as error:
        raise ValueError(f"'{to.name}' does not fit {to.type}: {error}") from None


def _events(batch: pa.RecordBatch, hidden: frozenset[str]) -> pa.RecordBatch:
    """The events as functions see them: standard columns, the payload's keys, then what the source gives alongside
    it."""
    event = batch.column(EVENT)
    columns_of = zip(batch.schema.names, batch.columns, strict=True)
    top = {name: values for name, values in columns_of if name not in hidden}
    columns = {name: values for name, values in top.items() if not name.startswith("_")}
    for f, values in zip(event.type, event.flatten(), strict=True):
        columns.setdefault(f.name, values)
    for name, values in top.items():
        columns.setdefault(name, values)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _dicts(events: pa.RecordBatch) -> Iterator[Fields]:
    fields = [(f.name, f.type) for f in events.schema]
    for values in zip(*(column.to_pylist() for column in events.columns), strict=True):
        named = zip(fields, values, strict=True)
        yield Fields({name: to_python(value, of) for (name, of), value in named if value is not None})


def _pandas(events: pa.RecordBatch) -> Any:
    """Whole numbers and booleans stay what they are where some are NULL."""
    import pandas as pd

    kept: dict[pa.DataType, Any] = {
        pa.int8(): pd.Int8Dtype(),
        pa.int16(): pd.Int16Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    return events.to_pandas(types_mapper=kept.get, integer_object_nulls=True)


def _of_series(series: Any, of: pa.DataType) -> pa.Array:
    if series.dtype != object and not pa.types.is_nested(of):
        return _one_array(pa.array(series, from_pandas=True))
    name = str(series.name)
    return pa.array([None if _is_missing(value) else to_arrow(value, of, name) for value in series], of)


def _is_missing(value: Any) -> bool:
    """None, or what pandas writes for it."""
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _one_array(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _taken(batch: pa.RecordBatch, at: Any) -> pa.RecordBatch:
    return batch if len(at) == batch.num_rows else batch.take(pa.array(at))


def _scattered(parts: list[tuple[Any, pa.Array]]) -> pa.Array:
    """Parts with the places of their values, put together in the order of those places."""
    places = np.concatenate([at for at, _ in parts])
    whole = pa.concat_arrays([values for _, values in parts])
    return whole.take(pa.array(np.argsort(places, kind="stable")))


def _with_problems(batch: pa.RecordBatch, raised: Raised) -> pa.RecordBatch:
    if not raised:
        return batch
    index = batch.schema.get_field_index(PROBLEM)
    problems = batch.column(index).to_pylist()
    for row, message in raised.items():
        problems[row] = {"reason": REASON, "message": message}
    return batch.set_column(index, batch.schema.field(index), pa.array(problems, batch.column(index).type))


def _message(error: Exception, name: str, file: str) -> str:
    """`ValueError: no total (mapper order, shop.py:14)`: the line is the one in the project's file that raised."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = f", {Path(file).name}:{own[-1].lineno}" if own else ""
    return f"{type(error).__name__}: {error} ({name}{line})"
