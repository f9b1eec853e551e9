"""The source's database: where its log stands, and the slot that holds it for us."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, UsageError
from headwater.core.quotes import double_quoted, single_quoted
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.connection import connect, server_name, translated

if TYPE_CHECKING:
    import psycopg

TEXT = (
    "SET DateStyle = 'ISO, YMD'; SET TIME ZONE 'UTC'; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex';"
    " SET lc_monetary = 'C'; SET extra_float_digits = 3"
)
"""How values are written: the same for the snapshot and the stream, wherever the server stands."""
PATIENCE = 5.0
"""Seconds for which a slot that is in use is waited for."""
FAILOVER = 170000
"""Postgres 17: slots can be kept on standbys, so that changes are not lost when one takes over."""
ROWS = 2
"""libpq: the command has given rows."""
_UNFIT_FOR_NAMES = re.compile(r"[^a-z0-9_]")


class Lost(Exception):
    """Changes after a position are gone, for the reason told."""


@dataclass(frozen=True)
class ServerState:
    """Which server it is, and where its log ends."""

    system: str
    timeline: int
    end: int


@dataclass(frozen=True)
class SlotState:
    """A replication slot as the server tells it; places in the log are numbers of bytes."""

    confirmed: int | None
    restart: int | None
    plugin: str | None
    database: str | None
    user: int | None
    """The process that uses it."""
    wal_status: str | None
    invalidation: str | None

    @property
    def is_lost(self) -> bool:
        return self.wal_status == "lost" or self.invalidation is not None or self.restart is None


def show_lsn(lsn: int) -> str:
    """As Postgres writes it: `16/B374D848`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def quoted_table(table: str) -> str:
    schema, _, name = table.partition(".")
    return f"{double_quoted(schema)}.{double_quoted(name)}"


