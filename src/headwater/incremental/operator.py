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

    from headwater.formats.key_filter import KeyFilter
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
    """The keys that changed are recomputed, before and after."""
    WHOLE = "whole"
    """Everything is recomputed, before and after."""


class Sources(Protocol):
    """The relations that a query reads, at two versions each. A refresh makes one for its two versions; the operators
    at the bottom of the query (`Scan`, and functions that are called) read from it."""

    def rows(self, source: str, at: Moment) -> DataFrame:
        """All rows of a relation. Called where no keys narrow what is read, or they can't be looked up."""

    def key_filter(self, source: str, at: Moment, key_filter: KeyFilter) -> DataFrame | None:
        """Exactly the rows that have in each column one of its values, where they can be looked up at little cost.
        Called before `rows`, where an operator above has asked for some keys; on None `rows` is called."""

    def change(self, source: str) -> DataFrame | None:
        """Its rows with WEIGHT; None where nothing has changed. Called once for each place that reads the relation."""


class Operator(ABC):
    """A part of a query. Its columns have names of their own, unlike those of any other part.

    The translation makes the operators of a view once, when its query is compiled. Each refresh then asks the operator
    at the top for its change, in a `Run` of its own, and each operator asks those below.
    """

    columns: tuple[str, ...]
    inputs: tuple[Operator, ...] = ()

    @property
    @abstractmethod
    def strategy(self) -> Strategy:
        """How it makes its change. `Run` asks, to know what to compute once and keep; `mv explain` shows it."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What it does, in a line, for people. Called by `mv explain` and by errors that name a part of the query."""

    @abstractmethod
    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        """Its result; with `keys` at least the rows that have one of them, and as few others as can be. Called by the
        operator above, when its own change needs a state of its inputs, and by a full refresh, from the top."""

    @abstractmethod
    def change(self, run: Run) -> DataFrame | None:
        """The change of its result: its columns and WEIGHT; None where no input has changed. `Run.change` calls it,
        once in a run; operators ask for the changes of their inputs by that."""

    def sources(self) -> list[str]:
        """What it reads, each once. Called by the check of what a table only looks up (`tables/lookups.py`)."""
        return list(dict.fromkeys(name for one in self.inputs for name in one.sources()))

    def walk(self) -> list[Operator]:
        """It and all that is below it, from the top. Called by what looks at a whole query: `mv explain`, the check of
        lookups, the estimate of costs."""
        return [self, *(below for one in self.inputs for below in one.walk())]


def named(columns: Sequence[str]) -> str:
    """Column names for people: without what makes them unique."""
    return ", ".join(shown(name) for name in columns)


def shown(name: str) -> str:
    return name.rsplit("#", 1)[0]
