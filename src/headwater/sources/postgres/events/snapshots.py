"""With a transaction column: a range is what one snapshot of the database sees and an earlier one did not.

A snapshot says of every transaction whether its work can be seen. A row holds the number of the transaction that wrote
it (the outermost one, so savepoints play no part). Thus the rows between two snapshots are exactly those of the
transactions that ended between them, in whatever order they began, and a row that is still being written is between a
later pair. Which rows those are does not depend on when they are read: that a transaction is seen by a snapshot never
changes. Work that was rolled back leaves no rows, so nothing is ever waited for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, TerminalError
from headwater.core.logs import get_logger
from headwater.core.storage import Files
from headwater.sources.postgres.events.cuts import Leg, NextRange, StorePosition, between, require_same_server
from headwater.sources.postgres.events.database import EventsConnection
from headwater.sources.postgres.events.gaps import open_gaps
from headwater.sources.postgres.events.store import POSITION, TRANSACTION, EventStore

_TEXT = re.compile(r"^(\d+):(\d+):([\d,]*)$")

log = get_logger(__name__)


@dataclass(frozen=True)
class TransactionSnapshot:
    """Sees every transaction below `end` but those that were running."""

    begin: int
    end: int
    running: tuple[int, ...] = ()

    @staticmethod
    def parse(text: str) -> TransactionSnapshot:
        found = _TEXT.match(text)
        if found is None:
            raise ValueError(f"'{text}' is no snapshot")
        return TransactionSnapshot(int(found[1]), int(found[2]), tuple(int(one) for one in found[3].split(",") if one))

    def __str__(self) -> str:
        return f"{self.begin}:{self.end}:{','.join(map(str, self.running))}"

    @property
    def seen(self) -> str:
        """The condition for rows that it sees."""
        return f"({TRANSACTION} < '{self.end}'::xid8 AND {TRANSACTION} <> ALL({self._running}))"

    @property
    def unseen(self) -> str:
        """The condition for rows that it does not see; in a form that an index answers."""
        if not self.running:
            return f"{TRANSACTION} >= '{self.end}'::xid8"
        return f"({TRANSACTION} >= '{self.end}'::xid8 OR {TRANSACTION} = ANY({self._running}))"

    @property
    def _running(self) -> str:
        return "'{" + ",".join(map(str, self.running)) + "}'::xid8[]"


class BySnapshot:
    """The position is the snapshot up to which all is read: `{"snapshot": "761:764:762", "high": 4711, …}`.

    In the middle of a backlog it has `base`, the position before it, and `after`: of what lies between the two, the
    events up to that position are read. `high` is the highest position read, `system` and `timeline` tell the server.
    """

    def __init__(self, store: EventStore, database: EventsConnection, notes: Files) -> None:
        self._store = store
        self._database = database
        self._notes = notes
        self._frozen: TransactionSnapshot | None = None
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._require_own_transactions()

    def next(self, start: StorePosition | None) -> NextRange | None:
        identity = self._database.identity
        require_same_server(self._store, start, identity)
        base, after = _base(start)
        if start is not None and "base" in start:
            to, moved = TransactionSnapshot.parse(start["snapshot"]), bool(start.get("moved"))
        else:
            to = self._frozen or self._now()
            moved = self._has_moved(start)
        where = self._between(base, to, moved)
        limit = self._store.spec.max_rows
        whole = f"{where} AND {between(None if after is None else after + 1, None)}"
        # Without an order the small ranges of a live flow come by the index of transactions, whatever is planned, and
        # a store that is new to us is looked through as it lies. What begins at a position is gone through from there.
        found = self._size(whole, limit + 1, ordered=after is not None or (base is not None and "snapshot" not in base))
        full = found[0] > limit
        if full:
            found = self._size(whole, limit, ordered=True)
        rows, low, high = found
        if rows == 0:
            return None
        there = {
            "snapshot": str(to),
            "high": max(high, 0 if start is None else start["high"]),
            "system": identity.system,
            "timeline": identity.timeline,
            **({"moved": True} if moved else {}),
            **({"base": base, "after": high} if full else {}),
        }
        self._sizes = {_key(there): (rows, low, high)}
        return NextRange(there, rows, full)

    def fix_range(self, start: StorePosition | None, end: StorePosition) -> None:
        """The position says it all."""

    def legs(self, start: StorePosition | None, end: StorePosition) -> list[Leg]:
        base, after = _base(start)
        to, upto = TransactionSnapshot.parse(end["snapshot"]), end.get("after")
        where = self._between(base, to, bool(end.get("moved")))
        first = None if after is None else after + 1
        size = self._sizes.get(_key(end))
        if size is None:  # fixed by a process that is gone
            size = self._size(f"{where} AND {between(first, upto)}", None, ordered=False)
        rows, low, high = size
        return [Leg(low, high, rows, lambda low, high: f"{where} AND {between(low, high)}")] if rows else []

    def waiting(self, start: StorePosition | None) -> str | None:
        base, after = _base(start)
        to = TransactionSnapshot.parse(start["snapshot"]) if start is not None and "base" in start else None
        left = "TRUE" if base is None else self._since(base, False)
        if to is None or after is None:
            return left
        return f"(({left} AND {to.seen} AND {POSITION} > {after}) OR {to.unseen})"

    def detail(self) -> Mapping[str, Any]:
        return {}

    def freeze(self) -> None:
        self._frozen = self._now()

    def committed(self, end: StorePosition) -> None:
        """Nobody waits for it."""

    # --- inside

    def _between(self, base: StorePosition | None, to: TransactionSnapshot, moved: bool) -> str:
        if base is None or "snapshot" not in base:
            # Rows from before the column have none: whoever added it waited for their transactions to end.
            return f"{self._since(base, moved)} AND ({TRANSACTION} IS NULL OR {to.seen})"
        return f"{self._since(base, moved)} AND {to.seen}"

    def _since(self, base: StorePosition | None, moved: bool) -> str:
        if base is None:
            return "TRUE"
        if "snapshot" not in base:
            gaps = open_gaps(self._notes, base)
            inside = f" OR {POSITION} <@ {gaps.to_sql()}" if gaps else ""
            return f"({POSITION} > {base['high']}{inside})"
        unseen = TransactionSnapshot.parse(base["snapshot"]).unseen
        return f"({unseen} OR {POSITION} > {base['high']})" if moved else unseen

    def _size(self, where: str, limit: int | None, *, ordered: bool) -> tuple[int, int, int]:
        """How many there are, up to a limit, and their first and last position."""
        order = f"ORDER BY {POSITION}" if ordered else ""
        bound = "" if limit is None else f"LIMIT {limit}"
        rows = f"SELECT {POSITION} FROM ({self._store.bare}) events WHERE {where} {order} {bound}"
        found = self._database.one(f"SELECT count(*), min({POSITION}), max({POSITION}) FROM ({rows}) found")
        return found[0], found[1] or 0, found[2] or 0

    def _now(self) -> TransactionSnapshot:
        found = TransactionSnapshot.parse(self._database.one("SELECT pg_current_snapshot()::text")[0])
        if self._database.identity.standby:
            # A standby does not list what runs on the primary; below its oldest all have ended.
            return TransactionSnapshot(found.begin, found.begin)
        return found

    def _has_moved(self, start: StorePosition | None) -> bool:
        """Another server has taken over, maybe without the last transactions of the old one, whose numbers it then
        gives out again: what lies beyond the last position is new, whatever its transaction."""
        now = self._database.identity.timeline
        before = None if start is None else start.get("timeline")
        if start is None or "snapshot" not in start or None in (now, before) or now == before:
            return False
        log.warning(
            "another server has taken over: events that it has lost stay in the topic",
            source=self._store.spec.name,
            timeline=now,
            before=before,
        )
        return True

    def _require_own_transactions(self) -> None:
        """Transactions of another cluster, that came with a dump, are in the future of this one."""
        store = self._store
        assert store.transaction is not None
        name = store.spec.columns.transaction
        if not any(index.valid and index.columns[:1] == (name,) for index in store.indexes):
            log.warning(
                "no index on the transaction column: every look at the table reads all of it",
                source=store.spec.name,
                hint=f"headwater source prepare {store.spec.name}",
            )
            return
        later = f"{TRANSACTION} >= pg_snapshot_xmax(pg_current_snapshot())"
        if self._database.ask(f"SELECT 1 FROM ({store.bare}) events WHERE {later} LIMIT 1"):
            limit = self._database.one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")[0]
            raise TerminalError(
                Code.SOURCE_CHANGED,
                f"{store.name} has rows of transactions that this database cluster has not had:"
                f" they came with a dump, and {store.transaction} is not theirs any more",
                where=store.spec.where,
                hint=f"UPDATE {store.quoted} SET {store.transaction} = NULL WHERE {store.transaction} >= '{limit}'"
                f"::xid8; then `headwater flow rebuild NAME`, or `headwater flow reset NAME` with `deduplicate_by`",
            )


def _base(start: StorePosition | None) -> tuple[StorePosition | None, int | None]:
    """Where the range that is being read began, and how far into it all is read."""
    if start is not None and "base" in start:
        return start["base"], int(start["after"])
    return start, None


def _key(end: StorePosition) -> str:
    return f"{end['snapshot']}/{end.get('after')}"
