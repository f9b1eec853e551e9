"""Keeps one flow: opens it, takes its steps when they are due, tries again or gives up, and says how it goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.logs import get_logger
from headwater.core.spec.base import Trigger
from headwater.core.state import Control
from headwater.flows.flow import Steps
from headwater.flows.step import StepDone
from headwater.runner.leases import Lease
from headwater.runner.pace import LONGEST_RETRY, SOURCE_RETRY, BackOff
from headwater.runner.reports import FlowEvent, FlowReport, FlowState, blocked
from headwater.runner.setups.setup import FlowSetup
from headwater.sources.reader import Lag, OffsetRange
from headwater.spark.errors import as_headwater_error
from headwater.spark.jvm import has_ended
from headwater.spark.session import activate, fork

TRIES_OF_ONCE = 3
"""A run that is to come to an end gives up a flow after so many transient errors in a row."""
NAP = 0.5
"""Seconds after which whoever sleeps looks whether it has been told something."""
PROBE_AFTER = 2.0
"""Seconds that a step may run before it is asked whether its source is there, and between two such questions."""
PROBE_PATIENCE = 60.0
"""Seconds after which a question that has no answer is asked again."""
JUST_NOW = 3.0
"""Seconds before Spark's end in which a step that failed may have been the one that ended it."""
TURN = 60.0
"""Seconds that a suspect waits for another one's step, at most."""
LAG_EVERY = 2.0
"""Seconds between two looks at how far a flow is behind, at most."""
LAG_SHARE = 0.02
"""The part of the time that these looks may take: where one is quick there is one after every step."""

_ENDED = (FlowState.DONE, FlowState.FAILED, FlowState.BLOCKED, FlowState.PAUSED)

log = get_logger(__name__)


