"""An event store behind an address: `postgresql://…/database?table=public.events`."""

from __future__ import annotations

from headwater.sources.discovery import Discovered
from headwater.sources.postgres.events.config import EventStoreColumns
from headwater.sources.postgres.tables import VARIABLE, look_at

RECORDS = 1000
"""Events that a look reads at most."""


def discover(address: str) -> Discovered | None:
    """None where the table has not the columns of an event store."""
    found = look_at(address)
    columns = None if found is None else found.event_columns
    if found is None or columns is None:
        return None
    usual = EventStoreColumns().model_dump()
    different = {key: name for key, name in columns.items() if name != usual[key]}
    keys = {"type": "postgres_events", "dsn": found.written_dsn, "table": found.table}
    if different:
        keys["columns"] = different  # type: ignore[assignment]
    comments = {
        "type": f"each row of {found.name} is an event; `postgres_cdc` would follow it as a table that changes",
        "columns": "what its columns are called; null for one that it does not have",
    }
    topic = {"keep_raw": True}
    return Discovered(found.name, keys, comments, {VARIABLE: found.dsn}, {"max_rows": RECORDS}, topic)
