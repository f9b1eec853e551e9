"""One reading of a slot for all flows of this process: what it gives is kept until each has had its part."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import HeadwaterError
from headwater.core.logs import get_logger
from headwater.sources.postgres.cdc.changes import Capture
from headwater.sources.postgres.cdc.database import CdcDatabase, Lost, show_lsn
from headwater.sources.postgres.cdc.relations import TableShape, TypeCatalog
from headwater.sources.postgres.cdc.spool import Spool

if TYPE_CHECKING:
    import psycopg

AT_ONCE = 20_000
"""Changes after which one look at the slot ends, with the transaction that reaches it."""
FETCHED = 2000
"""Messages that are brought over at a time."""
ROOM = 512 * 1024 * 1024
"""Bytes that may wait for flows that are behind; beyond them they read the log again."""
MOST_BATCHES = 1000
IN_MEMORY = 64 * 1024 * 1024
"""Of these so many in memory, and the others in files."""
PATIENCE = 5.0
"""Seconds for which a flow that is ahead waits for those that are behind, when there is no more room."""

T = TypeVar("T")

log = get_logger(__name__)

_CHANGES = (
    "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)"
)


@dataclass
class SlotBatch:
    """What one look at the slot gave: all transactions committed after `start`, up to `end`."""

    start: int
    end: int
    spools: dict[str, Spool] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(spool.bytes for spool in self.spools.values())

    def drop(self) -> None:
        for spool in self.spools.values():
            spool.drop()


@dataclass(frozen=True)
class WaitingChanges:
    """Changes of one table that wait."""

    end: int
    rows: int
    bytes: int
    full: bool


@dataclass(frozen=True)
class _Reading:
    """A flow that reads here, and what it has had."""

    table: str
    done: int


class Hub:
    """Reads a temporary copy of the source's slot, so that the slot itself stands still until all has landed."""

    def __init__(self, database: CdcDatabase) -> None:
        self.database = database
        self._lock = threading.RLock()
        self._moved = threading.Condition(self._lock)
        self._connection: psycopg.Connection[Any] | None = None
        self._slot: str | None = None
        self._types = TypeCatalog()
        self._relations: dict[str, TableShape] = {}
        self._readings: dict[str, _Reading] = {}
        self._batches: list[SlotBatch] = []
        self._covered: dict[str, int] = {}
        """Followed table → from where on its changes are at hand."""
        self._tip = 0
        self._seen_end = -1
        self.connections = 0
        """How many have ended: the next one may lead to another server."""
        self.users = 0

    # --- what flows ask for

    def next(
        self, flow: str, table: str, after: int, rows: int, until: int | None
    ) -> tuple[WaitingChanges | None, int]:
        """What waits of a table after a place, up to about so many rows, and how far the log has been looked through.

        Looks on until that is enough, or the log has been looked through up to `until` (None: to where it ends now, so
        that it ends at all while others write).
        """
        with self._lock:
            self._readings[flow] = _Reading(table, after)
            self._reach(table, after)
            end = self.ask(self.database.log_end) if until is None else until
            found = self._waiting(table, after, rows)
            while (found is None or not found.full) and max(self._tip, self._seen_end) < end:
                if not self._pump(table, after):
                    self._require_log(end)
                found = self._waiting(table, after, rows)
            return found, self._tip

    def read(self, flow: str, table: str, after: int, end: int) -> Generator[pa.RecordBatch]:
        """The records of a table that were committed after a place and up to another.

        All others wait until it has come to its end or is closed.
        """
        with self._lock:
            self._readings[flow] = _Reading(table, after)
            self._reach(table, after)
            while self._tip < end:
                if not self._pump(table, after) and self._tip < end:
                    self._require_log(end)
            spools = [one.spools[table] for one in self._batches if _has(one, table, after)]
            for spool in spools:
                for batch in spool.batches():
                    inside = pc.and_(pc.greater_equal(batch["lsn"], after), pc.less(batch["lsn"], end))
                    kept = batch.filter(inside)
                    if kept.num_rows:
                        yield kept

    def relation(self, id: str) -> TableShape:
        return self._relations[id]

    def moved(self, flow: str, to: int) -> None:
        """A flow has had everything up to here."""
        with self._lock:
            reading = self._readings.get(flow)
            if reading is not None:
                self._readings[flow] = _Reading(reading.table, max(reading.done, to))
                self._forget()
                self._moved.notify_all()

    def leave(self, flow: str) -> None:
        with self._lock:
            self._readings.pop(flow, None)
            self._forget()
            self._moved.notify_all()

    def ask(self, question: Callable[[psycopg.Connection[Any]], T]) -> T:
        """A short question to the server, over the connection that is there."""
        with self._lock, self._talking():
            return question(self._connected())

    def has_grown(self) -> bool:
        """Whether the log has more than when it was last read."""
        return self.ask(self.database.log_end) != self._seen_end

    def close(self) -> None:
        with self._lock:
            self._let_go()

    # --- reading the log

    def _reach(self, table: str, after: int) -> None:
        """Have a table's changes from a place on: where they are not at hand (any more), from the slot itself."""
        if self._slot is not None and self._connection is not None and not self._connection.closed:
            if after >= self._covered.get(table, self._tip):
                return
            self._let_go()
        with self._talking():
            connection = self._connected()
            slot = self.database.copy_slot(connection)
            state = self.database.look(connection, slot)
        if state is None or state.confirmed is None:
            raise Lost(f"the replication slot '{self.database.slot}' is gone")
        self._slot, self._tip = slot, state.confirmed
        if after < self._tip:
            raise Lost(
                f"the replication slot '{self.database.slot}' begins at {show_lsn(self._tip)},"
                f" and this flow has read up to {show_lsn(after)}"
            )

    def _pump(self, table: str, after: int) -> bool:
        """Look at the slot once, for a flow of a table at a place; whether the log had grown."""
        self._make_room(table, after)
        with self._talking():
            connection = self._connected()
            end = self.database.log_end(connection)
            if end == self._seen_end:
                return False
            batch = SlotBatch(self._tip, self._tip)
            try:
                messages = self._capture(connection, batch)
                state = self.database.look(connection, self._slot)
            except BaseException:
                batch.drop()
                raise
            assert state is not None and state.confirmed is not None
            batch.end = self._tip = max(self._tip, state.confirmed)
            for spool in batch.spools.values():
                spool.end()
            if batch.spools:
                self._batches.append(batch)
            # Cut off by its size there may be more up to the same end.
            self._seen_end = -1 if messages >= AT_ONCE else end
            return True

    def _capture(self, connection: psycopg.Connection[Any], batch: SlotBatch) -> int:
        """Put what is new into the batch; how many messages there were."""
        floors: dict[str, int] = {}
        for reading in self._readings.values():
            floors[reading.table] = min(reading.done, floors.get(reading.table, reading.done))
        self._covered = {table: self._covered.get(table, max(floor, self._tip)) for table, floor in floors.items()}

        def spool_of(table: str) -> Spool:
            if table not in batch.spools:
                held = sum(spool.held for one in self._batches for spool in one.spools.values())
                batch.spools[table] = Spool() if held < IN_MEMORY else Spool(in_memory=0)
            return batch.spools[table]

        def learn(relation: TableShape) -> None:
            self._relations[relation.id] = relation

        capture = Capture(connection, self._types, floors, spool_of, learn)
        messages = 0
        with connection.transaction(), connection.cursor("changes", binary=True) as cursor:
            cursor.execute(_CHANGES, [self._slot, AT_ONCE, self.database.publication])
            while fetched := cursor.fetchmany(FETCHED):
                messages += len(fetched)
                capture.take(row[0] for row in fetched)
        return messages

    def _require_log(self, end: int) -> None:
        """A fixed range must be in the log."""
        if self.ask(self.database.log_end) < end:
            raise Lost(f"the server's log ends before {show_lsn(end)}, which this flow was about to read")
        time.sleep(0.01)

    def _waiting(self, table: str, after: int, rows: int) -> WaitingChanges | None:
        """Whole batches, until there are enough rows in them."""
        found: WaitingChanges | None = None
        for batch in self._batches:
            if _has(batch, table, after):
                spool = batch.spools[table]
                taken = spool.rows if found is None else found.rows + spool.rows
                size = spool.bytes if found is None else found.bytes + spool.bytes
                found = WaitingChanges(batch.end, taken, size, full=taken >= rows)
                if found.full:
                    break
        return found

    # --- connections

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._let_go()
            self._connection = self.database.connect()
        return self._connection

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """psycopg's errors become ours, and the connection that they came from is let go of."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            self._let_go()
            raise self._translated(error) from error
        except HeadwaterError:
            self._let_go()
            raise

    def _translated(self, error: psycopg.Error) -> Exception:
        state, told, database = error.sqlstate or "", str(error), self.database
        if state == "55000" and ("can no longer" in told or "invalidated" in told):
            return Lost(f"the replication slot '{database.slot}' was invalidated")
        if state == "42704" and "slot" in told:
            return Lost(f"the replication slot '{database.slot}' is gone")
        if state == "42704" and "publication" in told:
            return Lost(f"the publication '{database.publication}' was not there when a change was made")
        if state == "58P01" and "WAL" in told:
            return Lost(f"the server has removed a part of its log: {told.splitlines()[0]}")
        return database.translated(error)

    # --- what is kept

    def _make_room(self, table: str, after: int) -> None:
        """Where too much waits: let go of what this flow does not need, after others had time to take it."""
        deadline = time.monotonic() + PATIENCE
        while len(self._batches) > MOST_BATCHES or sum(one.bytes for one in self._batches) > ROOM:
            others = [one for one in self._batches if not _has(one, table, after)]
            if not others:
                return
            if (left := deadline - time.monotonic()) > 0 and self._moved.wait(left):
                continue
            dropped = others[0]
            self._batches.remove(dropped)
            dropped.drop()
            for name, place in self._covered.items():
                self._covered[name] = max(place, min(dropped.end, after) if name == table else dropped.end)
            log.info("a flow is far behind and will read the log again", slot=self.database.slot)

    def _forget(self) -> None:
        """What every flow has had, or nobody waits for."""
        needed = min((reading.done for reading in self._readings.values()), default=self._tip)
        while self._batches and self._batches[0].end <= needed:
            self._batches.pop(0).drop()
        had = min(needed, self._tip)
        self._covered = {table: max(place, had) for table, place in self._covered.items()}

    def _let_go(self) -> None:
        connection, self._connection, self._slot = self._connection, None, None
        for batch in self._batches:
            batch.drop()
        self._batches, self._covered, self._seen_end = [], {}, -1
        if connection is not None:
            self.connections += 1
            connection.close()


def _has(batch: SlotBatch, table: str, after: int) -> bool:
    spool = batch.spools.get(table)
    return batch.end > after and spool is not None and spool.last >= after


_hubs: dict[tuple[str, str, str], Hub] = {}
_opening = threading.Lock()


def open_hub(database: CdcDatabase) -> Hub:
    """The one of this process for a source's slot."""
    with _opening:
        hub = _hubs.setdefault(database.key, Hub(database))
        hub.users += 1
        return hub


def close_hub(hub: Hub) -> None:
    with _opening:
        hub.users -= 1
        if hub.users <= 0:
            _hubs.pop(hub.database.key, None)
            hub.close()
