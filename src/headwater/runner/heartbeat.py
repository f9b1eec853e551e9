"""What goes on alongside the flows while they run: leases are renewed, their state is written down, orders are read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from headwater.core.errors import HeadwaterError
from headwater.core.logs import get_logger
from headwater.core.state import Control, State
from headwater.runner.flow_worker import FlowWorker
from headwater.runner.holders import Holder
from headwater.runner.leases import Lease
from headwater.runner.reports import FlowReport

EVERY = 0.5
"""Seconds between two rounds."""

log = get_logger(__name__)


class Heartbeat:
    """One thread for all flows of a runner."""

    def __init__(self, state: State, holder: Holder, duration: timedelta) -> None:
        self.state = state
        self.holder = holder
        self.duration = duration
        self.leases: dict[str, Lease] = {}
        self.reports: list[FlowReport] = []
        self.keepers: Callable[[], Sequence[FlowWorker]] = lambda: ()
        self._written: dict[str, object] = {}
        self._renewed = time.monotonic()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing: dict[str, type[BaseException]] = {}
        """What could not be done in the last round."""
        self.also: Callable[[], None] = lambda: None
        """Called with every round."""

    def start(self) -> None:
        self._thread = threading.Thread(target=self._go, name="heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Write down how the flows ended, and let go of them."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        self._guarded(self._write)
        for lease in list(self.leases.values()):
            self._guarded(lease.release)

    def add(self, lease: Lease, report: FlowReport) -> None:
        """Look after one more flow."""
        self.leases[lease.flow] = lease
        self.reports = [one for one in self.reports if one.flow != lease.flow] + [report]

    def remove(self, flow: str) -> None:
        """Write down how a flow ended, and let go of it."""
        self._guarded(self._write)
        self.reports = [one for one in self.reports if one.flow != flow]
        self._written.pop(flow, None)
        lease = self.leases.pop(flow, None)
        if lease is not None:
            self._guarded(lease.release)

    def control(self, flow: str) -> Control:
        return self.state.controls().get(flow, Control())

    def renew(self) -> None:
        """Say of every flow that it is in good hands."""
        for lease in list(self.leases.values()):
            if not lease.lost and not lease.renew(self.holder):
                log.error("lease lost", flow=lease.flow)
        self._renewed = time.monotonic()

    def _go(self) -> None:
        while not self._ending.wait(EVERY):
            if time.monotonic() - self._renewed >= self.duration.total_seconds() / 4:
                self._guarded(self.renew)
            self._guarded(self._listen)
            for keeper in self.keepers():
                keeper.probe()
            self._guarded(self._write)
            self._guarded(self.also)

    def _listen(self) -> None:
        """Pass on what people have told the flows."""
        controls = self.state.controls()
        for keeper in self.keepers():
            keeper.control = controls.get(keeper.setup.flow, Control())

    def _write(self) -> None:
        """Keep what has changed of the flows' states."""
        records = {report.flow: report.status() for report in self.reports}
        changed = {flow: record for flow, record in records.items() if self._written.get(flow) != record}
        self.state.put_statuses(changed)
        self._written.update(changed)

    def _guarded(self, act: Callable[[], None]) -> None:
        """The state database may be away for a while; what needs it is tried again with the next round."""
        what = getattr(act, "__name__", repr(act))
        try:
            act()
        except Exception as error:
            if self._failing.get(what) is not type(error):  # once, and not with every round
                self._failing[what] = type(error)
                unknown = None if isinstance(error, (HeadwaterError, OSError)) else error
                log.warning("heartbeat failed", what=what, error=str(error), exc_info=unknown)
        else:
            if self._failing.pop(what, None):
                log.info("heartbeat is back", what=what)
