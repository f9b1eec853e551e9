"""The ledger of a flow: what each step is about to do, written before it; and the epochs that steps are numbered in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from headwater.core.errors import Code, IntegrityError
from headwater.core.model import CommitTag, Kind
from headwater.core.storage import Files

Positions = Mapping[str, Any]
"""How far each input has been read, by its name; JSON."""

KEPT_INTENTS = 100

_NAME = re.compile(r"^(\d+)-(\d+)\.json$")
_EPOCH = "epoch.json"


@dataclass(frozen=True)
class Epoch:
    """From one start over to the next; steps are numbered in it."""

    number: int = 1
    empty: bool = False
    """The table is emptied before its first step."""


@dataclass(frozen=True)
class Intent:
    """What a step is about to do."""

    epoch: int
    step: int
    start: Positions
    end: Positions
    definition: str
    written_at: datetime
    rows: int | None = None
    bytes: int | None = None
    """How much is in the range, as far as the input could tell."""

    def commit_tag(self, flow: str) -> CommitTag:
        return CommitTag(flow, self.epoch, self.step, self.end)


class Ledger:
    """The intents of one flow: `<warehouse>/_headwater/flows/<flow>/<epoch>-<step>.json`."""

    def __init__(self, files: Files, flow: str, *, first: Epoch | None = None) -> None:
        """`first`: the epoch of a flow that has never been started over. Whoever uses a sink numbers its epochs."""
        self._files = files
        self._folder = f"_headwater/flows/{flow}"
        self._first = first or Epoch()

    def last(self) -> Intent | None:
        """The newest intent of the epoch that is in force."""
        first = self.epoch().number
        numbers = [number for number in self._numbers() if number[0] >= first]
        return self._read(*max(numbers)) if numbers else None

    def epoch(self) -> Epoch:
        """The epoch in force: the first one, until the flow is started over."""
        text = self._files.find(f"{self._folder}/{_EPOCH}")
        if text is None:
            return self._first
        try:
            stored = json.loads(text)
            return Epoch(int(stored["epoch"]), bool(stored["empty"]))
        except (ValueError, KeyError, TypeError) as error:
            path = self._files.join(f"{self._folder}/{_EPOCH}")
            raise IntegrityError(Code.LEDGER_CORRUPT, f"the ledger's {path} can't be read: {error}") from error

    def restart(self, *, empty: bool) -> Epoch:
        """Begin a new epoch: the input is read from its beginning, into the table as it is or emptied."""
        epoch = Epoch(max([self.epoch().number, *(epoch for epoch, _ in self._numbers())]) + 1, empty)
        stored = {"epoch": epoch.number, "empty": empty, "at": datetime.now(timezone.utc).isoformat()}
        self._files.write_atomic(f"{self._folder}/{_EPOCH}", json.dumps(stored, sort_keys=True))
        return epoch

    def write(self, intent: Intent) -> None:
        text = json.dumps(
            {
                "epoch": intent.epoch,
                "step": intent.step,
                "from": dict(intent.start),
                "to": dict(intent.end),
                "definition": intent.definition,
                "written_at": intent.written_at.isoformat(),
                "rows": intent.rows,
                "bytes": intent.bytes,
            },
            sort_keys=True,
        )
        self._files.write_atomic(self._path(intent.epoch, intent.step), text)
        if intent.step % KEPT_INTENTS == KEPT_INTENTS - 1:
            self.prune()

    def take_back(self, intent: Intent) -> None:
        """Forget an intent: its step came to nothing, and its range is the next one's."""
        self._files.delete(self._path(intent.epoch, intent.step))

    def _numbers(self) -> list[tuple[int, int]]:
        if not self._files.exists(self._folder):
            return []
        names = (_NAME.match(entry.name) for entry in self._files.list(self._folder))
        return [(int(name.group(1)), int(name.group(2))) for name in names if name]

    def _read(self, epoch: int, step: int) -> Intent:
        path = self._path(epoch, step)
        try:
            stored = json.loads(self._files.read_text(path))
            written_at = datetime.fromisoformat(stored["written_at"])
            size = (stored.get("rows"), stored.get("bytes"))
            return Intent(epoch, step, stored["from"], stored["to"], stored["definition"], written_at, *size)
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the ledger's {self._files.join(path)} can't be read: {error}",
                hint="put it back from a copy, or reset the flow",
            ) from error

    def _path(self, epoch: int, step: int) -> str:
        return f"{self._folder}/{epoch}-{step}.json"

    def prune(self) -> int:
        """Old intents tell history only, and the table's commits tell it better; returns how many went."""
        old = sorted(self._numbers())[:-KEPT_INTENTS]
        for epoch, step in old:
            self._files.delete(self._path(epoch, step))
        return len(old)


def flow_name(name: str, kind: Kind = Kind.TOPIC) -> str:
    """The flow that keeps a relation."""
    return f"{kind.plural}.{name}"
