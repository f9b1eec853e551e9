"""A reference table that is kept by a file: loaded when the file changes, all of it in one commit."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from pyspark.sql import DataFrame

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, Where
from headwater.core.model import CommitTag
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.flows.flow import FlowInput
from headwater.flows.ledger import Positions
from headwater.flows.step import Landed, Step, Target
from headwater.formats.spark_table import SparkTable
from headwater.sources.reader import OffsetRange

SEED = "seed"
"""Where the positions hold the file's fingerprint."""
LONGEST_LOOK = 1.0
"""Seconds between two looks at the file."""


class SeedInput(FlowInput[DataFrame]):
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

    def next(self, start: Positions) -> OffsetRange | None:
        entry = self._files.entry(self._name)
        stamp = None if entry is None else (entry.bytes, entry.modified)
        if self._seen is None or self._seen[0] != stamp:
            self._seen = (stamp, hashlib.sha256(self._definition.encode() + self._content()).hexdigest()[:16])
        content = self._seen[1]
        return None if start.get(SEED) == content else OffsetRange({SEED: content}, due=True)

    def read(self, start: Positions, end: Positions) -> DataFrame:
        """As it is now: a file that changed once more is loaded once more."""
        return self._load(self._content())

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        stopping.wait(min(seconds, LONGEST_LOOK))

    def _content(self) -> bytes:
        content = self._files.find(self._name)
        if content is None:
            message = f"there is no file {self._files.join(self._name)}"
            raise TransientError(Code.SOURCE_FILE_MISSING, message, where=self._where)
        return content


class SeedTarget(Target[DataFrame]):
    """The table: what a step brings is all it has. `rebuilds`: the first step may drop it for one of other types."""

    def __init__(
        self,
        table: SparkTable,
        layout: Layout,
        where: Where,
        guard: Callable[[], None],
        made: Callable[[], None],
        *,
        rebuilds: bool,
    ) -> None:
        self._table = table
        self._layout = layout
        self._where = where
        self._guard = guard
        self._made = made
        self._rebuilds = rebuilds

    def landed(self, commit_tag: CommitTag) -> bool:
        return self._table.exists() and self._table.landed(commit_tag) is not None

    def commit(self, rows: DataFrame, step: Step) -> Landed:
        try:
            make_room(self._table, rows, self._layout, self._made)
        except HeadwaterError as error:
            if error.code is not Code.SCHEMA_MISMATCH:
                raise
            if not self._rebuilds or step.intent.step > 0:
                rebuild = f"headwater flow rebuild {step.flow} --yes"
                hint = f"declare the types with `schema`, or rebuild the table: {rebuild}"
                raise TerminalError(error.code, error.problem.message, where=self._where, hint=hint) from error
            self._guard()
            self._table.drop()
            make_room(self._table, rows, self._layout, self._made)
        self._guard()
        return Landed(self._table.replace(rows, step.commit_tag), rows.count())


def make_room(table: SparkTable, rows: DataFrame, layout: Layout, made: Callable[[], None]) -> None:
    """The table with a column for everything that the rows have."""
    if not table.exists():
        table.create(rows.schema, layout)
        made()
    else:
        table.evolve(rows.schema)
