"""The state database by SQLAlchemy: all of it can be read and written here, after a third of a second of loading."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from headwater.core.disk_errors import hint_for, room, tells_full, tells_passing
from headwater.core.errors import Code, TerminalError, TransientError, UsageError
from headwater.core.extras import require_extra
from headwater.core.model import Kind
from headwater.core.private_files import create_private
from headwater.core.secret import BARE_SIGN, ENCODE, Secret, address_without_login, has_bare_sign, hidden
from headwater.core.state.dump import Dump, dump, load
from headwater.core.state.export_jobs import RUNNING, STOPPING, ExportJob, job_of, row_of
from headwater.core.state.history import (
    KEPT_FOR,
    KEPT_ROWS,
    PRUNED_EVERY,
    RECORDS,
    HistoryRecord,
    columns_of,
    micros,
    stored_values,
)
from headwater.core.state.records import (
    BUSY,
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

_AWAY = re.compile("locked|no such table")
"""What SQLite says of a database that somebody is writing, or whose disk is gone."""

_metadata = sa.MetaData()

_relations = sa.Table(
    "relations",
    _metadata,
    sa.Column("kind", sa.String, primary_key=True),
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("format", sa.String, nullable=False),
    sa.Column("path", sa.String),
    sa.Column("catalog_table", sa.String),
    sa.Column("hidden", sa.String, nullable=False),
    sa.Column("origin", sa.String, nullable=False),
    sa.Column("definition", sa.String, nullable=False),
    sa.Column("created_at", sa.String, nullable=False),
    sa.Column("shown", sa.String),
    sa.Column("statement", sa.String),
    sa.Column("made_from", sa.String),
    sa.Column("source", sa.String),
)

_lake = sa.Table(
    "lake",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("warehouse", sa.String, nullable=False),
    sa.Column("home", sa.String, nullable=False),
    sa.Column("format", sa.String),
    sa.Column("revision", sa.String),
)
"""The one lake that the state belongs to."""

_leases = sa.Table(
    "leases",
    _metadata,
    sa.Column("flow", sa.String, primary_key=True),
    sa.Column("token", sa.String, nullable=False),
    sa.Column("holder", sa.String, nullable=False),
    sa.Column("renewed_at", sa.Float, nullable=False),
    sa.Column("expires_at", sa.Float, nullable=False),
)

_controls = sa.Table(
    "flow_controls",
    _metadata,
    sa.Column("flow", sa.String, primary_key=True),
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("resumed", sa.Integer, nullable=False),
    sa.Column("changed_at", sa.Float, nullable=False),
)

_releases = sa.Table(
    "flow_releases",
    _metadata,
    sa.Column("flow", sa.String, primary_key=True),
    sa.Column("token", sa.String, nullable=False),
    sa.Column("expires_at", sa.Float, nullable=False),
)

_statuses = sa.Table(
    "flow_statuses",
    _metadata,
    sa.Column("flow", sa.String, primary_key=True),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("updated_at", sa.Float, nullable=False),
)

_holds = sa.Table(
    "holds",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("holder", sa.String, nullable=False),
    sa.Column("expires_at", sa.Float),
)
"""Versions that somebody reads who leaves no other trace in the lake: open queries, streams."""

_exports = sa.Table(
    "exports",
    _metadata,
    sa.Column("id", sa.String, primary_key=True),
    *(sa.Column(name, sa.String) for name in ("export", "source", "format", "destination", "mode", "state", "doing")),
    sa.Column("progress", sa.Float),
    *(sa.Column(name, sa.BigInteger) for name in ("started_at", "updated_at", "finished_at", "rows", "bytes", "files")),
    sa.Column("rows_per_second", sa.Float),
    *(sa.Column(name, sa.String) for name in ("position", "checksum", "readers", "error_code", "error")),
    *(sa.Column(name, sa.String) for name in ("holder", "definition")),
)
"""The jobs of exports: see `export_jobs.py`."""

_COUNTED = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""What both databases count up by themselves."""

_TYPES: Mapping[type, type[sa.types.TypeEngine[Any]]] = {
    str: sa.String, int: sa.BigInteger, bool: sa.Boolean, datetime: sa.BigInteger,
}  # fmt: skip