@dataclass
class FlowWorker:
    """One flow's loop, in a thread of its own. An error that may go away is tried again; any other ends this flow
    alone, until somebody resumes it."""

    setup: FlowSetup
    spark: SparkSession
    lease: Lease
    trigger: Trigger
    report: FlowReport
    tell: Callable[[FlowEvent], None]
    stopping: threading.Event
    control: Control
    spark_ended: threading.Event = field(default_factory=threading.Event)
    """Set by the first flow that finds Spark dead: that is no failure of the flow's."""
    places: Sequence[str] = ()
    """The folders that it writes to, for errors that name no file."""
    mounted: Callable[[], None] = lambda: None
    """Raises when the warehouse is gone."""
    ready: threading.Event = field(default_factory=threading.Event)
    """Where the run is to come to an end: this flow's end is known."""
    over: threading.Event = field(default_factory=threading.Event)
    """This flow is done, or will not be."""
    blockers: Callable[[], tuple[str, ...]] = lambda: ()
    """The flows above this one that have been given up."""
    given_up_for: HeadwaterError | None = None
    """Why it is given up from the beginning, until somebody resumes it."""
    turn: threading.Lock | None = None
    """Where its step may have ended Spark, or another flow's: held for its first try, one flow at a time."""
    _others: Callable[[], bool] = lambda: True
    _back_off: BackOff = field(default_factory=BackOff)
    _flow: Steps | None = None
    _step_begun: float | None = None
    _step_failed: float | None = None
    _probed: float = 0.0
    _look_at: float = 0.0
    """When the next look at the lag is due."""
    _looked: bool = False
    """Whether there has been one since the last step."""

    @property
    def tag(self) -> str:
        """What the flow's Spark jobs are found by. A job group won't do: Hudi sets its own."""
        return f"headwater:{self.setup.flow}"

    def run(self, others: Callable[[], bool]) -> None:
        """Until the flow is done or told to stop. `others`: may this one begin, as far as others go."""
        self._others = others
        self.report.state, self.report.error, self.report.retry_at = FlowState.STARTING, None, None
        try:
            # What is set here is this thread's: PySpark gives each thread of Python one of the JVM.
            context = self.spark.sparkContext
            context.setLocalProperty("spark.scheduler.pool", self.setup.flow)
            context.addJobTag(self.tag)
            context.setInterruptOnCancel(True)
            self.spark = fork(self.spark)
            activate(self.spark)
            self._say("started")
            while not self.stopping.is_set() and not self._turn():
                pass
        except BaseException as caught:
            if not self._spark_has_ended():
                self._fail(as_headwater_error(caught, self.places), caught)
        finally:
            self._let_go()
            ended = self.report.state in _ENDED
            if not ended and not self.spark_ended.is_set():
                self.report.state = FlowState.STOPPED
                self._say("stopped")
            self.ready.set()
            self.over.set()

    def probe(self) -> None:
        """Find out why a step takes long, in a thread of its own: called every so often by another thread."""
        begun, flow, now = self._step_begun, self._flow, time.monotonic()
        if begun is None or flow is None or now - max(begun, self._probed) < PROBE_AFTER:
            return
        self._probed = now + PROBE_PATIENCE  # not another one while this one waits

        def ask() -> None:
            trouble = None
            try:
                flow.probe()
            except HeadwaterError as error:
                trouble = error
            if self._step_begun == begun:
                self.report.trouble = trouble
            self._probed = time.monotonic()

        threading.Thread(target=ask, name=f"probe of {self.setup.flow}", daemon=True).start()

    def cancel(self) -> None:
        """End the Spark jobs of the step that runs."""
        with suppress(Exception):  # py4j raises whatever it met: a Spark that is gone has none
            self.spark.sparkContext.cancelJobsWithTag(self.tag)

    @property
    def given_up(self) -> bool:
        return self.report.state is FlowState.FAILED

    def was_in_step(self, at: float) -> bool:
        """Whether Spark, which has ended at that time, may have been ended by this flow's step."""
        return self._step_begun is not None or (self._step_failed is not None and self._step_failed > at - JUST_NOW)

    # --- one turn of the loop; True when it is the last

    def _turn(self) -> bool:
        if self.given_up_for is not None:
            error, self.given_up_for = self.given_up_for, None
            self._fail(error, error)
            return self.trigger == "once" or self._resumed_or_stopped()
        if self.control.paused:
            return self._rest()
        try:
            return self._once() if self.trigger == "once" else self._on()
        except BaseException as caught:  # a library in Rust that panics raises no Exception
            return self._after(caught)

    def _once(self) -> bool:
        flow = self._opened()
        flow.freeze()
        self.ready.set()
        if not self._others():
            return False
        self._catch_up(flow)
        if not self.stopping.is_set() and not self.control.paused:
            self._finish()
        return True

    def _finish(self) -> None:
        """All has been taken that was there: the flow is done, unless one above it was given up."""
        by = self.report.blocked_by = self.blockers()
        if by:
            self.report.state, self.report.error = FlowState.BLOCKED, blocked(self.setup.flow, by)
            self._say("blocked", by=list(by))
        else:
            self.report.state = FlowState.DONE
            self._say("finished", **self._totals())

    def _on(self) -> bool:
        flow = self._opened()
        if isinstance(self.trigger, timedelta):
            self._catch_up(flow)
            self._sleep(self.trigger.total_seconds())
            return False
        recovered = self._take(flow.recover)
        if recovered is not None:
            self._landed(recovered)
            return False
        ahead = flow.ahead()
        self._healthy()
        seconds = self.setup.pace.wait(ahead, time.monotonic())
        behind = Lag(records=0) if ahead is None else Lag(ahead.rows, ahead.bytes)
        if seconds > 0:
            self.report.state = FlowState.WAITING
            self._look_behind(flow, behind)
            flow.wait(self.stopping, seconds)
            return False
        if self.report.lag is None:  # a backlog may be long, and its first step too
            self._look_behind(flow, behind)
        self._step(flow, ahead)
        return False

    def _catch_up(self, flow: Steps) -> None:
        """All steps that can be taken now."""
        if self.stopping.is_set() or self.control.paused:
            return
        recovered = self._take(flow.recover)
        if recovered is not None:
            self._landed(recovered)
        with suppress(HeadwaterError):  # the step itself says what is wrong
            self._look_behind(flow, None)
        while not self.stopping.is_set() and not self.control.paused and self._step(flow):
            pass
        self._healthy()
        if not self.stopping.is_set():
            self._look_behind(flow, Lag(records=0), now=not self._looked or self.report.lag is None)
        self.report.state = FlowState.WAITING

    def _step(self, flow: Steps, range: OffsetRange | None = None) -> bool:
        self.mounted()
        self.report.state = FlowState.RUNNING
        done = self._take(lambda: flow.step(range))
        if done is not None:
            self._landed(done)
            self._look_behind(flow, None)
        return done is not None

    def _take(self, take: Callable[[], StepDone | None]) -> StepDone | None:
        """Have the flow take a step, or finish one; a suspect waits until no other one is at that."""
        turn, done, is_held = self.turn, None, self._wait_for_turn()
        if turn is not None and self.stopping.is_set():
            if is_held:
                turn.release()
            return None
        self._step_begun, self._step_failed = time.monotonic(), None
        try:
            done = take()
            return done
        except BaseException:
            self._step_failed = time.monotonic()
            if is_held:
                self.spark_ended.wait(JUST_NOW)  # a job fails before the Spark that it ends is gone
            raise
        finally:
            if done is not None or self._step_failed is not None:
                self.turn = None
            self._step_begun = self.report.trouble = None
            if turn is not None and is_held and not has_ended():
                turn.release()

    def _wait_for_turn(self) -> bool:
        """Whether it is this suspect's turn; one that waits too long goes on without."""
        until = time.monotonic() + TURN
        while self.turn is not None and not self.stopping.is_set() and time.monotonic() < until:
            if self.turn.acquire(timeout=0.1):
                return True
        return False

    def _landed(self, done: StepDone) -> None:
        self.setup.pace.taken()
        self.report.landed(done)
        self._looked = False
        self._healthy()
        self._say(
            "step",
            epoch=done.epoch,
            step=done.step,
            version=done.landed.version,
            rows=done.landed.rows,
            rejected=done.landed.rejected,
            recovered=done.recovered,
            **({} if done.landed.checks is None else {"checks": dict(done.landed.checks)}),
        )

    def _opened(self) -> Steps:
        if self._flow is None:
            self.mounted()
            self._flow = self.setup.open(self.spark, self._guard)
        return self._flow

    def _guard(self) -> None:
        """Right before a commit: the flow is ours, and the warehouse is there."""
        self.lease.check()
        self.mounted()

    def _let_go(self) -> None:
        """Drop the open flow: what it holds in memory may not be what is in the lake."""
        flow, self._flow = self._flow, None
        if flow is not None:
            try:
                flow.close()
            except Exception as caught:
                log.warning("input not closed", flow=self.setup.flow, error=str(caught))

    def _look_behind(self, flow: Steps, otherwise: Lag | None, *, now: bool = False) -> None:
        """How far the flow is behind, where it is time to ask or has to be known `now`; `otherwise`: where it can't
        tell itself."""
        begun = time.monotonic()
        if begun < self._look_at and not now:
            return
        self.report.lag = flow.lag() or otherwise
        self.report.positions = flow.positions
        ended = time.monotonic()
        self._looked, self._look_at = True, ended + min(LAG_EVERY, (ended - begun) / LAG_SHARE)

    # --- when it does not go well, or people interfere

    def _after(self, caught: BaseException) -> bool:
        """A turn failed."""
        error = as_headwater_error(caught, self.places)
        self._let_go()
        if self.stopping.is_set() or self._spark_has_ended():
            log.info("step cut off", flow=self.setup.flow, error=str(error))
            return True  # it is done again at the next start
        if not isinstance(error, TransientError) or (
            self.trigger == "once" and self._back_off.failures >= TRIES_OF_ONCE - 1
        ):
            self._fail(error, caught)
            return self.trigger == "once" or error.code is Code.LEASE_LOST or self._resumed_or_stopped()
        away = error.code is Code.SOURCE_UNAVAILABLE
        seconds = self._back_off.next(SOURCE_RETRY if away else LONGEST_RETRY)
        self.report.state, self.report.error = FlowState.RETRYING, error
        self.report.retry_at = datetime.now(timezone.utc) + timedelta(seconds=seconds)
        log.warning("flow failed", flow=self.setup.flow, error=str(error), retry_in=seconds, exc_info=caught)
        self._say("retry", error=str(error), code=str(error.code), seconds=round(seconds, 1))
        self._sleep(seconds)
        return False

    def _spark_has_ended(self) -> bool:
        if has_ended():
            self.spark_ended.set()
        return self.spark_ended.is_set()

    def _fail(self, error: HeadwaterError, caught: BaseException) -> None:
        self.report.state, self.report.error = FlowState.FAILED, error
        log.error("flow given up", flow=self.setup.flow, error=str(error), exc_info=caught)
        self._say("failed", error=str(error), code=str(error.code))

    def _healthy(self) -> None:
        self._back_off.over()
        self.report.error = self.report.retry_at = None

    def _resumed_or_stopped(self) -> bool:
        """Given up: down until somebody resumes it. Whether it is over."""
        seen = self.control.resumed
        while not self.stopping.wait(NAP):
            if self.control.resumed != seen:
                self._back_off.over()
                self.report.state = FlowState.STARTING
                self._say("resumed")
                return False
        return True

    def _rest(self) -> bool:
        """Paused: nothing is done until it is resumed. A run that comes to an end does not wait for that."""
        self._let_go()
        self.report.state = FlowState.PAUSED
        self._say("paused")
        if self.trigger == "once":
            return True
        while self.control.paused:
            if self.stopping.wait(NAP):
                return True
        self.report.state = FlowState.STARTING
        self._say("resumed")
        return False

    def _sleep(self, seconds: float) -> None:
        """For so long, or until somebody wants something."""
        control, until = self.control, time.monotonic() + seconds
        while self.control == control and (left := until - time.monotonic()) > 0:
            if self.stopping.wait(min(left, NAP)):
                return

    def _totals(self) -> Mapping[str, Any]:
        return {"steps": self.report.steps, "rows": self.report.rows, "rejected": self.report.rejected}

    def _say(self, event: str, **details: Any) -> None:
        self.tell(FlowEvent(event, self.setup.flow, details))
