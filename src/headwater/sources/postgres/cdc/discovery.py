"""A table whose changes can be followed: `postgresql://…/database?table=public.customers`."""

from __future__ import annotations

from headwater.core.errors import Code, UsageError
from headwater.sources.discovery import Discovered
from headwater.sources.postgres.tables import VARIABLE, look_at


def discover(address: str) -> Discovered | None:
    """None where the table is an event store: then its rows are events, and never change."""
    found = look_at(address)
    if found is None or found.event_columns is not None:
        return None
    if not found.keys:
        raise UsageError(
            Code.UNSUPPORTED,
            f"{found.table} has no primary key, so its rows can't be identified",
            hint=f"ALTER TABLE {found.table} ADD PRIMARY KEY (…), or name another table",
        )
    source = f"{found.name}_db"
    keys = {"type": "postgres_cdc", "dsn": found.written_dsn, "tables": [found.table]}
    state = {
        "description": f"{found.name} as it is now; `history: all` keeps every state with its validity.",
        "from": f"topic('{found.name}_log')",
        "apply": {"keys": list(found.keys), "history": "latest"},
    }
    return Discovered(
        source,
        keys,
        {"tables": "more tables of the database can stand here, each with a topic of its own"},
        {VARIABLE: found.dsn},
        topic={"name": f"{found.name}_log", "table": found.table},
        tables={found.name: state},
        columns=found.columns,
        before=[f"headwater source prepare {source}"],
    )
