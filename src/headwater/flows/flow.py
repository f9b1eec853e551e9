"""The step and its ledger: one mechanism for everything that keeps a table up to date.

A step is a range of its input turned into one commit of its target. Before it, the ledger holds what will be tried;
after it, the target's own commit says that it landed. On start the two are compared: landed, go on; not landed, the
same range again. There is no third case and no second truth.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Protocol

from headwater.core.errors import Code, IntegrityError
from headwater.core.logs import get_logger
from headwater.core.model import CommitTag, Kind, Version
from headwater.core.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.sources.reader import Lag

Positions = Mapping[str, Any]
"""How far each input has been read, by its name; JSON."""

KEPT_INTENTS = 100

log = get_logger(__name__)

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

    def mark(self, flow: str) -> CommitTag:
        return CommitTag(flow, self.epoch, self.step, self.end)


class Ledger:
    """The intents of one flow: `<warehouse>/_headwater/flows/<flow>/<epoch>-<step>.json`."""

    def __init__(self, files: Files, flow: str) -> None:
        self._files = files
        self._folder = f"_headwater/flows/{flow}"

    def last(self) -> Intent | None:
        """The newest intent of the epoch that is in force."""
        numbers = [number for number in self._numbers() if number[0] >= self.epoch().number]
        return self._read(*max(numbers)) if numbers else None

    def epoch(self) -> Epoch:
        """The epoch in force: the first one, until the flow is started over."""
        found = self._files.find(f"{self._folder}/{_EPOCH}")
        if found is None:
            return Epoch()
        try:
            told = json.loads(found)
            return Epoch(int(told["epoch"]), bool(told["empty"]))
        except (ValueError, KeyError, TypeError) as error:
            path = self._files.join(f"{self._folder}/{_EPOCH}")
            raise IntegrityError(Code.LEDGER_CORRUPT, f"the ledger's {path} can't be read: {error}") from error

    def restart(self, *, empty: bool) -> Epoch:
        """Begin a new epoch: the input is read from its beginning, into the table as it is or emptied."""
        epoch = Epoch(max([self.epoch().number, *(epoch for epoch, _ in self._numbers())]) + 1, empty)
        told = {"epoch": epoch.number, "empty": empty, "at": datetime.now(timezone.utc).isoformat()}
        self._files.write_atomic(f"{self._folder}/{_EPOCH}", json.dumps(told, sort_keys=True))
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
            self._prune()

    def take_back(self, intent: Intent) -> None:
        """There was nothing to do."""
        self._files.delete(self._path(intent.epoch, intent.step))

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
            size = (found.get("rows"), found.get("bytes"))
            return Intent(epoch, step, found["from"], found["to"], found["definition"], written_at, *size)
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


@dataclass(frozen=True)
class Range:
    """What an input has next: where it ends, and how much is in it as far as the input can tell."""

    end: Positions
    rows: int | None = None
    bytes: int | None = None
    full: bool = False
    """It is as large as a step may be: more waits behind it."""
    due: bool = False
    """The input asks for it to be taken now."""


class FlowInput(Protocol):
    """What a flow reads: a range is settled first, then read, as often as need be, with the same rows."""

    def next(self, start: Positions) -> Range | None:
        """The next range, or None if nothing is new; changes nothing."""

    def settle(self, start: Positions, range: Range) -> Positions:
        """The range will be taken; returns its end."""

    def read(self, start: Positions, end: Positions) -> DataFrame:
        """The records after `start`, up to `end`."""

    def inspect(self, start: Positions, end: Positions, error: Exception) -> bool:
        """A step over the range failed: whether the input was to blame, and gives the rest of the range from now on."""

    def committed(self, end: Positions) -> None:
        """The range has landed: whoever waits for that can be told."""

    def freeze(self) -> None:
        """From now on `next` ends where the input ends at this moment."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Return when something may be new, or it is time to stop, or the time is over."""

    def lag(self, start: Positions) -> Lag | None:
        """How much waits after `start`, where the input can tell."""

    def close(self) -> None:
        """Let go of connections."""


class Target(Protocol):
    """What a flow keeps: it commits a range's rows with its mark, and knows which marks have landed."""

    def landed(self, mark: CommitTag) -> Version | None: ...

    def commit(self, df: DataFrame, intent: Intent, mark: CommitTag) -> Landed: ...


@dataclass(frozen=True)
class Landed:
    """What a step did."""

    version: Version
    rows: int | None = None
    rejected: int = 0
    checks: Mapping[str, Any] | None = None
    """What a table's watermark and expectations have counted by now."""


