"""The step: an intent in the ledger, one commit of the target, then what hangs on it. One engine takes all steps.

Before a step the ledger holds what will be tried; after it the target's own commit says that it landed. On start the
two are compared: landed, go on; not landed, the same range again. There is no third case and no second truth.

Who decides on ranges differs. `Flow` asks an input what is new, for topics, tables and views; Spark brings the
micro-batches of a streaming query, for streaming tables and for sinks. Both go through `StepEngine`.
"""

from __future__ import annotations

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, TypeVar

from headwater.core.logs import get_logger
from headwater.core.model import CommitTag, Version
from headwater.core.state.history import StepRecord
from headwater.flows.ledger import Intent, Ledger, Positions

Rows = TypeVar("Rows")
"""What an input gives its target for a step: a DataFrame, or the versions that a query is computed between."""

Recorder = Callable[[StepRecord], None]
"""Is told of each try of a step, and takes no time for it: `State.note`."""

_CANCELLED = re.compile(r"cancelled job (?:tag|group)")
"""What Spark says of a job that was ended because its flow was asked to stop."""

log = get_logger(__name__)


def ignore(record: StepRecord) -> None:
    """For steps that nobody keeps a record of."""


@dataclass
class Step:
    """A step under way, as its target is given it."""

    flow: str
    intent: Intent
    ledger: Ledger | None = None
    """None: it is not repeated if it is cut off, so nothing is written down."""
    recovered: bool = False
    """It was begun before."""

    @property
    def commit_tag(self) -> CommitTag:
        """What the commit carries: which step made it, and up to where its inputs have been read."""
        return self.intent.commit_tag(self.flow)

    def extend(self, end: Positions) -> None:
        """Write the intent again, with more in its end: what is known only while the step is worked out."""
        self.intent = replace(self.intent, end={**self.intent.end, **end})
        if self.ledger is not None:
            self.ledger.write(self.intent)


@dataclass(frozen=True)
class Landed:
    """What a step did."""

    version: Version | None
    """The table's version now; None: nothing was committed, and there may be no table yet."""
    rows: int | None = None
    rejected: int = 0
    checks: Mapping[str, Any] | None = None
    """What a table's watermark and expectations have counted by now."""
    came_to_nothing: bool = False
    """There is no commit, and the next step begins where this one did: its intent is taken back."""


@dataclass(frozen=True)
class StepDone:
    """A step that has landed, now or before a restart."""

    flow: str
    epoch: int
    step: int
    positions: Positions
    landed: Landed
    recovered: bool = False


class Target(ABC, Generic[Rows]):
    """What a flow keeps. One for each open flow; the engine calls it from one thread at a time."""

    @abstractmethod
    def landed(self, commit_tag: CommitTag) -> bool:
        """Whether a step is in the table. Called once for the newest intent that the flow finds in its ledger."""

    @abstractmethod
    def commit(self, rows: Rows, step: Step) -> Landed:
        """Make one commit of a step's rows, with its commit tag; doing so again for the same step changes nothing.
        Called after the intent was written, and again with the same range until it has returned."""

    def continues(self, last: Intent, definition: str) -> bool:
        """Whether steps by this definition go on from the last one. If not, the last one is not repeated when it has
        not landed, and the next one begins a new epoch. Called for the newest intent, before anything is done with
        it. Most targets take any: what they have stays as it is."""
        return True

    def finish(self, last: Intent) -> None:
        """Do what is due after a commit. Called for an intent that was found in the ledger and has landed: its process
        may have ended right then."""


