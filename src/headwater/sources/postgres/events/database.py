"""The one connection of a flow that asks: what is new, who is writing, and whether anybody calls."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from headwater.core.extras import require_extra
from headwater.core.quotes import double_quoted
from headwater.sources.postgres.connection import channel, connect, translated
from headwater.sources.postgres.events.config import PostgresEventsSource

NAP = 0.25
"""Seconds after which a wait looks whether it is to end."""

_IDENTITY = """
SELECT (SELECT system_identifier FROM pg_control_system())::text,
       CASE WHEN pg_is_in_recovery() THEN NULL
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
       pg_is_in_recovery()
"""


@dataclass(frozen=True)
class StoreIdentity:
    """Which server it is: a restored copy has another system, one that took over another timeline."""

    system: str
    timeline: int | None
    standby: bool


class EventsConnection:
    """Opened with the first question, and again after it was lost; read-only."""

    def __init__(self, spec: PostgresEventsSource) -> None:
        self.spec = spec
        self._connection: Any = None
        self._identity: StoreIdentity | None = None
        self.channel = ""
        """Where the table's trigger tells of new rows, once it is known."""
        self.called = False
        """Somebody has told of new rows."""

    def ask(self, sql: str, values: Any = None) -> list[tuple[Any, ...]]:
        """The rows of a query, in a transaction of its own."""
        psycopg = require_extra("postgres", "psycopg")
        connection = self.open()
        try:
            found: list[tuple[Any, ...]] = connection.execute(sql, values).fetchall()
        except psycopg.Error as error:
            if connection.closed:
                self.close()
            raise translated(error, dsn=self.spec.dsn, where=self.spec.where) from None
        return found

    def one(self, sql: str, values: Any = None) -> tuple[Any, ...]:
        return self.ask(sql, values)[0]

    @property
    def identity(self) -> StoreIdentity:
        self.open()
        if self._identity is None:
            self._identity = StoreIdentity(*self.one(_IDENTITY))
        return self._identity

    def open(self) -> Any:
        if self._connection is None or self._connection.closed:
            self.close()
            self._connection = connect(self.spec.dsn, where=self.spec.where)
            self._listen()
        return self._connection

    def listen(self, table: str) -> None:
        """From now on be told of new rows of a table, if it has a trigger that does so."""
        self.channel = channel(table)
        self._listen()

    def _listen(self) -> None:
        if self.channel and not self.identity.standby:  # nobody is told anything there
            self._connection.execute(f"LISTEN {double_quoted(self.channel)}")

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Until somebody tells of new rows, it is time to stop, or the time is over."""
        psycopg = require_extra("postgres", "psycopg")
        until = time.monotonic() + seconds
        while not stopping.is_set() and (left := until - time.monotonic()) > 0:
            if self._connection is None or self._connection.closed:
                stopping.wait(left)
                return
            try:
                for _ in self._connection.notifies(timeout=min(left, NAP), stop_after=1):
                    self.called = True
                    return
            except psycopg.Error:
                self.close()  # the next question says what is wrong
                return

    def close(self) -> None:
        connection, self._connection, self._identity = self._connection, None, None
        if connection is not None:
            connection.close()
