"""A lake that was copied: the replication slot is still the original's, and what is taken from it is gone there."""

from __future__ import annotations

import json

from headwater.core.errors import Code, TerminalError, Where
from headwater.core.storage import Files
from headwater.sources.postgres.cdc.config import PostgresCdcSource

_PATH = "copied.json"


def slot_of(spec: PostgresCdcSource, project: str) -> str:
    """The name of a source's slot."""
    from headwater.sources.postgres.cdc.database import CdcDatabase

    return CdcDatabase(spec, project).slot


def note_copied(files: Files, slot: str, origin: str) -> None:
    """In the copy's folder of the source: whose the slot is."""
    files.write_atomic(_PATH, json.dumps({"slot": slot, "lake": origin}))


def require_own_slot(files: Files, slot: str, where: Where | None) -> None:
    """Refuse to take from, or drop, a slot that is the original's."""
    found = files.find(_PATH)
    told = {} if found is None else json.loads(found)
    if told.get("slot") == slot:
        raise TerminalError(
            Code.LAKE_COPIED,
            f"this lake is a copy, and the replication slot '{slot}' is that of the lake {told['lake']}",
            where=where,
            hint="name another `slot` for the source, and start its topics over: headwater flow reset topics.…",
        )
