"""The state of one lake. What commands look up in it is read from SQLite at once; the rest is left to `database.py`."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.disk_errors import disk_error, is_passing
from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.model import Kind
from headwater.core.private_files import make_private
from headwater.core.secret import Secret
from headwater.core.state.export_jobs import ExportJob, job_of
from headwater.core.state.history import KEPT_FOR, KEPT_ROWS, HistoryRecord, HistoryWriter
from headwater.core.state.paths import Roots
from headwater.core.state.records import (
    BUSY,
    COLUMNS,
    SQLITE,
    Control,
    HoldRecord,
    LakeRecord,
    LeaseRecord,
    RelationRecord,
    control_of,
    lease_of,
    record_of,
    status_of,
)

if TYPE_CHECKING:
    from headwater.core.state.database import StateDatabase
    from headwater.core.state.dump import Dump


class Copy(Protocol):
    """Where the lake itself keeps what the state knows of its relations; their paths are stored ones."""

    def alone(self) -> AbstractContextManager[None]:
        """Around a change of both: nobody of this machine compares them meanwhile."""

    def put(self, record: RelationRecord) -> str:
        """Returns what the relations are called from now on: another word after each change."""

    def remove(self, kind: Kind, name: str) -> str:
        """The same."""


class State:
    """Small and transactional; SQLite next to the project, or a database that several machines share."""

    def __init__(self, url: str, roots: Roots | None = None) -> None:
        self._url = url
        self.roots = roots or Roots("/", "/")
        self.copy: Copy | None = None
        """Is told of every relation before the state is; the state can be rebuilt from it."""
        self.refusal: HeadwaterError | None = None
        """Why nobody may write to the lake with this state."""
        self._lock = threading.RLock()
        self._opened: StateDatabase | None = None
        self._file = Path(url.removeprefix(SQLITE)) if url.startswith(SQLITE) else None
        self._reader: sqlite3.Connection | None = None
        self._known: tuple[int, list[RelationRecord]] | None = None
        """The relations, and SQLite's number of the state that they were read from."""
        self._writer = HistoryWriter(lambda records: self._database.add_history(records))
        if self._file is None:
            self._database  # noqa: B018  a shared database that can't be reached is said now

    @staticmethod
    def next_to(home: Path, roots: Roots | None = None) -> State:
        """The SQLite database of a project's own folder."""
        try:
            make_private(home)
        except OSError as error:
            if is_passing(error):
                raise disk_error(f"can't make the folder {home}", error, str(home)) from error
            raise TerminalError(Code.WAREHOUSE_UNWRITABLE, f"can't make the folder {home}: {error.strerror}") from error
        return State(f"{SQLITE}{home / 'state.db'}", roots)

    @staticmethod
    def of(setting: str | Secret, home: Path, roots: Roots | None = None) -> State:
        """The database that the project's `state` names."""
        return State(setting.reveal(), roots) if isinstance(setting, Secret) else State.next_to(home, roots)

    @staticmethod
    def lake_in(home: Path) -> LakeRecord | None:
        """The lake that the state in another project's folder is of; nothing there is touched."""
        try:
            address = f"{(home / 'state.db').absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=BUSY)) as connection:
                return _lake_record(connection)
        except (sqlite3.Error, OSError):
            return None

    @property
    def is_shared(self) -> bool:
        """Whether other machines may have it open."""
        return self._file is None

    @property
    def _database(self) -> StateDatabase:
        with self._lock:
            if self._opened is None:
                from headwater.core.state.database import StateDatabase

                self._opened = StateDatabase(self._url)
            return self._opened

    def close(self) -> None:
        self._writer.close()
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
            if self._opened is not None:
                self._opened.close()
                self._opened = None
            self._known = None

    # --- relations

    def put(self, record: RelationRecord) -> None:
        """Record a relation; one of the same kind and name is replaced."""
        record = replace(record, path=self.roots.stored(record.path))
        with nullcontext() if self.copy is None else self.copy.alone():
            self._database.put(record, None if self.copy is None else self.copy.put(record))

    def remove(self, kind: Kind, name: str) -> None:
        with nullcontext() if self.copy is None else self.copy.alone():
            self._database.remove(kind, name, None if self.copy is None else self.copy.remove(kind, name))

    def relations(self, kind: Kind | None = None) -> list[RelationRecord]:
        """By kind and name; read again only after somebody has written."""
        return [record for record in self._relations() if kind is None or record.kind is kind]

    def relation(self, kind: Kind, name: str) -> RelationRecord | None:
        return next((record for record in self._relations() if record.kind is kind and record.name == name), None)

    def _relations(self) -> list[RelationRecord]:
        with self._lock:
            try:
                records = self._read()
            except sqlite3.Error:  # not made yet, or by an earlier release
                records = None
        return self._resolved(self._database.relations()) if records is None else records

    def stored_relations(self) -> list[RelationRecord]:
        """As they are kept: with paths from the warehouse, or absolute ones of an earlier release."""
        return self._database.relations()

    def _resolved(self, records: Iterable[RelationRecord]) -> list[RelationRecord]:
        resolved = [replace(record, path=self.roots.resolved(record.path)) for record in records]
        return sorted(resolved, key=lambda record: (record.kind.value, record.name))

    def _read(self) -> list[RelationRecord] | None:
        """Without SQLAlchemy, whose loading takes longer than many a command; None where it is not SQLite."""
        if self._file is None:
            return None
        reader = self._open_reader()
        number: int = reader.execute("PRAGMA data_version").fetchone()[0]
        if self._known is None or self._known[0] != number:
            rows = reader.execute(f"SELECT {', '.join(COLUMNS)} FROM relations").fetchall()
            self._known = number, self._resolved(record_of(dict(zip(COLUMNS, row, strict=True))) for row in rows)
        return self._known[1]

    def _open_reader(self) -> sqlite3.Connection:
        assert self._file is not None
        if self._reader is None:
            address = f"{self._file.absolute().as_uri()}?mode=ro"
            self._reader = sqlite3.connect(address, uri=True, check_same_thread=False, timeout=BUSY)
        return self._reader

    def _rows(self, table: str) -> list[dict[str, Any]] | None:
        """A small table of the state, without SQLAlchemy; None where it has to be asked."""
        with self._lock:
            if self._file is None or self._opened is not None:
                return None
            try:
                cursor = self._open_reader().execute(f"SELECT * FROM {table}")
            except sqlite3.Error:  # not made yet, or by an earlier release
                return None
            names = [name for name, *_ in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    # --- which lake it is the state of

    def require_own(self) -> None:
        """Raise where the lake is another project's."""
        if self.refusal is not None:
            raise self.refusal

    def lake(self) -> LakeRecord | None:
        """None: of an earlier release, or made this moment."""
        with self._lock:
            try:
                if self._read() is not None and self._reader is not None:
                    return _lake_record(self._reader)
            except sqlite3.Error:  # not made yet, or by an earlier release
                pass
        return self._database.lake()

    def set_lake(self, lake: LakeRecord) -> None:
        self._database.set_lake(lake)

    def forget_runners(self) -> None:
        """Drop the leases and the last words of the runners of another lake, which this one was copied from."""
        self._database.forget_runners()

    def clear(self) -> None:
        """Forget everything: it is of another lake."""
        self._database.clear()

    # --- backups

    def dump(self) -> Dump:
        """The rows that the lake itself does not hold, without those of its runners."""
        return self._database.dump()

    def load(self, rows: Dump) -> None:
        """Have what another state has given instead of what is here."""
        self._database.load(rows)

    # --- leases

    def now(self) -> float:
        """The time that leases go by: the shared database's, so that machines needn't agree on theirs."""
        return time.time() if self._file is not None else self._database.now()

    def lease(self, flow: str) -> LeaseRecord | None:
        return self.leases().get(flow)

    def leases(self) -> dict[str, LeaseRecord]:
        rows = self._rows("leases")
        records = None if rows is None else [lease_of(row) for row in rows]
        return self._database.leases() if records is None else {record.flow: record for record in records}

    def take_lease(self, record: LeaseRecord, instead_of: str | None) -> bool:
        """Make the lease ours if its token is still `instead_of` (None: if there is none); whether that was so."""
        self.require_own()
        return self._database.take_lease(record, instead_of)

    def drop_lease(self, flow: str, token: str) -> None:
        self._database.drop_lease(flow, token)

    # --- what flows are told, and how they are

    def controls(self) -> dict[str, Control]:
        rows = self._rows("flow_controls")
        return self._database.controls() if rows is None else {row["flow"]: control_of(row) for row in rows}

    def set_control(self, flow: str, *, paused: bool) -> None:
        """Pause a flow, or let it run (again)."""
        self._database.set_control(flow, paused=paused)

    def releases(self) -> frozenset[str]:
        """The flows that commands ask their runners to let go of."""
        return self._database.releases()

    def ask_release(self, flow: str, token: str, seconds: float) -> None:
        """Ask whoever runs a flow to let go of it; the request is void after so many seconds."""
        self._database.ask_release(flow, token, seconds)

    def end_release(self, flow: str, token: str) -> None:
        """Take a request back."""
        self._database.end_release(flow, token)

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The last thing each flow has said of itself; `updated_at` is seconds since 1970."""
        rows = self._rows("flow_statuses")
        return self._database.statuses() if rows is None else {row["flow"]: status_of(row) for row in rows}

    def put_statuses(self, statuses: Mapping[str, Mapping[str, Any]]) -> None:
        self._database.put_statuses(statuses)

    # --- versions that somebody reads

    def put_hold(self, record: HoldRecord) -> None:
        """Keep a version from being expired, until `drop_hold` or the hold's own time; one of its id is replaced."""
        self._database.put_hold(record)

    def drop_hold(self, id: str) -> None:
        """Let go of a version."""
        self._database.drop_hold(id)

    def holds(self) -> list[HoldRecord]:
        """The holds in force, but for those that flows and labels have: `maintenance/holds.py` knows all."""
        return self._database.holds()

    # --- jobs of exports

    def put_export(self, job: ExportJob) -> None:
        """Record a job; one of its id is replaced."""
        self._database.put_export(job)

    def stop_export(self, id: str) -> bool:
        """Ask a running job to stop; whether there was one."""
        return self._database.stop_export(id)

    def exports(self) -> list[ExportJob]:
        """Every job, the oldest first."""
        rows = self._rows("exports")
        if rows is None:
            return self._database.exports()
        return sorted(map(job_of, rows), key=lambda job: (job.started_at, job.id))

    # --- what has been done

    def note(self, record: HistoryRecord) -> None:
        """Keep a row of what was done. It returns at once: rows are written a second later, together."""
        if self.refusal is None:
            self._writer.add(record)

    def flush_history(self) -> None:
        """Write what was noted, now."""
        self._writer.flush()

    def prune_history(self, age: timedelta = KEPT_FOR, rows: int = KEPT_ROWS) -> int:
        """Drop what is older, and what is more than so many rows of one flow, view or relation; how many rows went."""
        return self._database.prune_history(age, rows)

    def history(self, record: type[HistoryRecord], columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Some columns of what has been done, the oldest first; times are microseconds since 1970."""
        self._writer.flush()
        with self._lock:
            if self._file is not None and self._opened is None:
                try:
                    asked = f"SELECT {', '.join(columns)} FROM {record.table} ORDER BY id"
                    return self._open_reader().execute(asked).fetchall()
                except sqlite3.Error:  # not made yet, or by an earlier release
                    pass
        return self._database.history(record, columns)


def _lake_record(connection: sqlite3.Connection) -> LakeRecord | None:
    """The one row of the table `lake`; one of an earlier release has fewer columns."""
    rows = connection.execute("SELECT * FROM lake")
    row = rows.fetchone()
    return None if row is None else LakeRecord.of(dict(zip((name for name, *_ in rows.description), row, strict=True)))