class StepEngine(Generic[Rows]):
    """Takes the steps of one flow, one after another, over ranges that others decide on."""

    def __init__(
        self,
        flow: str,
        definition: str,
        ledger: Ledger,
        target: Target[Rows],
        guard: Callable[[], None] = lambda: None,
        acknowledge: Callable[[Positions], None] = lambda end: None,
        record: Recorder = ignore,
    ) -> None:
        """`guard` raises if this process may no longer write; it is called before the target is given rows.
        `acknowledge` is told the end of each step that has landed, `record` how each try of a step went."""
        self.flow = flow
        self.ledger = ledger
        self.last: Intent | None = None
        """The newest step that is over, as far as is known by now."""
        self._definition = definition
        self._target = target
        self._guard = guard
        self._acknowledge = acknowledge
        self._record = record
        self._try_began = time.monotonic()
        self._known = False
        self._open: Intent | None = None
        self._unacknowledged: Positions | None = None
        """The end of a step that has landed, which the input could not be told of: the step is done all the same."""

    # --- recovery

    def recover(self, *, again: bool = False) -> Step | None:
        """Compare the ledger with the target: the step that has not landed, to be done again; None if there is none.

        `again`: somebody else may have taken steps of this flow since the last call.
        """
        if self._unacknowledged is not None:
            self._tell(self._unacknowledged)
        is_known = self._known and self._open is None
        if is_known and not again:
            return None
        newest = self.ledger.last()
        if is_known and newest == self.last:
            return None
        self._known = False
        if newest is None:
            self._is_over(None)
            return None
        step = Step(self.flow, newest, self.ledger, recovered=True)
        if self._target.landed(step.commit_tag):
            self._target.finish(newest)
            self._acknowledge(newest.end)
            self._is_over(newest)
        elif not self._target.continues(newest, self._definition):
            self.give_up(step)
        else:
            self._try_began = time.monotonic()
            return step
        return None

    def give_up(self, step: Step) -> None:
        """A step was never done, and will not be: the next one begins where it did."""
        self._is_over(replace(step.intent, end=step.intent.start))

    # --- a step

    @property
    def goes_on(self) -> bool:
        """Whether the next step goes on from the last one; else it begins from nothing."""
        return self.last is not None and self._target.continues(self.last, self._definition)

    def begin(
        self, start: Positions, end: Positions, *, rows: int | None = None, bytes: int | None = None, number: int = 0
    ) -> Step:
        """Write down what is about to be done. `number`: of an epoch's first step, where others count."""
        if self.last is not None and not self.goes_on:
            self.ledger.restart(empty=False)
            self.last = None
        last = self.last
        epoch, number = (self.ledger.epoch().number, number) if last is None else (last.epoch, last.step + 1)
        now = datetime.now(timezone.utc)
        self._try_began = time.monotonic()
        intent = Intent(epoch, number, start, end, self._definition, now, rows, bytes)
        self._open = intent
        self.ledger.write(intent)
        return Step(self.flow, intent, self.ledger)

    def commit(self, step: Step, rows: Rows) -> StepDone:
        """Have the target commit a step that was begun, now or before, and tell whoever waits for it."""
        self._guard()
        landed = self._target.commit(rows, step)
        if landed.came_to_nothing:
            self.ledger.take_back(step.intent)
            self._is_over(self.ledger.last())
        else:
            self._is_over(step.intent)
            try:
                self._tell(step.intent.end)
            except Exception as error:  # raised again before the next step, if it is still so
                log.warning("input not notified", flow=self.flow, error=str(error))
        self.note(step, landed)
        intent = step.intent
        return StepDone(self.flow, intent.epoch, intent.step, intent.end, landed, step.recovered)

    # --- the record of it

    def note(self, step: Step, landed: Landed) -> None:
        """Record a try that has come to its end."""
        committed = landed.version is not None and not landed.came_to_nothing
        version = landed.version if committed else None
        outcome = "committed" if committed else "nothing"
        self._note(step, outcome, rows=landed.rows, rejected=landed.rejected, version=version)

    def note_failure(self, step: Step, error: Exception) -> None:
        """Record a try that has failed. Called by whoever gives the rows: reading them may fail too."""
        from headwater.spark.errors import as_headwater_error

        problem = as_headwater_error(error).problem
        outcome = "cancelled" if _CANCELLED.search(problem.message) else "failed"
        self._note(step, outcome, error_code=str(problem.code), error=problem.message)

    def _note(
        self,
        step: Step,
        outcome: str,
        *,
        rows: int | None = None,
        rejected: int = 0,
        version: Version | None = None,
        error_code: str | None = None,
        error: str | None = None,
    ) -> None:
        now, intent = datetime.now(timezone.utc), step.intent
        took = timedelta(seconds=time.monotonic() - self._try_began)
        record = StepRecord(
            flow=self.flow,
            kind=self.flow.partition(".")[0].removesuffix("s"),
            epoch=intent.epoch,
            step=intent.step,
            started_at=now - took,
            committed_at=now if version is not None else None,
            duration_ms=round(took / timedelta(milliseconds=1)),
            rows=rows,
            rejected=rejected,
            bytes=intent.bytes,
            from_positions=json.dumps(dict(intent.start), sort_keys=True),
            to_positions=json.dumps(dict(intent.end), sort_keys=True),
            version=version,
            outcome=outcome,
            recovered=step.recovered,
            error_code=error_code,
            error=error,
        )
        self._record(record)

    # --- steps that somebody else counts

    def newest(self) -> Intent | None:
        """The newest intent, whether it has landed or not: what whoever counts the steps goes on from."""
        if not self._known:
            self._is_over(self.ledger.last())
        return self.last if self._open is None else self._open

    def given(self, number: int, end: Positions, follows: Callable[[Intent], bool]) -> Step | None:
        """The step that the caller says is next: the newest one once more, or a new one after it. None if it is
        neither, or does not follow on the newest one otherwise."""
        newest = self.newest()
        if newest is not None and not (number == newest.step + 1 and follows(newest)):
            self._known, self._open = False, None
            newest = self.newest()  # somebody else may have gone on meanwhile
        if newest is not None and number == newest.step and end == newest.end:
            self._try_began = time.monotonic()
            return Step(self.flow, newest, self.ledger, recovered=True)
        if newest is not None and not (number == newest.step + 1 and follows(newest)):
            return None
        self._is_over(newest)
        return self.begin({} if newest is None else newest.end, end, number=number)

    def _is_over(self, intent: Intent | None) -> None:
        self.last, self._open, self._known = intent, None, True

    def _tell(self, end: Positions) -> None:
        self._unacknowledged = end
        self._acknowledge(end)
        self._unacknowledged = None
