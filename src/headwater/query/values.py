"""Arrow's values as Python's: what `Result` hands out, and how a time is written that Python has no value for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Spell = Callable[[str], Any]
"""What stands for a date or timestamp that Python has no value for: it is given the time as text."""
Has = Callable[[int, pa.DataType], bool]
"""Whether Python has a value for a date or timestamp, of which it is given the number."""

_CYCLE = timedelta(days=146_097)
"""400 years of the Gregorian calendar."""
_FIRST_OF_A_CYCLE = date(2000, 1, 1)
_EPOCH = date(1970, 1, 1)
_DAY = timedelta(days=1)
_ENDS = {
    "day": ((date.min - _EPOCH).days, (date.max - _EPOCH).days),
    "us": tuple((end - datetime(1970, 1, 1)) // timedelta(microseconds=1) for end in (datetime.min, datetime.max)),
}


def has_value(number: int, kind: pa.DataType) -> bool:
    """Python's years are 1 to 9999."""
    first, last = _ENDS["day" if pa.types.is_date32(kind) else "us"]
    return first <= number <= last


def has_moment(number: int, kind: pa.DataType) -> bool:
    """For output: a timestamp without a zone, which would be taken for one in the machine's, is none."""
    return bool(pa.types.is_date32(kind) or kind.tz) and has_value(number, kind)


def values_of(array: pa.Array, spell: Spell, has: Has = has_value) -> list[Any]:
    """The values of a column. A map is a dict, or a list of pairs where Python can't look its keys up."""
    kind = array.type
    if pa.types.is_nested(kind):
        if _has_twins(kind) or _goes_beyond(array, has):
            return [_value(one, spell, has) for one in array]
        return [_plain(value, kind) for value in array.to_pylist()]
    return [_value(one, spell, has) for one in array] if _goes_beyond(array, has) else list(array.to_pylist())


def told_apart(names: Sequence[str]) -> list[str]:
    """Of columns with one name, as two tables of a join have them, the second gets a number: id, id_2."""
    taken, given, found = set(names), set[str](), list[str]()
    next_number: dict[str, int] = {}
    for name in names:
        own = name
        while own in given or (own != name and own in taken):
            number = next_number.get(name, 2)
            own, next_number[name] = f"{name}_{number}", number + 1
        given.add(own)
        found.append(own)
    return found


def _plain(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return _map([(_plain(k, kind.key_type), _plain(v, kind.item_type)) for k, v in value], kind)
    if pa.types.is_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    return value


def _value(one: pa.Scalar, spell: Spell, has: Has) -> Any:
    kind = one.type
    if not one.is_valid:
        return None
    if pa.types.is_map(kind):
        pairs = zip(one.values.field(0), one.values.field(1), strict=True)
        return _map([(_value(key, spell, has), _value(item, spell, has)) for key, item in pairs], kind)
    if pa.types.is_list(kind):
        return [_value(item, spell, has) for item in one.values]
    if pa.types.is_struct(kind):
        names = told_apart([field.name for field in kind])
        return {name: _value(one[at], spell, has) for at, name in enumerate(names)}
    if _is_time(kind) and not has(one.value, kind):
        return spell(_written(one.value, kind))
    return one.as_py()


def _map(pairs: list[tuple[Any, Any]], kind: pa.DataType) -> Any:
    return pairs if pa.types.is_nested(kind.key_type) else dict(pairs)


def _has_twins(kind: pa.DataType) -> bool:
    """Whether two fields of a struct have one name."""
    fields = [kind.field(at) for at in range(kind.num_fields)]
    names = [field.name for field in fields] if pa.types.is_struct(kind) else []
    return len(set(names)) < len(names) or any(_has_twins(field.type) for field in fields)


def _goes_beyond(array: pa.Array, has: Has) -> bool:
    """Whether a time may be among the values that Python has none for."""
    kind = array.type
    if _is_time(kind):
        ends = pc.min_max(array.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()))
        low, high = ends["min"].as_py(), ends["max"].as_py()
        return low is not None and not (has(low, kind) and has(high, kind))
    return any(_goes_beyond(child, has) for child in _children(array))


def _children(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(array.type):
        yield from array.flatten()
    elif pa.types.is_map(array.type):
        yield from (array.keys, array.items)
    elif pa.types.is_list(array.type):
        yield array.flatten()


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or (pa.types.is_timestamp(kind) and kind.unit == "us"))


def _written(value: int, kind: pa.DataType) -> str:
    """A time in ISO 8601, whose years have a sign where they have not four digits, as Spark writes them."""
    micros = timedelta(microseconds=0)
    if pa.types.is_date32(kind):
        days = value
    else:
        days, rest = divmod(value, _DAY // timedelta(microseconds=1))
        micros = timedelta(microseconds=rest)
    cycles, rest = divmod(days - (_FIRST_OF_A_CYCLE - _EPOCH).days, _CYCLE.days)
    day = _FIRST_OF_A_CYCLE + timedelta(days=rest)
    year = day.year + 400 * cycles
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    text = f"{sign}{abs(year):04d}{day.isoformat()[4:]}"
    if pa.types.is_date32(kind):
        return text
    clock = (datetime.combine(date.min, time()) + micros).time()
    return f"{text}T{clock.isoformat()}{'Z' if kind.tz else ''}"
