"""A lakehouse table by ranges of its versions, each fixed before it is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.logs import get_logger
from headwater.core.model import WEIGHT, Version
from headwater.sources.decoders.base import Decoder
from headwater.sources.decoders.json import TYPED_ROWS, JsonDecoder
from headwater.sources.decoders.typed import TypedDecoder
from headwater.sources.reader import Lag, OffsetRange, Position, ReadableTable, Reader, ReaderContext
from headwater.sources.table.config import TableSource
from headwater.sources.table.positions import TablePosition
from headwater.sources.table.rows import EXTRAS, netted, records
from headwater.spark.errors import reason

BEGUN = "begun.json"
COUNTED = 100
"""Versions behind whose rows are counted; over more of them nobody waits for that."""
_MISSING = ("FileNotFoundException", "FILE_NOT_EXIST", "does not exist")

log = get_logger(__name__)


class TableReader(Reader):
    """The position is a dict; a record's `_position` is `<range>/<version>/<0 or 1>/<hash>/<nth>`: rows that went
    (0) before rows that came (1), equal rows counted."""

    def __init__(self, spec: TableSource, context: ReaderContext) -> None:
        self._spec = spec
        self._context = context
        self._notes = context.notes
        self._decoder = TypedDecoder()
        self._table: ReadableTable | None = None
        self._frozen: Version | None = None
        self._is_frozen = False
        self._described: set[str] = set()

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def raw_decoder(self) -> Decoder:
        return JsonDecoder(TYPED_ROWS)

    @property
    def metadata_columns(self) -> StructType:
        return EXTRAS if self._spec.read == "changes" else StructType()

    # --- ranges

    def next(self, start: Position | None) -> OffsetRange | None:
        table = self._opened()
        known = TablePosition.of(start) or self._begun(table)
        number = 0 if start is None or known is None else known.range + 1
        if known is None:
            return self._whole(table, number)
        after, lost = self._resumed(table, known)
        if after is None:
            return self._whole(table, number, lost)
        waiting = self._waiting(table, after)
        if not waiting and lost is None:
            return None
        taken = waiting[: self._spec.max_versions]
        unsure = False
        if self._spec.read == "appends" and taken:
            sure = table.appending(after, taken)
            taken, unsure = taken[: max(1, sure)], sure == 0
        version = taken[-1] if taken else after
        end = TablePosition(version, _made_at(table, version), after, number, lost=lost, unsure=unsure)
        return OffsetRange(end.to_json(), full=len(waiting) > len(taken))

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        """A range of which only the rows can tell whether some were changed or removed is looked at first."""
        place = TablePosition.of(ahead.end)
        assert place is not None
        if not place.unsure:
            return ahead.end
        place = replace(place, unsure=False)
        try:
            went = self._changes(place).where(F.col(WEIGHT) < 0)
            removed = -sum(row[0] or 0 for row in went.agg(F.sum(WEIGHT)).collect())
        except HeadwaterError:
            raise
        except Exception as error:
            if not _is_missing(error):
                raise
            return replace(place, lost=self._files_are_gone(place, error), skipped=True).to_json()
        return replace(place, removed=self._not_told(place, removed)).to_json()

    def freeze(self) -> None:
        self._frozen, self._is_frozen = self._opened().version(), True

    def lag(self, start: Position | None) -> Lag | None:
        table = self._opened()
        known = TablePosition.of(start) or self._begun(table)
        versions = table.versions_after(None if known is None else known.version)
        told = [] if len(versions) > COUNTED else table.history(len(versions))
        counts = [
            c.rows_added + c.rows_removed for c in told if c.rows_added is not None and c.rows_removed is not None
        ]
        whole = known is not None and len(counts) == len(versions)
        return Lag(records=sum(counts) if whole else None, detail={"versions": len(versions)})

    def _opened(self) -> ReadableTable:
        """The table, if it is still there."""
        if self._table is None:
            assert self._context.tables is not None
            self._table = self._context.tables(self._spec.format, self._spec.path, self._spec.table)
        if not self._table.exists():
            raise TerminalError(
                Code.NO_SUCH_RELATION,
                f"the table {self._spec.table or self._spec.path} has vanished",
                where=self._spec.where,
                hint="put it back, or remove its source from the project; the rows already read stay",
            )
        return self._table

    def _waiting(self, table: ReadableTable, after: Version) -> list[Version]:
        versions = table.versions_after(after)
        if not self._is_frozen:
            return versions
        return versions[: versions.index(self._frozen) + 1] if self._frozen in versions else []

    def _whole(self, table: ReadableTable, number: int, lost: str | None = None) -> OffsetRange | None:
        """The table's whole state, if it has one yet."""
        version = self._frozen if self._is_frozen else table.version()
        if version is None:
            return None
        return OffsetRange(TablePosition(version, _made_at(table, version), None, number, lost=lost).to_json())

    def _begun(self, table: ReadableTable) -> TablePosition | None:
        """Where a new flow begins to read; None: with the whole table."""
        start = self._spec.start
        if start == "present":
            return None
        if start == "latest":
            version = self._latest_when_begun(table)
            return None if version is None else TablePosition(version)
        assert isinstance(start, (int, datetime))
        try:
            return TablePosition(table.version_at(start))
        except TerminalError as error:
            if error.code is not Code.NO_SUCH_VERSION:
                raise
            raise UsageError(
                Code.NO_SUCH_VERSION,
                f"`start` says {start.isoformat() if isinstance(start, datetime) else start}, and"
                f" {self._spec.table or self._spec.path} has no such version, or it has been expired",
                where=self._spec.where,
                hint=_known_versions(table.versions_after(None)),
            ) from error

    def _latest_when_begun(self, table: ReadableTable) -> Version | None:
        """`latest` is the version when the flow was first started, not when its first row comes: it is written down."""
        kept = self._notes.find(BEGUN)
        if kept is not None:
            found: Version | None = json.loads(kept)["version"]
            return found
        version = table.version()
        self._notes.write_atomic(BEGUN, json.dumps({"version": version}))
        return version

    # --- records

    def read(self, start: Position | None, end: Position) -> DataFrame:
        place = TablePosition.of(end)
        assert place is not None
        gone = place.skipped or self._notes.exists(_given_up(place))
        rows = self._nothing() if gone else self._changes(place)
        return records(rows, place, changes=self._spec.read == "changes")

    def _changes(self, place: TablePosition) -> DataFrame:
        table = self._opened()
        try:
            return netted(table.changes(place.after, place.version))
        except TerminalError as error:
            if error.code is not Code.NO_SUCH_VERSION:
                raise
            self._report(_range(place, "have been expired"), error)
            self._notes.write_atomic(_given_up(place), "")
            return self._nothing()

    def _nothing(self) -> DataFrame:
        empty = self._context.spark.createDataFrame([], self._opened().schema())
        return netted(empty.withColumn(WEIGHT, F.lit(1)))

    def inspect(self, start: Position | None, end: Position, error: Exception) -> bool:
        """Files that versions need may be deleted under them: that shows only when they are read."""
        place = TablePosition.of(end)
        assert place is not None
        if not _is_missing(error) or self._notes.exists(_given_up(place)) or self._can_be_read(start, end):
            return False
        self._files_are_gone(place, error)
        self._notes.write_atomic(_given_up(place), "")
        return True

    def _can_be_read(self, start: Position | None, end: Position) -> bool:
        try:
            self.read(start, end).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if not _is_missing(error):
                raise
            return False
        return True

    # --- policies

    def _resumed(self, table: ReadableTable, known: TablePosition) -> tuple[Version | None, str | None]:
        """The version to go on from (None: from nothing), and what is lost before it."""
        name = self._spec.table or self._spec.path
        try:
            table.version_at(known.version)
        except TerminalError as error:
            if error.code is not Code.NO_SUCH_VERSION:
                raise
            there = table.versions_after(None)
            if not there:
                raise
            what = f"{name}: version {known.version} has been expired; the oldest that is left is {there[0]}"
            self._report(what, error)
            return there[0], what
        made_at = _made_at(table, known.version)
        if known.made_at is None or made_at is None or known.made_at == made_at:
            return known.version, None
        what = f"{name} has been dropped and made again after version {known.version}"
        self._report(what)
        return None, what

    def _files_are_gone(self, place: TablePosition, error: Exception) -> str:
        what = _range(place, "can't be read any more: files that they need have been deleted")
        self._report(what, error)
        return what

    def _report(self, what: str, error: Exception | None = None) -> None:
        """Stop, or say it once and go on."""
        if self._spec.on_data_loss == "fail":
            raise TerminalError(
                Code.DATA_LOSS,
                f"changes are gone before they were read: {what}",
                where=self._spec.where,
                hint="set `on_data_loss: continue` to go on without them, or rebuild the flow",
            ) from error
        if what not in self._described:
            self._described.add(what)
            log.warning("changes are gone before they were read", source=self._spec.name, lost=what)

    def _not_told(self, place: TablePosition, removed: int) -> int:
        """Rows were changed or removed, and only new ones are read."""
        if not removed:
            return 0
        what = f"version {place.version} of {self._spec.table or self._spec.path} changed or removed {removed} rows"
        if self._spec.on_change == "fail":
            raise TerminalError(
                Code.SOURCE_ROWS_CHANGED,
                f"{what}, and the source reads new rows only",
                where=self._spec.where,
                hint="read its changes with `read: changes`, or take the new rows alone with `on_change: ignore`",
            )
        log.warning("rows were changed or removed", source=self._spec.name, version=place.version, rows=removed)
        return removed


def _made_at(table: ReadableTable, version: Version) -> str | None:
    found = table.committed_at(version)
    return None if found is None else found.isoformat()


def _given_up(place: TablePosition) -> str:
    return f"gone-{place.range}.json"


def _range(place: TablePosition, why: str) -> str:
    first = "the state" if place.after is None else f"the changes after version {place.after}"
    return f"{first} up to version {place.version} {why}"


def _known_versions(versions: Sequence[Version]) -> str:
    return f"it has {versions[0]} to {versions[-1]}" if versions else "it has no version yet"


def _is_missing(error: BaseException) -> bool:
    text = f"{reason(error)} {error}"
    return any(sign in text for sign in _MISSING)
