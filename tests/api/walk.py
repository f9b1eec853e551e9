"""The public Python API, found by looking at it: its classes, their names, what these give."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal

import headwater.core
import headwater.operations
import headwater.runner
import headwater.views
from headwater.api.lake import Lake
from headwater.api.relations import ForeignTable, MaterializedView, Relation, TopicOrTable
from headwater.core.record import Record
from headwater.operations.parquet_files import RelationFiles
from headwater.query.record_list import Listing
from headwater.query.result import Result
from headwater.query.settings import SqlSettings

ACTING = (Lake, Relation, TopicOrTable, MaterializedView, ForeignTable, RelationFiles, Result, Listing, SqlSettings)
"""What does something. Alongside these there are records, which are data."""
ALIASES = {"arrow", "pandas", "polars", "read", "rows"}
"""Earlier names, which go on working."""


@dataclass(frozen=True)
class Name:
    """A public name of a class."""

    owner: type
    name: str
    kind: Literal["method", "property"]
    value: Any
    """The function behind it; of a field its annotation."""

    @property
    def gives(self) -> str:
        """What it gives, as it is annotated."""
        if not callable(self.value):
            return str(self.value)
        return str(self.value.__annotations__.get("return", "nothing is said"))

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"


def names_of(owner: type) -> Iterator[Name]:
    """Its public names, those that it inherits from our own classes too."""
    seen: set[str] = set()
    for base in inspect.getmro(owner):
        if not base.__module__.startswith("headwater"):
            continue
        annotations = inspect.get_annotations(base) if is_dataclass(base) else {}
        for name, value in {**annotations, **vars(base)}.items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if name in annotations:
                yield Name(owner, name, "property", annotations[name])
            elif isinstance(value, (property, functools.cached_property)):
                yield Name(owner, name, "property", value.fget if isinstance(value, property) else value.func)
            else:
                yield Name(owner, name, "method", inspect.unwrap(getattr(value, "__func__", value)))


def records() -> list[type[Record]]:
    """All of them, wherever they are made."""
    for package in (headwater.core, headwater.operations, headwater.runner, headwater.views):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found, waiting = list[type[Record]](), [Record]
    while waiting:
        below = waiting.pop().__subclasses__()
        found += below
        waiting += below
    return [one for one in found if one.__module__.startswith("headwater")]
