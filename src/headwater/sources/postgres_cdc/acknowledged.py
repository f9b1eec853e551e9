"""How far each flow of a source is done with the log: the slot lets go of what all of them have."""

from __future__ import annotations

import json
from collections.abc import Iterable

from headwater.errors import Code, IntegrityError
from headwater.sources.postgres_cdc.database import parse_lsn, show_lsn
from headwater.storage import Files

FOLDER = "acknowledged"


class Acknowledged:
    """A small file per flow in the source's folder of the lake: flows that don't run count, too.

    A flow's place here may be ahead of its position: then there was nothing for it in between.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def done(self, flow: str) -> int | None:
        """Up to where a flow has everything that was for it."""
        place, is_claim = self._find(flow) or (None, False)
        return None if is_claim else place

    def put(self, flow: str, lsn: int) -> None:
        self._write(flow, lsn, claim=False)

    def claim(self, flow: str, lsn: int) -> None:
        """A flow is about to begin anew: the log is needed from here on, and nothing is said of what was before."""
        self._write(flow, lsn, claim=True)

    def _write(self, flow: str, lsn: int, *, claim: bool) -> None:
        self._files.write_atomic(_path(flow), json.dumps({"lsn": show_lsn(lsn), "claim": claim}))

    def _find(self, flow: str) -> tuple[int, bool] | None:
        found = self._files.find(_path(flow))
        if found is None:
            return None
        try:
            told = json.loads(found)
            return parse_lsn(told["lsn"]), bool(told["claim"])
        except (ValueError, KeyError, TypeError) as error:
            path = self._files.join(_path(flow))
            raise IntegrityError(Code.LEDGER_CORRUPT, f"{path} can't be read: {error}") from error

    def forget(self, flow: str) -> None:
        self._files.delete(_path(flow))

    def least(self, flows: Iterable[str]) -> tuple[int, str] | None:
        """What the slot has to hold, and for which flow; those that have not begun need nothing of the log."""
        places = [(found[0], flow) for flow in flows if (found := self._find(flow)) is not None]
        return min(places, default=None)


def _path(flow: str) -> str:
    return f"{FOLDER}/{flow}.json"
