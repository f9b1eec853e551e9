"""One shape for all operators: the change of a result, from the changes and the old and new states of its inputs.

The states of an inner operator are not stored: they are the sub-query over the sources' versions, restricted to the
keys that a change touches, as far down as the keys can be followed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.formats.key_filter import Near
    from headwater.incremental.keys import KeySet
    from headwater.incremental.run import Run


class Moment(Enum):
    """Which state of the sources: before the change, or after it."""

    OLD = "old"
    NEW = "new"


class Strategy(Enum):
    """How an operator makes its change."""

    LINEAR = "linear"
    """The change flows through."""
    KEY_LOCAL = "key-local"
    """The keys that changed are computed anew, before and after."""
    WHOLE = "whole"
    """Everything is computed anew, before and after."""


class Sources(Protocol):
    """The relations that a query reads, at two versions each."""

    def rows(self, source: str, at: Moment) -> DataFrame: ...

    def near(self, source: str, at: Moment, near: Near) -> DataFrame | None:
        """Exactly the rows that have in each column one of its values, where they can be looked up at little cost."""

    def change(self, source: str) -> DataFrame | None:
        """Its rows with WEIGHT; None where nothing has changed."""


class Operator(ABC):
    """A part of a query. Its columns have names of their own, unlike those of any other part."""

    columns: tuple[str, ...]
    inputs: tuple[Operator, ...] = ()

    @property
    @abstractmethod
    def strategy(self) -> Strategy: ...

    @property
    @abstractmethod
    def title(self) -> str:
        """What it does, in a line, for people."""

    @abstractmethod
    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        """Its result; with `keys` at least the rows that have one of them, and as few others as can be."""

    @abstractmethod
    def change(self, run: Run) -> DataFrame | None:
        """The change of its result: its columns and WEIGHT; None where no input has changed."""

    def sources(self) -> list[str]:
        """What it reads, each once."""
        return list(dict.fromkeys(name for one in self.inputs for name in one.sources()))

    def walk(self) -> list[Operator]:
        """It and all that is below it, from the top."""
        return [self, *(below for one in self.inputs for below in one.walk())]


def named(columns: Sequence[str]) -> str:
    """Column names for people: without what makes them unique."""
    return ", ".join(shown(name) for name in columns)


def shown(name: str) -> str:
    return name.rsplit("#", 1)[0]