class CdcDatabase:
    """One source's database, slot and publication. Its connections are the callers'."""

    def __init__(self, spec: PostgresCdcSource, project: str) -> None:
        self.spec = spec
        own = _UNFIT_FOR_NAMES.sub("_", f"headwater_{project}_{spec.name}".lower())
        if len(own) > 63:
            own = f"{own[:50]}_{hashlib.sha256(own.encode()).hexdigest()[:12]}"
        self.slot = spec.slot or own
        self.publication = spec.publication or own

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells one stream of changes from another."""
        return (self.spec.dsn.reveal(), self.slot, self.publication)

    def connect(self) -> psycopg.Connection[Any]:
        """A connection to a server that has a log of its own; a standby may be about to take over."""
        connection = connect(self.spec.dsn, where=self.spec.where, read_only=False)
        with self.translating():
            connection.execute(TEXT)
            follows = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        if follows is not None and follows[0]:
            connection.close()
            raise TransientError(
                Code.SOURCE_UNAVAILABLE,
                f"{self.server_name} is a standby: what changes is read from the server that it follows",
                where=self.spec.where,
                hint="once it has taken over, the flow continues by itself; otherwise name the other server in `dsn`"
                ", or both: postgresql://one,other/database?target_session_attrs=read-write",
            )
        return connection

    def replicate(self) -> psycopg.Connection[Any]:
        """A connection that takes commands of replication."""
        try:
            return connect(self.spec.dsn, where=self.spec.where, replication=True)
        except HeadwaterError as error:
            if "REPLICATION attribute" in str(error) or "start WAL sender" in str(error):
                raise self._may_not_replicate() from error
            raise

    @contextmanager
    def translating(self) -> Iterator[None]:
        """What psycopg raises inside, as an error of ours with the hint for what is particular to replication."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            raise self.translated(error) from error

    def translated(self, error: psycopg.Error) -> HeadwaterError:
        state, told = error.sqlstate or "", str(error)
        if state == "42501" and "replication" in told:
            return self._may_not_replicate()
        if state == "53400" and "slots" in told:
            return TerminalError(
                Code.SOURCE_MISMATCH,
                f"{self.server_name}: all replication slots are in use",
                where=self.spec.where,
                hint="`SELECT slot_name, active FROM pg_replication_slots` shows them; drop one that nobody needs"
                " (`SELECT pg_drop_replication_slot('…')`), or `ALTER SYSTEM SET max_replication_slots = 20` and"
                " restart the server. A source needs one, each runner one more, and a snapshot one while it is taken",
            )
        if state == "55006" and "is active" in told:
            return self._in_use(told.splitlines()[0])
        return translated(error, dsn=self.spec.dsn, where=self.spec.where)

    @property
    def server_name(self) -> str:
        return server_name(self.spec.dsn, where=self.spec.where)

    # --- the server and its slot

    def server(self, connection: psycopg.Connection[Any]) -> ServerState:
        found = connection.execute(
            "SELECT system_identifier::text, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int,"
            " (pg_current_wal_flush_lsn() - '0/0')::int8 FROM pg_control_system()"
        ).fetchone()
        assert found is not None
        return ServerState(*found)

    def branches(self, timeline: int) -> dict[int, int]:
        """Where the log of a server that has taken over left those of before, by their timelines."""
        with self.replicate() as connection:
            result = connection.pgconn.exec_(f"TIMELINE_HISTORY {timeline}".encode())
            if result.status != ROWS:
                raise self.translated(refusal(result))
            lines = (result.get_value(0, 1) or b"").decode("utf-8", "replace").splitlines()
        told = (line.split() for line in lines if line.strip() and not line.startswith("#"))
        return {int(words[0]): parse_lsn(words[1]) for words in told}

    def log_end(self, connection: psycopg.Connection[Any]) -> int:
        found = connection.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8").fetchone()
        assert found is not None
        return int(found[0])

    def look(self, connection: psycopg.Connection[Any], slot: str | None = None) -> SlotState | None:
        found = connection.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::int8, (restart_lsn - '0/0')::int8, plugin, database, active_pid,"
            " wal_status, to_jsonb(s) ->> 'invalidation_reason' FROM pg_replication_slots s WHERE slot_name = %s",
            [slot or self.slot],
        ).fetchone()
        return None if found is None else SlotState(*found)

    def usable(self, connection: psycopg.Connection[Any]) -> SlotState | None:
        """The slot, if it is there and ours to use; one that is in use by others is waited for a while."""
        deadline = time.monotonic() + PATIENCE
        while (state := self.look(connection)) is not None:
            if state.plugin != "pgoutput" or state.database != connection.info.dbname:
                kind = f"of plugin {state.plugin}" if state.plugin else "a physical one"
                message = (
                    f"{self.server_name}: the replication slot '{self.slot}' is {kind}, for {state.database or 'all'}"
                )
                raise UsageError(
                    Code.SOURCE_MISMATCH,
                    message,
                    where=self.spec.where,
                    hint="name another with `slot`: one that is not there is made",
                )
            if state.user is None:
                return state
            if time.monotonic() > deadline:
                raise self._in_use(f"the replication slot '{self.slot}' is in use by {self._user(connection, state)}")
            time.sleep(0.1)
        return None

    def slot_sql(self, connection: psycopg.Connection[Any]) -> str:
        """What makes the slot; from Postgres 17 on one that a standby may have, too."""
        also = ", false, false, failover => true" if connection.info.server_version >= FAILOVER else ""
        return f"SELECT pg_create_logical_replication_slot({single_quoted(self.slot)}, 'pgoutput'{also})"

    def make_slot(self, connection: psycopg.Connection[Any]) -> SlotState:
        """Make the slot where there is none. Waits for the transactions that are open now."""
        state = self.usable(connection)
        if state is not None:
            return state
        import psycopg

        try:
            connection.execute(self.slot_sql(connection))
        except psycopg.errors.DuplicateObject:
            pass  # another flow of this source was quicker
        except psycopg.Error as error:
            raise self.translated(error) from error
        state = self.usable(connection)
        assert state is not None
        return state

    def drop_slot(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether there was one."""
        if self.look(connection) is None:
            return False
        self.usable(connection)
        with self.translating():
            connection.execute("SELECT pg_drop_replication_slot(%s)", [self.slot])
        return True

    def copy_slot(self, connection: psycopg.Connection[Any]) -> str:
        """A slot of this connection's own that begins where the source's own stands; it goes with the connection."""
        name = f"{self.slot[:40]}_tmp_{uuid4().hex[:12]}"
        connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s, true)", [self.slot, name])
        return name

    def advance(self, connection: psycopg.Connection[Any], to: int) -> None:
        """Let go of the log up to here; where somebody else is just doing that, the next time will do."""
        import psycopg

        state = self.look(connection)
        if state is None or state.confirmed is None or state.is_lost:
            raise Lost(f"the replication slot '{self.slot}' is gone")
        if to <= state.confirmed:
            return
        try:
            connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [self.slot, show_lsn(to)])
        except psycopg.errors.ObjectInUse:
            pass
        except psycopg.errors.UndefinedObject as error:
            raise Lost(f"the replication slot '{self.slot}' is gone") from error
        except psycopg.Error as error:
            raise self.translated(error) from error

    # --- what may be wrong

    def _may_not_replicate(self) -> UsageError:
        user = _user_of(self.spec)
        return UsageError(
            Code.SOURCE_DENIED,
            f"{self.server_name}: '{user}' may not replicate",
            where=self.spec.where,
            hint=f"have a superuser run: ALTER ROLE {double_quoted(user)} REPLICATION;"
            f" (on Amazon RDS: GRANT rds_replication TO {double_quoted(user)};)",
        )

    def _in_use(self, message: str) -> TransientError:
        return TransientError(
            Code.SOURCE_UNAVAILABLE,
            f"{self.server_name}: {message}",
            where=self.spec.where,
            hint="stop the program that uses it, or name another with `slot`: one that is not there is made",
        )

    def _user(self, connection: psycopg.Connection[Any], state: SlotState) -> str:
        sql = "SELECT application_name FROM pg_stat_activity WHERE pid = %s"
        found = connection.execute(sql, [state.user]).fetchone()
        name = f"'{found[0]}', " if found is not None and found[0] else ""
        return f"{name}process {state.user} of the server"


def refusal(result: Any) -> psycopg.Error:
    """What is wrong with a command of replication, as psycopg tells it of statements."""
    import psycopg

    told = result.error_message.decode("utf-8", "replace").strip()
    state = (result.error_field(67) or b"").decode()  # 67: SQLSTATE
    kind = psycopg.errors.lookup(state) if state else psycopg.OperationalError
    return kind(told)


def _user_of(spec: PostgresCdcSource) -> str:
    from headwater.sources.postgres.connection import parameters

    return parameters(spec.dsn, where=spec.where).get("user", "")
