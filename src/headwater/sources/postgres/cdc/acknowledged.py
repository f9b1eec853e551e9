"""How far each flow of a source is done with the log: the slot lets go of what all of them have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.sources.postgres.cdc.database import parse_lsn, show_lsn

FOLDER = "acknowledged"


@dataclass(frozen=True)
class _Noted:
    lsn: int
    claim: bool
    timeline: int | None


class Acknowledged:
    """A small file per flow in the source's folder of the lake: flows that don't run count, too.

    A flow's place here may be ahead of its position: then there was nothing for it in between.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def done(self, flow: str) -> tuple[int, int | None] | None:
        """Up to where a flow has everything that was for it, and on which timeline of the server."""
        found = self._find(flow)
        return None if found is None or found.claim else (found.lsn, found.timeline)

    def put(self, flow: str, lsn: int, timeline: int) -> None:
        self._write(flow, {"lsn": show_lsn(lsn), "claim": False, "timeline": timeline})

    def claim(self, flow: str, lsn: int) -> None:
        """A flow is about to start over: the log is needed from here on, and nothing is said of what was before."""
        self._write(flow, {"lsn": show_lsn(lsn), "claim": True})

    def _write(self, flow: str, told: dict[str, Any]) -> None:
        self._files.write_atomic(_path(flow), json.dumps(told))

    def _find(self, flow: str) -> _Noted | None:
        found = self._files.find(_path(flow))
        if found is None:
            return None
        try:
            told = json.loads(found)
            return _Noted(parse_lsn(told["lsn"]), bool(told["claim"]), told.get("timeline"))
        except (ValueError, KeyError, TypeError) as error:
            path = self._files.join(_path(flow))
            raise IntegrityError(Code.LEDGER_CORRUPT, f"{path} can't be read: {error}") from error

    def forget(self, flow: str) -> None:
        self._files.delete(_path(flow))

    def least(self, flows: Iterable[str]) -> tuple[int, str] | None:
        """What the slot has to hold, and for which flow; those that have not begun need nothing of the log."""
        places = [(found.lsn, flow) for flow in flows if (found := self._find(flow)) is not None]
        return min(places, default=None)


def _path(flow: str) -> str:
    return f"{FOLDER}/{flow}.json"
