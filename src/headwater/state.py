"""The state database: what the lake holds, so that it is found without a JVM. It can be rebuilt from the lake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from headwater.errors import Code, TerminalError
from headwater.model import Kind

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
)


@dataclass(frozen=True)
class RelationRecord:
    """A topic, table or view that exists, and where."""

    kind: Kind
    name: str
    format: str
    path: str | None = None
    table: str | None = None
    hidden: tuple[str, ...] = ()
    origin: str = "project"
    definition: str = ""
    created_at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))


class State:
    """Small and transactional; SQLite beside the project, or a database that several machines share."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url)
        with self._doing("open"):
            _metadata.create_all(self._engine)

    @staticmethod
    def beside(home: Path) -> State:
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TerminalError(Code.WAREHOUSE_UNWRITABLE, f"can't make the folder {home}: {error.strerror}") from error
        return State(f"sqlite:///{home / 'state.db'}")

    def put(self, record: RelationRecord) -> None:
        """Record a relation; one of the same kind and name is replaced."""
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
                )
            )

    def remove(self, kind: Kind, name: str) -> None:
        where = (_relations.c.kind == kind.value) & (_relations.c.name == name)
        with self._doing("write"), self._engine.begin() as connection:
            connection.execute(sa.delete(_relations).where(where))

    def relations(self, kind: Kind | None = None) -> list[RelationRecord]:
        query = sa.select(_relations).order_by(_relations.c.kind, _relations.c.name)
        if kind is not None:
            query = query.where(_relations.c.kind == kind.value)
        with self._doing("read"), self._engine.connect() as connection:
            return [_record(row) for row in connection.execute(query).mappings()]

    def relation(self, kind: Kind, name: str) -> RelationRecord | None:
        return next((record for record in self.relations(kind) if record.name == name), None)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _doing(self, verb: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).splitlines()[0]
            where = self._engine.url.render_as_string(hide_password=True)
            raise TerminalError(Code.STORAGE_FAILED, f"can't {verb} the state database {where}: {cause}") from error


def _record(row: sa.RowMapping) -> RelationRecord:
    return RelationRecord(
        kind=Kind(row["kind"]),
        name=row["name"],
        format=row["format"],
        path=row["path"],
        table=row["catalog_table"],
        hidden=tuple(json.loads(row["hidden"])),
        origin=row["origin"],
        definition=row["definition"],
        created_at=datetime.fromisoformat(row["created_at"]),
    )
