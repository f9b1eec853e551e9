"""What kinds of JSON values a key has in different records, and which kind its column is for.

Spark's common type of an object and a text is a text, so that one record in a thousand would make text of them all.
Where nine in ten agree, the column is for them, and the others do not fit it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

SAMPLE = 1000
"""Records that are looked at."""
LARGEST = 256 * 1024
"""Bytes of a record that is looked at."""
AGREED = 0.9
"""So large a part of the values is what the column is for."""
ELEMENT = "[]"
_SHOWN = 60
_NESTED = ("object", "array")
Path = tuple[str, ...]


@dataclass
class _Votes:
    """The kinds of the values at one path, by record."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, value: Any) -> None:
        kind = _kind(value)
        self.counts[kind] += 1
        if kind not in self.examples:
            self.examples[kind] = json.dumps(value, ensure_ascii=False)[:_SHOWN]

    @property
    def winner(self) -> str | None:
        kind, count = self.counts.most_common(1)[0]
        return kind if count >= AGREED * self.counts.total() else None


def agreed(
    found: StructType, texts: Sequence[bytes], infer: Callable[[list[str]], StructType]
) -> tuple[StructType, tuple[str, ...]]:
    """The schema, with the type of the many where records disagree and text was what was left; `infer` tells the type
    of some texts. And a warning for each column that stays text though objects or arrays are among its values."""
    votes: dict[Path, _Votes] = {}
    parsed: list[tuple[str, Any]] = []
    for raw in texts:
        try:
            text = raw.decode("utf-8")
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        parsed.append((text, value))
        for path, one in _values(value, found, ()):
            votes.setdefault(path, _Votes()).add(one)
    mixed = {path: one for path, one in votes.items() if len(one.counts) > 1}
    winners = {path: one.winner for path, one in mixed.items()}
    undecided = [(path, one) for path, one in mixed.items() if winners[path] in (None, "text")]
    notes = tuple(_note(path, one) for path, one in undecided if any(kind in one.counts for kind in _NESTED))
    decided: dict[Path, str | None] = {path: kind for path, kind in winners.items() if kind not in (None, "text")}
    if not decided:
        return found, notes
    of_many = [text for text, value in parsed if _is_of_many(value, found, decided)]
    return _taken(found, infer(of_many), decided, ()), notes


def _values(value: Any, data_type: DataType, path: Path) -> Iterator[tuple[Path, Any]]:
    """The values at the paths that are texts."""
    if value is None:
        return
    if isinstance(data_type, StringType):
        yield path, value
    elif isinstance(data_type, StructType) and isinstance(value, dict):
        for f in data_type.fields:
            yield from _values(value.get(f.name), f.dataType, (*path, f.name))
    elif isinstance(data_type, ArrayType) and isinstance(value, list):
        for one in value:
            yield from _values(one, data_type.elementType, (*path, ELEMENT))


def _is_of_many(value: Any, found: StructType, decided: dict[Path, str | None]) -> bool:
    return all(decided.get(path) in (None, _kind(one)) for path, one in _values(value, found, ()))


def _taken(found: StructType, other: DataType, decided: dict[Path, str | None], path: Path) -> StructType:
    fields = []
    for f in found.fields:
        given = other[f.name].dataType if isinstance(other, StructType) and f.name in other.names else None
        fields.append(StructField(f.name, _type(f.dataType, given, decided, (*path, f.name))))
    return StructType(fields)


def _type(found: DataType, other: DataType | None, decided: dict[Path, str | None], path: Path) -> DataType:
    if other is None:
        return found
    if path in decided:
        return other
    if isinstance(found, StructType):
        return _taken(found, other, decided, path)
    if isinstance(found, ArrayType) and isinstance(other, ArrayType):
        return ArrayType(_type(found.elementType, other.elementType, decided, (*path, ELEMENT)))
    return found


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "text" if isinstance(value, str) else "number"


def _note(path: Path, votes: _Votes) -> str:
    name = ".".join(path).replace(f".{ELEMENT}", ELEMENT)
    kinds = (f"{count} × {kind} ({votes.examples[kind]})" for kind, count in votes.counts.most_common())
    return f"{name} is kept as text, since records disagree: {', '.join(kinds)}"
