"""Databases with a JDBC driver as a kind of target."""

from __future__ import annotations

from headwater.targets.base import Destination, ExportTarget, TargetKind


def _open(destination: Destination) -> ExportTarget:
    from headwater.targets.jdbc.target import JdbcTarget

    return JdbcTarget(JDBC_KIND, destination)


JDBC_KIND = TargetKind(
    name="jdbc",
    title="a table of a database, by JDBC,",
    abilities=frozenset({"stream", "updates", "binary"}),
    codecs=frozenset(),
    open=_open,
    locate=lambda export, locate, context: export.to,
    notes={
        "nested": "export it as text: from: 'SELECT id, to_json(address) AS address FROM …'",
        "partitions": "partition the table in the database, and export to it with if_exists: append",
    },
)