@dataclass(frozen=True)
class StepDone:
    """A step that has landed, now or before a restart."""

    flow: str
    epoch: int
    step: int
    positions: Positions
    landed: Landed
    recovered: bool = False


def flow_name(name: str, kind: Kind = Kind.TOPIC) -> str:
    """The flow that keeps a relation."""
    return f"{kind.plural}.{name}"


def wait_for_commits(committed: threading.Condition | None, stopping: threading.Event, seconds: float) -> None:
    """Until another flow of this process has committed, it is time to stop, or the time is over."""
    if committed is None:
        stopping.wait(seconds)
        return
    with committed:
        if not stopping.is_set():
            committed.wait(seconds)


class Steps(Protocol):
    """What whoever runs a flow calls: a loop of steps, or a streaming query taken batch by batch."""

    @property
    def positions(self) -> Positions: ...

    def recover(self) -> StepDone | None: ...

    def ahead(self) -> Range | None: ...

    def step(self, range: Range | None = None) -> StepDone | None: ...

    def freeze(self) -> None: ...

    def wait(self, stopping: threading.Event, seconds: float) -> None: ...

    def lag(self) -> Lag | None: ...

    def close(self) -> None: ...


class Flow:
    """A loop of steps; whoever runs it decides when to call `step`."""

    def __init__(
        self,
        name: str,
        definition: str,
        input: FlowInput,
        target: Target,
        ledger: Ledger,
        guard: Callable[[], None] = lambda: None,
        probe: Callable[[], None] = lambda: None,
    ) -> None:
        """`guard` is called right before a commit, and raises if this process may no longer write. `probe` raises if
        the input can't be reached; it may be called while a step runs."""
        self.name = name
        self.probe = probe
        self._guard = guard
        self._definition = definition
        self._input = input
        self._target = target
        self._ledger = ledger
        self._intent: Intent | None = None
        self._settled = False
        self._unacknowledged: Positions | None = None
        """A range that has landed, and that the input could not be told of: the step is done all the same."""

    @property
    def positions(self) -> Positions:
        """How far it has read, as far as this flow knows by now."""
        return {} if self._intent is None else self._intent.end

    def ahead(self) -> Range | None:
        """What the next step would take; None if nothing is new."""
        return self._input.next(self.positions)

    def freeze(self) -> None:
        """End where the input ends at this moment."""
        self._input.freeze()

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Until something may be new, it is time to stop, or the time is over."""
        self._input.wait(stopping, seconds)

    def lag(self) -> Lag | None:
        return self._input.lag(self.positions)

    def close(self) -> None:
        self._input.close()

    def recover(self) -> StepDone | None:
        """Settle the last intent: it landed, or its range is done again. None where nothing was open."""
        if self._unacknowledged is not None:
            self._acknowledge(self._unacknowledged)
        if self._settled:
            return None
        self._intent = self._ledger.last()
        done = None
        if self._intent is not None:
            if self._target.landed(self._intent.mark(self.name)) is None:
                done = self._run(self._intent, recovered=True)
            else:
                self._input.committed(self._intent.end)
        self._settled = True
        return done

    def step(self, range: Range | None = None) -> StepDone | None:
        """Take a range, the next one by default, or finish the step that a crash left open; None if nothing is new."""
        recovered = self.recover()
        if recovered is not None:
            return recovered
        range = range or self.ahead()
        if range is None:
            return None
        last, start = self._intent, self.positions
        end = self._input.settle(start, range)
        epoch, number = (self._ledger.epoch().number, 0) if last is None else (last.epoch, last.step + 1)
        now = datetime.now(timezone.utc)
        intent = Intent(epoch, number, start, end, self._definition, now, range.rows, range.bytes)
        self._settled = False
        self._ledger.write(intent)
        done = self._run(intent)
        self._intent = intent
        self._settled = True
        return done

    def _run(self, intent: Intent, *, recovered: bool = False) -> StepDone:
        try:
            landed = self._try(intent)
        except Exception as error:
            # Some of what can't be read is found out only while it is read.
            if not self._input.inspect(intent.start, intent.end, error):
                raise
            landed = self._try(intent)
        try:
            self._acknowledge(intent.end)
        except Exception as error:  # raised again before the next step, if it is still so
            log.warning("input not told", flow=self.name, error=str(error))
        return StepDone(self.name, intent.epoch, intent.step, intent.end, landed, recovered)

    def _acknowledge(self, end: Positions) -> None:
        self._unacknowledged = end
        self._input.committed(end)
        self._unacknowledged = None

    def _try(self, intent: Intent) -> Landed:
        rows = self._input.read(intent.start, intent.end)
        self._guard()
        return self._target.commit(rows, intent, intent.mark(self.name))
