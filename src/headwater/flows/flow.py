"""A flow: a loop of steps from an input to a target. Whoever runs it decides when to take a step."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol

from headwater.core.errors import HeadwaterError
from headwater.flows.ledger import Intent, Ledger, Positions
from headwater.flows.step import Recorder, Rows, Step, StepDone, StepEngine, Target, ignore

if TYPE_CHECKING:
    from headwater.sources.reader import Lag, OffsetRange


class FlowInput(ABC, Generic[Rows]):
    """What a flow reads: a range is fixed first, then read, as often as need be, with the same rows.

    One for each open flow, which calls it from the thread that takes its steps, but for `probe`.
    """

    @abstractmethod
    def next(self, start: Positions) -> OffsetRange | None:
        """The next range after `start`, or None if nothing is new; changes nothing. Called when the flow is idle, as
        often as whoever runs it wants to know whether a step is due."""

    def fix_range(self, start: Positions, range: OffsetRange) -> Positions:
        """The range will be taken: write down what is needed to read it again. Called once for a step, right before
        its intent is written; returns the intent's end."""
        end: Positions = range.end
        return end

    @abstractmethod
    def read(self, start: Positions, end: Positions) -> Rows:
        """What is after `start`, up to `end`. Called for each try of a step, also by another process than the one that
        fixed the range."""

    def begin_after(self, end: Positions) -> Positions:
        """Where the step after one with this end begins: without what its intent says of that step alone. Called
        before each range is asked for."""
        return end

    def inspect(self, start: Positions, end: Positions, error: Exception) -> bool:
        """Whether the input was to blame for a step that has failed, and gives the rest of the range from now on: some
        of what can't be read is found out only while it is read. Called after each try that fails; the step is tried
        once more if so."""
        return False

    def is_gone(self, error: HeadwaterError) -> bool:
        """Whether a range can never be read again. Called when a step that a crash had left open fails with an error:
        if so the step is given up, and the next one begins where it did."""
        return False

    def committed(self, end: Positions) -> None:
        """The range has landed: whoever waits for that can be told. Called after each commit, and again for the last
        one when the flow is opened."""

    def came_to_nothing(self, end: Positions) -> None:
        """A step up to `end` has changed nothing, so there was no commit. Called in place of `committed`: from now on
        `next` gives this range only with something new behind it."""

    def freeze(self) -> None:
        """From now on `next` ends where the input ends at this moment. Called for a run that is to come to an end."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Return when something may be new, or it is time to stop, or the time is over. Called between steps."""
        stopping.wait(seconds)

    def lag(self, start: Positions) -> Lag | None:
        """How much waits after `start`, where the input can tell. Called now and then, for reports."""
        return None

    def probe(self) -> None:
        """Raise if the input can't be reached. Called from another thread while a step takes long."""

    def close(self) -> None:
        """Let go of connections. Called once, when the flow is let go of."""


class Steps(Protocol):
    """What whoever runs a flow calls, from one thread: a flow, or a streaming query taken batch by batch."""

    @property
    def positions(self) -> Positions:
        """How far it has read. Called for reports."""

    def recover(self) -> StepDone | None:
        """Finish the step that a crash has left open. Called when the flow was opened, and before each look ahead."""

    def ahead(self) -> OffsetRange | None:
        """What the next step would take; None if nothing is new. Called to find out whether a step is due."""

    def step(self, range: OffsetRange | None = None) -> StepDone | None:
        """Take a range, the next one by default; None if nothing is new. Called when a step is due."""

    def freeze(self) -> None:
        """End where the input ends at this moment. Called once, for a run that is to come to an end."""

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        """Return when something may be new, or it is time to stop, or the time is over. Called between steps."""

    def lag(self) -> Lag | None:
        """How far it is behind. Called now and then, for reports."""

    def probe(self) -> None:
        """Raise if the input can't be reached. Called from another thread while a step takes long."""

    def close(self) -> None:
        """Let go of everything. Called once, at the end and after an error."""


class Flow(Generic[Rows]):
    """One input, one target, step by step."""

    def __init__(
        self,
        name: str,
        definition: str,
        input: FlowInput[Rows],
        target: Target[Rows],
        ledger: Ledger,
        guard: Callable[[], None] = lambda: None,
        turn: threading.Lock | None = None,
        record: Recorder = ignore,
    ) -> None:
        """`guard` raises if this process may no longer write. `turn` is held for each step where several threads take
        steps of one flow, each by a `Flow` of its own: where it stands is then looked up again."""
        self.name = name
        self._input = input
        self._turn = turn
        self._engine = StepEngine(name, definition, ledger, target, guard, input.committed, record)

    @property
    def last(self) -> Intent | None:
        """The newest step that is over, as far as this flow knows by now."""
        return self._engine.last

    @property
    def positions(self) -> Positions:
        return {} if self.last is None else self.last.end

    def ahead(self) -> OffsetRange | None:
        return self._input.next(self._start())

    def freeze(self) -> None:
        self._input.freeze()

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        self._input.wait(stopping, seconds)

    def lag(self) -> Lag | None:
        return self._input.lag(self._start())

    def probe(self) -> None:
        self._input.probe()

    def close(self) -> None:
        self._input.close()

    def recover(self) -> StepDone | None:
        """Find the last step landed, or do its range again. None where nothing was open."""
        with self._my_turn():
            return self._recover()

    def step(self, range: OffsetRange | None = None) -> StepDone | None:
        """Take a range, the next one by default, or finish the step that a crash left open; None if nothing is new."""
        with self._my_turn():
            before = self.last
            recovered = self._recover()
            if recovered is not None:
                return recovered
            if range is None or self.last != before:  # somebody else may have taken it meanwhile
                range = self.ahead()
            return None if range is None else self._take(range)

    def take(self, choose: Callable[[Positions], OffsetRange | None]) -> StepDone | None:
        """Take a range of the caller's own choice, which is made when it is known where the flow stands."""
        with self._my_turn():
            self._recover()
            range = choose(self._start())
            return None if range is None else self._take(range)

    def _start(self) -> Positions:
        last = self.last
        return self._input.begin_after(last.end) if last is not None and self._engine.goes_on else {}

    def _recover(self) -> StepDone | None:
        step = self._engine.recover(again=self._turn is not None)
        if step is None:
            return None
        try:
            return self._run(step)
        except HeadwaterError as error:
            if not self._input.is_gone(error):
                raise
        self._engine.give_up(step)
        return None

    def _take(self, range: OffsetRange) -> StepDone:
        start = self._start()
        end = self._input.fix_range(start, range)
        return self._run(self._engine.begin(start, end, rows=range.rows, bytes=range.bytes))

    def _run(self, step: Step) -> StepDone:
        try:
            done = self._try(step)
        except Exception as error:
            if not self._input.inspect(step.intent.start, step.intent.end, error):
                raise
            done = self._try(step)
        if done.landed.came_to_nothing:
            self._input.came_to_nothing(done.positions)
        return done

    def _try(self, step: Step) -> StepDone:
        try:
            rows = self._input.read(step.intent.start, step.intent.end)
            return self._engine.commit(step, rows)
        except Exception as error:
            self._engine.note_failure(step, error)
            raise

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
        else:
            with self._turn:
                yield


def wait_for_commits(committed: threading.Condition | None, stopping: threading.Event, seconds: float) -> None:
    """Until another flow of this process has committed, it is time to stop, or the time is over."""
    if committed is None:
        stopping.wait(seconds)
        return
    with committed:
        if not stopping.is_set():
            committed.wait(seconds)
