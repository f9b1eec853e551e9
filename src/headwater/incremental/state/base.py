"""What is stored of a query's result, so that a change can be taken into it by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, MapType

from headwater.incremental.keys import KeySet
from headwater.incremental.run import Run
from headwater.spark.frames import column

HIDDEN = "_hw_"
"""How the names of hidden columns begin."""
ID = f"{HIDDEN}id"
"""The key of a stored row: never NULL."""
SHOWN = f"{HIDDEN}shown"
"""Whether a stored row is one of the result: HAVING is looked at when it is read."""


class Stored(Protocol):
    """The stored rows."""

    def some(self, keys: KeySet, columns: Sequence[str] = ()) -> DataFrame:
        """Those that have one of some keys: the given columns of them, all if there are none."""

    def all(self, columns: Sequence[str]) -> DataFrame | None:
        """Some columns of all of them, where those are so few that it does not pay to choose."""


class RetractionMismatch(Exception):
    """What the change takes back is not what is stored: the query gave other rows for the same input."""

    def __str__(self) -> str:
        return (
            "the query gives other rows for the same input (ties that its ORDER BY leaves open, sums of floating "
            "point numbers): what the change takes back was not found"
        )


@dataclass(frozen=True)
class Update:
    """What a change does to the stored rows."""

    rows: DataFrame
    """By ID, with DELETED."""
    appends: bool = False
    """All of them are new, and none is deleted: DELETED is not there."""
    taken: pa.Table | None = None
    """The same rows, if this process has them already."""


class StoredResult(ABC):
    """How a query's result is stored and kept."""

    columns: tuple[str, ...]
    """The result's own columns."""
    filtered: bool = False
    """Some stored rows are not of the result: see SHOWN."""

    @abstractmethod
    def whole(self, run: Run) -> DataFrame:
        """All rows to store, computed from the sources' new state."""

    @abstractmethod
    def update(self, run: Run, stored: Stored) -> Update | None:
        """What the change of the sources does; None if nothing."""

    @property
    @abstractmethod
    def description(self) -> str:
        """How it is stored, for people."""


def fingerprint(columns: Sequence[Column]) -> Column:
    """A row as 128 bits; two rows have the same one if they are equal, NULLs and all."""
    exact = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    options = {"ignoreNullFields": "false", "timestampFormat": exact, "timestampNTZFormat": exact}
    return F.md5(F.to_json(F.struct(*(one.alias(f"c{at}") for at, one in enumerate(columns))), options))


def has_floats(df: DataFrame, names: Sequence[str]) -> bool:
    return any(isinstance(df.schema[name].dataType, (DoubleType, FloatType)) for name in names)


def of_row(df: DataFrame, names: Sequence[str], *, about: bool = False) -> Column:
    """The fingerprint of some of a frame's columns; equal maps may have their entries in any order.

    `about`: floating point numbers to nine digits, as the last ones depend on the order in which they were added up.
    """
    values = []
    for name in names:
        value = column(name)
        if isinstance(df.schema[name].dataType, MapType):
            value = F.array_sort(F.map_entries(value))
        elif isinstance(df.schema[name].dataType, (DoubleType, FloatType)):
            value = value + F.lit(0.0)  # a zero with a sign is a zero
            value = F.format_string("%.8e", value) if about else value
        values.append(value)
    return fingerprint(values)
