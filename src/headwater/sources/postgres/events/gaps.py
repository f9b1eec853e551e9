"""Without a transaction column: events in order of their positions, and an eye on every number that is missing.

Positions are given out in order, but transactions end in any order: a number may be missing because its transaction is
still running, or because it was rolled back. What is there is taken at once; each gap stays open, and what shows up in
it is taken when it does. A gap is closed once nobody can fill it any more:

    A position p is missing in a snapshot that shows a higher one. The sequence gave p out before that one, so whoever
    has p was writing by then, and holds a lock on the sequence until its transaction ends (`nextval` takes it before
    it gives the number; an insert holds one on the table). Take the list of all that hold such a lock, any time after.
    Whoever has p is on it, or has ended. When all on the list have ended, look once more: if p's transaction was
    committed, p is there now; if p is not there, it never will be.

The order matters: first the list, then the look at the table. Transaction ids would not do in place of the locks:
a transaction gets its id with its first row, which may be long after `nextval`. A transaction that is prepared (two
phases) gives its locks to one that has its id alone, and is followed there.

What a range holds is written down before it is read: its span, the gaps in it, and what came late. So the same events
are read again after a crash, whatever has come since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, IntegrityError, TerminalError, UsageError
from headwater.core.logs import get_logger
from headwater.core.storage import Files
from headwater.sources.postgres.events.cuts import Leg, NextRange, StorePosition, between, require_same_server
from headwater.sources.postgres.events.database import EventsConnection
from headwater.sources.postgres.events.ranges import Ranges
from headwater.sources.postgres.events.store import POSITION, EventStore

MAX_OPEN = 100_000
"""Ranges of missing positions that are kept in mind; with more, nothing new is taken until some are closed."""
KEPT = 10
"""Batches that are remembered; only the last one is ever read again."""
SINGLY = 500
"""Runs of late positions up to which each is looked up by itself."""
BEFORE = -1
"""The position before the first."""

log = get_logger(__name__)


@dataclass(frozen=True)
class Group:
    """Missing positions that the same transactions may fill."""

    missing: Ranges
    writers: frozenset[str] | None = None
    """Who was writing at some time after they were found missing, and still is; None: not looked yet."""

    def after(self, writing: frozenset[str]) -> Group:
        """With what is known of who is writing now."""
        if self.writers is None:
            return Group(self.missing, writing)
        left = self.writers & writing
        if left != self.writers:  # the one that is gone may have been prepared
            left |= frozenset(one for one in writing if one.startswith("-1/"))
        return Group(self.missing, left)


@dataclass(frozen=True)
class RangeContent:
    """What one range holds, and what is open after it."""

    start: int
    high: int
    gaps: Ranges
    late: Ranges
    rows: int
    late_rows: int
    open: tuple[Group, ...]

    def to_json(self) -> str:
        groups = [[group.missing.to_json(), None if group.writers is None else sorted(group.writers)]
                  for group in self.open]  # fmt: skip
        return json.dumps(
            {
                "start": self.start,
                "high": self.high,
                "gaps": self.gaps.to_json(),
                "late": self.late.to_json(),
                "rows": self.rows,
                "late_rows": self.late_rows,
                "open": groups,
            }
        )

    @staticmethod
    def from_json(text: str) -> RangeContent:
        told = json.loads(text)
        groups = (
            Group(Ranges.from_json(missing), None if writers is None else frozenset(writers))
            for missing, writers in told["open"]
        )
        gaps, late = Ranges.from_json(told["gaps"]), Ranges.from_json(told["late"])
        return RangeContent(told["start"], told["high"], gaps, late, told["rows"], told["late_rows"], tuple(groups))


class ByGaps:
    """The position is `{"high": 4711, "batch": 12, …}`: all up to there is read but for what batch 12 says is open."""

    def __init__(self, store: EventStore, database: EventsConnection, notes: Files) -> None:
        self._store = store
        self._database = database
        self._notes = notes
        self._open: tuple[Group, ...] = ()
        self._open_of: int | None = None
        self._candidate: tuple[StorePosition, RangeContent] | None = None
        self._frozen: int | None = None
        self._described = False
        self._require_order()

    def next(self, start: StorePosition | None) -> NextRange | None:
        identity = self._database.identity
        require_same_server(self._store, start, identity)
        self._require_same_table(start)
        number, high = (0, BEFORE) if start is None else (int(start["batch"]), int(start["high"]))
        limit = self._store.spec.max_rows
        self._load(number)
        late, late_rows = Ranges(), 0
        if self._open:
            writing = self._writing()
            self._open = _merged(group.after(writing) for group in self._open)
            late, late_rows = self._late(limit)
        cut = late_rows >= limit
        if not cut:
            self._open = tuple(one for one in self._open if one.writers or one.missing - late != one.missing)
        rows, newest, gaps = (0, high, Ranges()) if cut or self._holds() else self._new(high, limit - late_rows)
        if rows + late_rows == 0:
            return None
        left = (Group(one.missing - late, one.writers) for one in self._open if cut or one.writers)
        still = (*left, Group(gaps))
        batch = RangeContent(high, newest, gaps, late, rows, late_rows, tuple(one for one in still if one.missing))
        end = {
            "high": newest,
            "batch": number + 1,
            "late": late_rows,
            "table": self._store.oid,
            "system": identity.system,
            "timeline": identity.timeline,
        }
        self._candidate = (end, batch)
        return NextRange(end, rows + late_rows, rows + late_rows >= limit)

    def fix_range(self, start: StorePosition | None, end: StorePosition) -> None:
        if self._candidate is None or self._candidate[0] != end:
            raise IntegrityError(Code.INTERNAL, "a range is to be fixed that was not the last one found")
        self._notes.write_atomic(_path(end["batch"]), self._candidate[1].to_json())

    def legs(self, start: StorePosition | None, end: StorePosition) -> list[Leg]:
        found_now = self._candidate is not None and self._candidate[0] == end
        batch = self._candidate[1] if self._candidate and found_now else _batch(self._notes, int(end["batch"]))
        found = []
        if batch.late_rows:
            low, high = batch.late.runs[0][0], batch.late.runs[-1][1]
            found.append(Leg(low, high, batch.late_rows, lambda low, high: _inside(batch.late.within(low, high))))
        if batch.rows:

            def present(low: int, high: int) -> str:
                gaps = batch.gaps.within(low, high)
                return f"{between(low, high)} AND NOT {POSITION} <@ {gaps.to_sql()}" if gaps else between(low, high)

            low = batch.start + 1
            if batch.gaps and batch.gaps.runs[0][0] == low:  # before the first event there may be a wide gap
                low = batch.gaps.runs[0][1] + 1
            found.append(Leg(low, batch.high, batch.rows, present))
        return found

    def waiting(self, start: StorePosition | None) -> str | None:
        return "TRUE" if start is None else f"{POSITION} > {int(start['high'])}"

    def detail(self) -> Mapping[str, Any]:
        return {"open_gaps": sum(len(group.missing) for group in self._open)}

    def freeze(self) -> None:
        newest = self._database.one(f"SELECT max({POSITION}) FROM ({self._store.bare}) events")[0]
        self._frozen = BEFORE if newest is None else newest

    def committed(self, end: StorePosition) -> None:
        self._notes.delete(_path(int(end["batch"]) - KEPT))

    # --- inside

    def _load(self, number: int) -> None:
        if self._open_of != number:
            self._open = () if number == 0 else _batch(self._notes, number).open
            self._open_of = number

    def _holds(self) -> bool:
        """Whether as many gaps are open as can be."""
        many = sum(len(group.missing) for group in self._open) >= MAX_OPEN
        if many and not self._described:
            log.warning(
                "nothing new is taken: too many positions are missing while a transaction that may fill them runs",
                source=self._store.spec.name,
                writers=sorted({one for group in self._open for one in group.writers or ()})[:10],
                hint=f"end it, or add a transaction column: headwater source prepare {self._store.spec.name}",
            )
        self._described = many
        return many

    def _writing(self) -> frozenset[str]:
        """Whoever may have a position that is not there yet."""
        if self._store.sequences:
            which = "locktype = 'relation' AND relation = ANY(%s::oid[]) AND mode <> ALL(%s)"
            values: list[Any] = [list(self._store.writers), ["AccessShareLock", "RowShareLock"]]
        else:  # nobody knows where the numbers come from: everybody may have one
            which, values = "(locktype = 'virtualxid' OR virtualtransaction LIKE '-1/%%')", []
        rows = self._database.ask(
            "SELECT DISTINCT virtualtransaction FROM pg_locks WHERE pid IS DISTINCT FROM pg_backend_pid()"
            f" AND (database IS NULL OR database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
            f" AND {which}",
            values,
        )
        return frozenset(row[0] for row in rows)

    def _late(self, limit: int) -> tuple[Ranges, int]:
        """What has shown up in the gaps."""
        runs = [run for group in self._open for run in group.missing.runs]
        rows = (
            f"SELECT {POSITION} AS p FROM unnest(%s::int8[], %s::int8[]) gap(low, high)"
            f" JOIN ({self._store.bare}) events ON {POSITION} BETWEEN low AND high ORDER BY 1 LIMIT {limit}"
        )
        count, found = self._database.one(
            f"SELECT count(*), range_agg(int8range(p, p, '[]'))::text FROM ({rows}) late",
            ([low for low, _ in runs], [high for _, high in runs]),
        )
        return Ranges.from_sql(found), count

    def _new(self, high: int, limit: int) -> tuple[int, int, Ranges]:
        """How many there are beyond a position, up to which one, and which are missing before it."""
        rows = (
            f"SELECT {POSITION} AS p FROM ({self._store.bare}) events WHERE {between(high + 1, self._frozen)}"
            f" ORDER BY {POSITION} LIMIT {limit}"
        )
        if self._store.numbered_once:
            count, first, newest = self._database.one(f"SELECT count(*), min(p), max(p) FROM ({rows}) found")
            if count and newest - first + 1 == count:  # nothing is missing between the two, as in nearly all backlogs
                return count, newest, Ranges.of([(high + 1, first - 1)] if first > high + 1 else [])
        before = f"SELECT p, lag(p, 1, {high}::int8) OVER (ORDER BY p) AS before FROM ({rows}) found"
        count, newest, gaps = self._database.one(
            "SELECT count(*), max(p), (range_agg(int8range(before + 1, p)) FILTER (WHERE p > before + 1))::text"
            f" FROM ({before}) steps"
        )
        return count, high if newest is None else newest, Ranges.from_sql(gaps)

    def _require_order(self) -> None:
        """What the proof above stands on."""
        store, spec = self._store, self._store.spec
        hint = f"add a transaction column: headwater source prepare {spec.name}"
        if self._database.identity.standby:
            raise UsageError(
                Code.UNSUPPORTED,
                f"{store.name} is read from a standby, which doesn't know the writers on the primary",
                where=spec.where,
                hint=f"read the primary, or {hint}",
            )
        if not store.ordinary:
            raise UsageError(
                Code.UNSUPPORTED,
                f"{store.name} is not a table, so its writers can't be observed",
                where=spec.where,
                hint="name the table, or a column with the transaction in `columns.transaction`",
            )
        for sequence in store.sequences:
            if sequence.cache > 1:
                raise UsageError(
                    Code.UNSUPPORTED,
                    f"{sequence.name} gives out positions {sequence.cache} at a time, for later use in any order",
                    where=spec.where,
                    hint=f"ALTER SEQUENCE {sequence.name} CACHE 1, or {hint}",
                )
        first = self._database.one(f"SELECT min({POSITION}) FROM ({store.bare}) events")[0]
        if first is not None and first < 0:
            raise UsageError(
                Code.SOURCE_MISMATCH,
                f"{store.name} has negative positions, down to {first}",
                where=spec.where,
                hint=hint,
            )

    def _require_same_table(self, start: StorePosition | None) -> None:
        if start is not None and "snapshot" in start:
            raise TerminalError(
                Code.SOURCE_CHANGED,
                f"{self._store.name} was read by its transaction column so far",
                where=self._store.spec.where,
                hint="name it in `columns.transaction` again, or reset the flow",
            )
        if start is None or start["table"] == self._store.oid:
            return
        raise TerminalError(
            Code.SOURCE_CHANGED,
            f"{self._store.name} is another table than the one that the flow has read so far",
            where=self._store.spec.where,
            hint="its positions may start over: `headwater flow reset NAME` reads all of it, and `deduplicate_by`"
            " leaves out what the topic has",
        )


def open_gaps(notes: Files, position: StorePosition) -> Ranges:
    """What was missing after a position, and may still come."""
    return Ranges.of(run for group in _batch(notes, int(position["batch"])).open for run in group.missing.runs)


def _batch(notes: Files, number: int) -> RangeContent:
    text = notes.find(_path(number))
    try:
        if text is None:
            raise ValueError("it is gone")
        return RangeContent.from_json(text.decode())
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityError(
            Code.LEDGER_CORRUPT,
            f"the batch {notes.join(_path(number))} can't be read: {error}",
            hint="put it back from a copy, or reset the flow",
        ) from error


def _merged(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Those that wait for the same are one."""
    found: dict[frozenset[str], list[tuple[int, int]]] = {}
    for group in groups:
        found.setdefault(group.writers or frozenset(), []).extend(group.missing.runs)
    return tuple(Group(Ranges.of(runs), writers) for writers, runs in found.items())


def _inside(ranges: Ranges) -> str:
    if len(ranges) > SINGLY:
        low, high = ranges.runs[0][0], ranges.runs[-1][1]
        return f"{between(low, high)} AND {POSITION} <@ {ranges.to_sql()}"
    return "(" + (" OR ".join(between(low, high) for low, high in ranges.runs) or "FALSE") + ")"


def _path(number: int) -> str:
    return f"gaps/{number:012d}.json"
