"""A reference table that is kept by a file: loaded when the file changes, all of it in one commit."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, Where
from headwater.core.model import CommitTag, Version
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.flows.flow import Intent, Landed, Positions, Range
from headwater.formats.base import SparkTable

if TYPE_CHECKING:
    from headwater.sources.reader import Lag

SEED = "seed"
"""Where the positions hold the file's fingerprint."""
LONGEST_LOOK = 1.0
"""Seconds between two looks at the file."""


class SeedInput:
    """One file. `load` makes rows of its content, by a `definition` that is known by its fingerprint."""

    def __init__(
        self, files: Files, name: str, where: Where, load: Callable[[bytes], DataFrame], definition: str
    ) -> None:
        self._definition = definition
        self._files = files
        self._name = name
        self._where = where
        self._load = load
        self._seen: tuple[object, str] | None = None

    def next(self, start: Positions) -> Range | None:
        entry = self._files.entry(self._name)
        stamp = None if entry is None else (entry.bytes, entry.modified)
        if self._seen is None or self._seen[0] != stamp:
            self._seen = (stamp, hashlib.sha256(self._definition.encode() + self._content()).hexdigest()[:16])
        found = self._seen[1]
        return None if start.get(SEED) == found else Range({SEED: found}, due=True)

    def settle(self, start: Positions, range: Range) -> Positions:
        return range.end

    def read(self, start: Positions, end: Positions) -> DataFrame:
        """As it is now: a file that changed once more is loaded once more."""
        return self._load(self._content())

    def inspect(self, start: Positions, end: Positions, error: Exception) -> bool:
        return False

    def committed(self, end: Positions) -> None:
        """Nobody waits for it."""

    def freeze(self) -> None:
        """A file is taken as it is when its turn comes."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        stopping.wait(min(seconds, LONGEST_LOOK))

    def lag(self, start: Positions) -> Lag | None:
        return None

    def close(self) -> None:
        """Nothing is held."""

    def _content(self) -> bytes:
        found = self._files.find(self._name)
        if found is None:
            message = f"there is no file {self._files.join(self._name)}"
            raise TransientError(Code.SOURCE_FILE_MISSING, message, where=self._where)
        return found


class SeedTarget:
    """The table: what a step brings is all it has. `anew`: the first step may drop it for one of other types."""

    def __init__(
        self,
        table: SparkTable,
        layout: Layout,
        where: Where,
        guard: Callable[[], None],
        made: Callable[[], None],
        *,
        anew: bool,
    ) -> None:
        self._table = table
        self._layout = layout
        self._where = where
        self._guard = guard
        self._made = made
        self._anew = anew

    def landed(self, mark: CommitTag) -> Version | None:
        return self._table.landed(mark) if self._table.exists() else None

    def commit(self, df: DataFrame, intent: Intent, mark: CommitTag) -> Landed:
        try:
            make_room(self._table, df, self._layout, self._made)
        except HeadwaterError as error:
            if error.code is not Code.SCHEMA_MISMATCH:
                raise
            if not self._anew or intent.step > 0:
                hint = (
                    f"declare the types with `schema`, or make the table anew: headwater flow rebuild {mark.flow} --yes"
                )
                raise TerminalError(error.code, error.problem.message, where=self._where, hint=hint) from error
            self._guard()
            self._table.drop()
            make_room(self._table, df, self._layout, self._made)
        self._guard()
        return Landed(self._table.replace(df, mark), df.count())


def make_room(table: SparkTable, rows: DataFrame, layout: Layout, made: Callable[[], None]) -> None:
    """The table with a column for everything that the rows have."""
    if not table.exists():
        table.create(rows.schema, layout)
        made()
    else:
        table.evolve(rows.schema)
