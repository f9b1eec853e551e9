"""The end of a source's last topic: what is left at the server, and taking that down."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.core.quotes import double_quoted
from headwater.core.storage import Files
from headwater.sources.postgres.cdc.acknowledged import Acknowledged
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.cdc.database import CdcDatabase


def names(spec: PostgresCdcSource, project: str) -> tuple[str, str | None]:
    """The slot, and the publication where it is the source's own: one that somebody else has named is theirs."""
    database = CdcDatabase(spec, project)
    return database.slot, database.publication if spec.publication is None else None


def others(files: Files, flows: Iterable[str], flow: str) -> list[str]:
    """The flows of the source, but for this one, that the slot holds the log for."""
    begun = Acknowledged(files)
    return [other for other in flows if other != flow and begun.least([other]) is not None]


def forget(files: Files, flow: str) -> None:
    """The slot needn't hold the log for a flow any more."""
    Acknowledged(files).forget(flow)


def take_down(spec: PostgresCdcSource, project: str) -> bool:
    """Drop the slot and the source's own publication; whether there was a slot."""
    database = CdcDatabase(spec, project)
    _, publication = names(spec, project)
    with database.connect() as connection, database.translating():
        had = database.drop_slot(connection)
        if publication is not None:
            connection.execute(f"DROP PUBLICATION IF EXISTS {double_quoted(publication)}")
    return had