_history = {
    record: sa.Table(
        record.table,
        _metadata,
        sa.Column("id", _COUNTED, primary_key=True),
        *(sa.Column(name, _TYPES[type]) for name, type in columns_of(record).items()),
        sa.Index(f"{record.table}_by_{record.subject}", record.subject, "id"),
    )
    for record in RECORDS
}
"""What has been done: see `history.py`."""


class StateDatabase:
    """Small and transactional; SQLite next to the project, or a database that several machines share."""

    def __init__(self, url: str) -> None:
        self._url = Secret(url)
        self._shared = not url.startswith("sqlite")
        if self._shared:
            require_extra("postgres", "psycopg")
            if has_bare_sign(url):
                raise UsageError(Code.INVALID_VALUE, f"`state` {BARE_SIGN}", hint=ENCODE)
            self._engine = sa.create_engine(_with_driver(url), pool_pre_ping=True)
        else:
            with suppress(OSError):  # SQLite says itself why it can't be made
                create_private(Path(url.removeprefix(SQLITE)))
            self._engine = sa.create_engine(url, connect_args={"timeout": BUSY})
        with self._doing("open"):
            self._create()

    def put(self, record: RelationRecord, revision: str | None = None) -> None:
        """Record a relation in the place of one of its name. `revision`: what the lake calls its relations now."""
        where = (_relations.c.kind == record.kind.value) & (_relations.c.name == record.name)
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_relations).where(where))
            connection.execute(
                sa.insert(_relations).values(
                    kind=record.kind.value,
                    name=record.name,
                    format=record.format,
                    path=record.path,
                    catalog_table=record.table,
                    hidden=json.dumps(record.hidden),
                    origin=record.origin,
                    definition=record.definition,
                    created_at=record.created_at.isoformat(),
                    shown=record.shown,
                    statement=record.statement,
                    made_from=record.made_from,
                    source=record.source,
                )
            )
            _put_revision(connection, revision)

    def remove(self, kind: Kind, name: str, revision: str | None = None) -> None:
        where = (_relations.c.kind == kind.value) & (_relations.c.name == name)
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_relations).where(where))
            _put_revision(connection, revision)

    def relations(self) -> list[RelationRecord]:
        with self._doing("read"), self._engine.connect() as connection:
            return [record_of(dict(row)) for row in connection.execute(sa.select(_relations)).mappings()]

    # --- which lake it is the state of

    def lake(self) -> LakeRecord | None:
        with self._doing("read"), self._engine.connect() as connection:
            row = connection.execute(sa.select(_lake)).mappings().first()
            return None if row is None else LakeRecord.of(dict(row))

    def set_lake(self, lake: LakeRecord) -> None:
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_lake))
            connection.execute(sa.insert(_lake).values({**asdict(lake), "format": lake.format and str(lake.format)}))

    def forget_runners(self) -> None:
        """Drop the leases and the last words of the runners of another lake, which this one was copied from."""
        with self._doing("write"), self._engine.begin() as connection:
            for table in (_leases, _statuses):
                connection.execute(sa.delete(table))

    def clear(self) -> None:
        """Forget everything: it is of another lake."""
        with self._doing("write"), self._engine.begin() as connection:
            for table in _metadata.tables.values():
                connection.execute(sa.delete(table))

    # --- leases: each change names the token it expects to find, so that of two only one goes through

    def now(self) -> float:
        """The time that leases go by: the shared database's, so that machines needn't agree on theirs."""
        if not self._shared:
            return time.time()
        with self._doing("read"), self._engine.connect() as connection:
            return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def lease(self, flow: str) -> LeaseRecord | None:
        return next(iter(self._lease_records(_leases.c.flow == flow)), None)

    def leases(self) -> dict[str, LeaseRecord]:
        return {record.flow: record for record in self._lease_records()}

    def take_lease(self, record: LeaseRecord, instead_of: str | None) -> bool:
        """Make the lease ours if its token is still `instead_of` (None: if there is none); whether that was so."""
        values = {
            "token": record.token,
            "holder": json.dumps(dict(record.holder), sort_keys=True),
            "renewed_at": record.renewed_at,
            "expires_at": record.expires_at,
        }
        with self._doing("write"):
            if instead_of is not None:
                where = (_leases.c.flow == record.flow) & (_leases.c.token == instead_of)
                with self._engine.begin() as connection:
                    return connection.execute(sa.update(_leases).where(where).values(values)).rowcount == 1
            try:
                with self._engine.begin() as connection:
                    connection.execute(sa.insert(_leases).values(flow=record.flow, **values))
                return True
            except IntegrityError:
                return False

    def drop_lease(self, flow: str, token: str) -> None:
        where = (_leases.c.flow == flow) & (_leases.c.token == token)
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_leases).where(where))

    # --- what flows are told, and how they are

    def controls(self) -> dict[str, Control]:
        with self._doing("read"), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_controls)).mappings()
            return {row["flow"]: control_of(dict(row)) for row in rows}

    def set_control(self, flow: str, *, paused: bool) -> None:
        """Pause a flow, or let it run (again)."""
        where = _controls.c.flow == flow
        with self._doing("write"), self._engine.begin() as connection:
            resumed = connection.execute(sa.select(_controls.c.resumed).where(where)).scalar() or 0
            connection.execute(sa.delete(_controls).where(where))
            values = {"paused": paused, "resumed": resumed + (not paused), "changed_at": time.time()}
            connection.execute(sa.insert(_controls).values(flow=flow, **values))

    def releases(self) -> frozenset[str]:
        """The flows that commands ask their runners to let go of."""
        now = self.now()
        with self._doing("read"), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_releases.c.flow).where(_releases.c.expires_at > now))
            return frozenset(rows.scalars())

    def ask_release(self, flow: str, token: str, seconds: float) -> None:
        """Ask whoever runs a flow to let go of it; the request is void after so many seconds."""
        values = {"flow": flow, "token": token, "expires_at": self.now() + seconds}
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_releases).where(_releases.c.flow == flow))
            connection.execute(sa.insert(_releases), values)

    def end_release(self, flow: str, token: str) -> None:
        """Take a request back."""
        where = (_releases.c.flow == flow) & (_releases.c.token == token)
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_releases).where(where))

    def statuses(self) -> dict[str, dict[str, Any]]:
        """The last thing each flow has said of itself; `updated_at` is seconds since 1970."""
        with self._doing("read"), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_statuses)).mappings()
            return {row["flow"]: status_of(dict(row)) for row in rows}

    def put_statuses(self, statuses: Mapping[str, Mapping[str, Any]]) -> None:
        rows = [
            {"flow": flow, "status": json.dumps(dict(status), sort_keys=True), "updated_at": time.time()}
            for flow, status in statuses.items()
        ]
        if not rows:
            return
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_statuses).where(_statuses.c.flow.in_(list(statuses))))
            connection.execute(sa.insert(_statuses), rows)

    # --- versions that somebody reads

    def put_hold(self, record: HoldRecord) -> None:
        """Keep a version from being expired; one of the same id is replaced."""
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_holds).where(_holds.c.id == record.id))
            connection.execute(sa.insert(_holds).values(record.row()))

    def drop_hold(self, id: str) -> None:
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_holds).where(_holds.c.id == id))

    def holds(self) -> list[HoldRecord]:
        now = self.now()
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_holds).where(_holds.c.expires_at <= now))
            return [HoldRecord.of(dict(row)) for row in connection.execute(sa.select(_holds)).mappings()]

    # --- jobs of exports

    def put_export(self, job: ExportJob) -> None:
        """Record a job in the place of one of its id; one that is asked to stop stays so until it is over."""
        row = row_of(job)
        with self._doing("write"), self._engine.begin() as connection:
            state = connection.execute(sa.select(_exports.c.state).where(_exports.c.id == job.id)).scalar()
            if state == STOPPING and job.state == RUNNING:
                row["state"] = STOPPING
            connection.execute(sa.delete(_exports).where(_exports.c.id == job.id))
            connection.execute(sa.insert(_exports).values(row))

    def stop_export(self, id: str) -> bool:
        """Ask a running job to stop; whether there was one."""
        where = (_exports.c.id == id) & (_exports.c.state == RUNNING)
        with self._doing("write"), self._engine.begin() as connection:
            return connection.execute(sa.update(_exports).where(where).values(state=STOPPING)).rowcount == 1

    def exports(self) -> list[ExportJob]:
        with self._doing("read"), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_exports).order_by(_exports.c.started_at, _exports.c.id)).mappings()
            return [job_of(dict(row)) for row in rows]

    # --- what has been done

    def add_history(self, records: Sequence[HistoryRecord]) -> None:
        """Write rows in one transaction; now and then what is too old or too many goes."""
        with self._doing("write"), self._engine.begin() as connection:
            for record, table in _history.items():
                rows = [stored_values(one) for one in records if type(one) is record]
                if not rows:
                    continue
                connection.execute(sa.insert(table), rows)
                last = connection.execute(sa.select(sa.func.max(table.c.id))).scalar_one()
                if last // PRUNED_EVERY != (last - len(rows)) // PRUNED_EVERY:
                    _prune(connection, record, KEPT_FOR, KEPT_ROWS)

    def prune_history(self, age: timedelta, rows: int) -> int:
        """Drop what is older, and what is more than so many rows of one flow, view or relation; how many rows went."""
        with self._doing("write"), self._engine.begin() as connection:
            return sum(_prune(connection, record, age, rows) for record in RECORDS)

    def history(self, record: type[HistoryRecord], columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """Some columns of a table as they are stored, in the order of its rows."""
        table = _history[record]
        with self._doing("read"), self._engine.connect() as connection:
            rows = connection.execute(sa.select(*(table.c[name] for name in columns)).order_by(table.c.id))
            return [tuple(row) for row in rows]

    # --- backups

    def dump(self) -> Dump:
        with self._doing("read"), self._engine.connect() as connection:
            return dump(connection, _metadata.tables)

    def load(self, rows: Dump) -> None:
        with self._doing("write"), self._engine.begin() as connection:
            load(connection, _metadata.tables, rows)

    def close(self) -> None:
        self._engine.dispose()

    def _create(self) -> None:
        """Make what is missing; two that begin at the same instant may find each other's tables half way."""
        try:
            self._create_all()
        except SQLAlchemyError:
            self._create_all()
        for table in _metadata.tables.values():  # a database of an earlier release may lack some columns
            known = {column["name"] for column in sa.inspect(self._engine).get_columns(table.name)}
            for missing in (column for column in table.columns if column.name not in known):
                type = missing.type.compile(self._engine.dialect)
                with self._engine.begin() as connection:
                    connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {missing.name} {type}"))

    def _create_all(self) -> None:
        """In one transaction: SQLite would write each table to the disk by itself."""
        with self._engine.begin() as connection:
            if not self._shared:
                connection.exec_driver_sql("BEGIN")
            _metadata.create_all(connection)

    def _lease_records(self, *where: sa.ColumnElement[bool]) -> list[LeaseRecord]:
        with self._doing("read"), self._engine.connect() as connection:
            rows = connection.execute(sa.select(_leases).where(*where)).mappings()
            return [lease_of(dict(row)) for row in rows]

    @contextmanager
    def _doing(self, verb: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).splitlines()[0]
            where = address_without_login(self._url.reveal())
            if self._shared:
                cause = hidden(cause, self._url)
            message = f"can't {verb} the state database {where}: {cause}"
            away = isinstance(error, (OperationalError, InterfaceError)) and (self._shared or _AWAY.search(cause))
            if not self._shared and tells_passing(cause):
                away, message = True, f"{message}{room([str(self._engine.url.database)])}"
            hint = hint_for(full=not self._shared and tells_full(cause))
            raise (TransientError if away else TerminalError)(Code.STORAGE_FAILED, message, hint=hint) from error


def _prune(connection: sa.Connection, record: type[HistoryRecord], age: timedelta, rows: int) -> int:
    table, subject = _history[record], _history[record].c[record.subject]
    old = micros(datetime.now(timezone.utc) - age)
    gone = connection.execute(sa.delete(table).where(table.c.started_at < old)).rowcount
    counted = sa.select(subject).group_by(subject).having(sa.func.count() > rows)
    for one in connection.execute(counted).scalars().all():
        newest = sa.select(table.c.id).where(subject == one).order_by(table.c.id.desc()).limit(1)
        last = connection.execute(newest.offset(rows)).scalar_one()
        gone += connection.execute(sa.delete(table).where(subject == one, table.c.id <= last)).rowcount
    return gone


def _put_revision(connection: sa.Connection, revision: str | None) -> None:
    if revision is not None:
        connection.execute(sa.update(_lake).values(revision=revision))


def _with_driver(url: str) -> str:
    """SQLAlchemy's name for Postgres by psycopg."""
    return "postgresql+psycopg://" + url.split("://", 1)[1]
