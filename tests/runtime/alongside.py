"""A lake that is run in a thread of this process: tests talk to it as other terminals would."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.api.lake import Lake
from headwater.runner.reports import FlowEvent, FlowReport
from tests.support import Answer, headwater

PATIENCE = 180


def until(met: Callable[[], object], told: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < deadline, f"waited in vain: {told()}"
        time.sleep(0.05)


@dataclass
class Alongside:
    """A lake that is run in a thread of this process, and what it says."""

    root: Path
    events: list[FlowEvent] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    reloading: threading.Event = field(default_factory=threading.Event)
    reports: Sequence[FlowReport] = ()

    def run(self, watch: bool) -> None:
        with Lake.open(self.root) as lake:
            watching: dict[str, Any] = {"reloading": self.reloading, "watch": True} if watch else {}
            lake.run(on_event=self.events.append, stopping=self.stopping, on_ready=self.begin, **watching)

    def begin(self, reports: Sequence[FlowReport]) -> None:
        self.reports = reports

    def told(self) -> list[dict[str, Any]]:
        return [each.record() for each in self.events]

    def report(self, flow: str) -> dict[str, Any]:
        """How a flow is at this moment, without a command that asks for it."""
        return next((one.record() for one in list(self.reports) if one.flow == flow), {"error": None})

    def of(self, event: str, flow: str | None = None) -> list[FlowEvent]:
        return [each for each in self.events if each.event == event and flow in (None, each.flow)]

    def until(self, event: str, flow: str | None = None, times: int = 1) -> FlowEvent:
        """The latest such event, once there have been so many."""
        until(lambda: len(self.of(event, flow)) >= times, self.told)
        return self.of(event, flow)[-1]

    def status(self, flow: str) -> dict[str, Any]:
        return next(one for one in self("status", "--json").json if one["flow"] == flow)

    def __call__(self, *arguments: str) -> Answer:
        return headwater(*arguments, "--project", self.root)


@contextmanager
def running(root: Path, watch: bool = False) -> Iterator[Alongside]:
    found = Alongside(root)
    thread = threading.Thread(target=found.run, args=(watch,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.stopping.set()
        thread.join(60)
        assert not thread.is_alive()
