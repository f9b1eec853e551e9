"""Postgres as a kind of target."""

from __future__ import annotations

from headwater.core.extras import require_extra
from headwater.targets.base import Destination, ExportTarget, TargetKind


def _open(destination: Destination) -> ExportTarget:
    require_extra("postgres", "psycopg")
    from headwater.targets.postgres.target import PostgresTarget

    return PostgresTarget(POSTGRES_KIND, destination)


POSTGRES_KIND = TargetKind(
    name="postgres",
    title="a table of Postgres",
    abilities=frozenset({"stream", "updates", "nested", "binary"}),
    codecs=frozenset(),
    open=_open,
    locate=lambda export, locate, context: export.to,
    column_name=r"[^\x00]{1,63}",
    notes={
        "partitions": "partition the table in the database, and export to it with if_exists: append",
        "partition expressions": "partition the table in the database, and export to it with if_exists: append",
    },
)
