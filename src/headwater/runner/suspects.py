"""Which flow ends Spark, where it ends again and again: the one whose step is in hand each time."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.runner.flow_worker import FlowWorker
from headwater.runner.reports import FlowReport
from headwater.spark.jvm import Ending

OFTEN = 2
"""Spark's ends after which a flow whose step was in hand at each of them is given up rather than all flows."""


class Suspects:
    """Flows by how often in a row Spark has ended with the same step of theirs in hand.

    In the next Spark they take their first step one after another: whoever ends it then is alone in that.
    """

    def __init__(self) -> None:
        self._ends: dict[str, tuple[int, int]] = {}
        self._given_up: dict[str, HeadwaterError] = {}
        self._turn = Lock()

    def note_end(self, workers: Sequence[FlowWorker], at: float) -> None:
        """Spark has ended under these, at that time."""
        given_up = {worker.setup.flow for worker in workers if self.is_given_up(worker.report)}
        self._given_up = {flow: error for flow, error in self._given_up.items() if flow in given_up}
        ends_by_flow = {}
        for worker in workers:
            flow, steps = worker.setup.flow, worker.report.steps
            if worker.was_in_step(at):
                before, ends = self._ends.get(flow, (steps, 0))
                ends_by_flow[flow] = (steps, ends + 1 if before == steps else 1)
        self._ends, self._turn = ends_by_flow, Lock()

    def give_up(self, ending: Ending) -> dict[str, HeadwaterError]:
        """Those that go on being suspected; why each is given up. None: it may have been anybody."""
        most = max((ends for _, ends in self._ends.values()), default=0)
        if most < OFTEN:
            return {}
        errors: dict[str, HeadwaterError] = {
            flow: TerminalError(
                Code.SPARK_FAILED,
                f"{ending}: the same step of {flow} was in hand each of the last {ends} times, so it is given up",
                hint=f"see .headwater/logs/spark.out; once it is mended: `headwater flow resume {flow}`",
            )
            for flow, (_, ends) in self._ends.items()
            if ends == most
        }
        self._given_up.update(errors)
        self._ends = {}
        return errors

    def prepare(self, worker: FlowWorker) -> None:
        """Before a flow begins in the next Spark: one that was given up and not resumed stays so."""
        flow = worker.setup.flow
        worker.given_up_for = self._given_up.get(flow)
        worker.turn = self._turn if flow in self._ends else None

    def is_given_up(self, report: FlowReport) -> bool:
        """Whether a flow was, and nobody has resumed it since."""
        return report.error is not None and self._given_up.get(report.flow) is report.error
