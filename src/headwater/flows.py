"""The step and its ledger: one mechanism for everything that keeps a table up to date.

A step is a range of its input turned into one commit of its target. Before it, the ledger holds what will be tried;
after it, the target's own commit says that it landed. On start the two are compared: landed, go on; not landed, the
same range again. There is no third case and no second truth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from headwater.errors import Code, IntegrityError
from headwater.model import Mark, Version
from headwater.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Positions = Mapping[str, Any]
"""How far each input has been read, by its name; JSON."""

KEPT_INTENTS = 100
_NAME = re.compile(r"^(\d+)-(\d+)\.json$")


@dataclass(frozen=True)
class Intent:
    """What a step is about to do."""

    epoch: int
    step: int
    start: Positions
    end: Positions
    definition: str
    written_at: datetime

    def mark(self, flow: str) -> Mark:
        return Mark(flow, self.epoch, self.step, self.end)


class Ledger:
    """The intents of one flow: `<warehouse>/_headwater/flows/<flow>/<epoch>-<step>.json`."""

    def __init__(self, files: Files, flow: str) -> None:
        self._files = files
        self._folder = f"_headwater/flows/{flow}"

    def last(self) -> Intent | None:
        numbers = self._numbers()
        return self._read(*max(numbers)) if numbers else None

    def write(self, intent: Intent) -> None:
        text = json.dumps(
            {
                "epoch": intent.epoch,
                "step": intent.step,
                "from": dict(intent.start),
                "to": dict(intent.end),
                "definition": intent.definition,
                "written_at": intent.written_at.isoformat(),
            },
            sort_keys=True,
        )
        self._files.write_atomic(self._path(intent.epoch, intent.step), text)
        if intent.step % KEPT_INTENTS == KEPT_INTENTS - 1:
            self._prune()

    def _numbers(self) -> list[tuple[int, int]]:
        if not self._files.exists(self._folder):
            return []
        names = (_NAME.match(entry.name) for entry in self._files.list(self._folder))
        return [(int(found.group(1)), int(found.group(2))) for found in names if found]

    def _read(self, epoch: int, step: int) -> Intent:
        path = self._path(epoch, step)
        try:
            found = json.loads(self._files.read_text(path))
            written_at = datetime.fromisoformat(found["written_at"])
            return Intent(epoch, step, found["from"], found["to"], found["definition"], written_at)
        except (ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the ledger's {self._files.join(path)} can't be read: {error}",
                hint="put it back from a copy, or reset the flow",
            ) from error

    def _path(self, epoch: int, step: int) -> str:
        return f"{self._folder}/{epoch}-{step}.json"

    def _prune(self) -> None:
        """Old intents tell history only; the table's commits tell it better."""
        for epoch, step in sorted(self._numbers())[:-KEPT_INTENTS]:
            self._files.delete(self._path(epoch, step))


class Input(Protocol):
    """What a flow reads: a range is settled first, then read, as often as need be, with the same rows."""

    def next(self, start: Positions) -> Positions | None:
        """The end of the next range, or None if nothing is new."""

    def read(self, start: Positions, end: Positions) -> DataFrame:
        """The records after `start`, up to `end`."""

    def committed(self, end: Positions) -> None:
        """The range has landed: whoever waits for that can be told."""


class Target(Protocol):
    """What a flow keeps: it commits a range's rows with its mark, and knows which marks have landed."""

    def landed(self, mark: Mark) -> Version | None: ...

    def commit(self, df: DataFrame, mark: Mark) -> Landed: ...


@dataclass(frozen=True)
class Landed:
    """What a step did."""

    version: Version
    rows: int | None = None
    rejected: int = 0


@dataclass(frozen=True)
class StepDone:
    """A step that has landed, now or before a restart."""

    flow: str
    epoch: int
    step: int
    positions: Positions
    landed: Landed
    recovered: bool = False


class Flow:
    """A loop of steps; whoever runs it decides when to call `step`."""

    def __init__(self, name: str, definition: str, input: Input, target: Target, ledger: Ledger) -> None:
        self.name = name
        self._definition = definition
        self._input = input
        self._target = target
        self._ledger = ledger
        self._intent: Intent | None = None
        self._settled = False

    def step(self) -> StepDone | None:
        """Take the next step, or finish the one that a crash left open; None if nothing is new."""
        if not self._settled:
            recovered = self._recover()
            self._settled = True
            if recovered is not None:
                return recovered
        last = self._intent
        start: Positions = {} if last is None else last.end
        end = self._input.next(start)
        if end is None:
            return None
        epoch, number = (1, 0) if last is None else (last.epoch, last.step + 1)
        intent = Intent(epoch, number, start, end, self._definition, datetime.now(timezone.utc))
        self._settled = False
        self._ledger.write(intent)
        done = self._run(intent)
        self._intent = intent
        self._settled = True
        return done

    def _recover(self) -> StepDone | None:
        """Settle the last intent: it landed, or its range is done again. None where nothing was open."""
        self._intent = self._ledger.last()
        if self._intent is None:
            return None
        if self._target.landed(self._intent.mark(self.name)) is not None:
            self._input.committed(self._intent.end)
            return None
        return self._run(self._intent, recovered=True)

    def _run(self, intent: Intent, *, recovered: bool = False) -> StepDone:
        rows = self._input.read(intent.start, intent.end)
        landed = self._target.commit(rows, intent.mark(self.name))
        self._input.committed(intent.end)
        return StepDone(self.name, intent.epoch, intent.step, intent.end, landed, recovered)
