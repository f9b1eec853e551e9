"""Tables of other formats follow the commits of a runner's flows: a thread of its own syncs them, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from headwater.core.errors import Code, HeadwaterError
from headwater.core.logs import get_logger
from headwater.core.model import Kind, Version
from headwater.exports.interop.sync import SYNCED, sync
from headwater.flows.ledger import flow_name
from headwater.runner.holds import holding_in_background
from headwater.runner.reports import FlowEvent, FlowReport
from headwater.spark.errors import as_headwater_error
from headwater.warehouse import Warehouse

LOOK = 5.0
"""Seconds between two looks where no commit is told of: other processes commit too."""
AGAIN = 60.0
"""Seconds until a sync that has failed is tried again, if no commit comes before."""
UNWINDING = 10.0

log = get_logger(__name__)


class InteropFollower:
    """One per run. It works without Spark, and under the runner's own leases."""

    def __init__(
        self,
        warehouse: Warehouse,
        flows: frozenset[str],
        tell: Callable[[FlowEvent], None],
        report_of: Callable[[str], FlowReport | None],
    ) -> None:
        """`flows`: those of the runner, if it is not for all; `report_of`: where a flow says how it is."""
        self._warehouse = warehouse
        self._flows = flows
        self._tell = tell
        self._report_of = report_of
        self._stopping = threading.Event()
        self._synced: dict[tuple[str, str], Version] = {}
        self._failed: dict[tuple[str, str], tuple[Version, float]] = {}
        self._thread = threading.Thread(target=self._go, name="interop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Begin no further sync; one that is cut off is made good by the next run."""
        self._stopping.set()
        with self._warehouse.committed:
            self._warehouse.committed.notify_all()
        if self._thread.is_alive():
            self._thread.join(UNWINDING)

    def sync_all(self) -> Mapping[str, HeadwaterError]:
        """Bring every target up to date now; flow → why one of its targets is not. Called when a run ends by itself."""
        failed: dict[str, HeadwaterError] = {}
        for kind, name in self._relations():
            for to in self._warehouse.definition(kind, name).interop:
                error = self._sync(kind, name, to)
                if error is not None:
                    failed.setdefault(flow_name(name, kind), error)
        return failed

    # --- inside

    def _go(self) -> None:
        while not self._stopping.is_set():
            try:
                self.sync_all()
            except Exception as caught:  # the state database may be away for a while
                log.warning("interop can't look", error=str(as_headwater_error(caught)))
            with self._warehouse.committed:
                if not self._stopping.is_set():
                    self._warehouse.committed.wait(LOOK)

    def _relations(self) -> list[tuple[Kind, str]]:
        """Those that are to be read as other formats, and have data."""
        relations = []
        for kind in Kind:
            for name, definition in self._warehouse.project.relations(kind).items():
                wanted = not self._flows or flow_name(name, kind) in self._flows
                if definition.interop and wanted and self._warehouse.record(kind, name) is not None:
                    relations.append((kind, name))
        return relations

    def _sync(self, kind: Kind, name: str, to: str) -> HeadwaterError | None:
        label, warehouse, version = flow_name(name, kind), self._warehouse, None
        try:
            version = self._version(kind, name)
            if version is None or self._stopping.is_set() or not self._is_due((label, to), version):
                return None
            with holding_in_background(warehouse, label) as guard:
                done = sync(warehouse, kind, name, to, guard=guard)
        except Exception as caught:
            error = as_headwater_error(caught)
            if error.code is Code.FLOW_HELD:
                return None  # a command or maintenance is at it: at the next look
            self._failed[label, to] = (version or 0, time.monotonic())
            log.warning("interop failed", relation=label, format=to, error=str(error), exc_info=caught)
            self._tell(FlowEvent("interop", label, {"format": to, "error": str(error), "code": str(error.code)}))
            self._trouble(label, error)
            return error
        self._synced[label, to] = done.source_version
        if self._failed.pop((label, to), None) is not None:
            self._trouble(label, None)
        if done.outcome == SYNCED:
            self._tell(FlowEvent("interop", label, {"error": None, **done.to_dict()}))
        return None

    def _version(self, kind: Kind, name: str) -> Version | None:
        format = self._warehouse.format(kind, name)
        if format.native is None:
            return None
        return format.native(self._warehouse.address(kind, name), self._warehouse.context).version()

    def _is_due(self, target: tuple[str, str], version: Version) -> bool:
        if target in self._failed:
            failed, at = self._failed[target]
            return failed != version or time.monotonic() - at > AGAIN
        return self._synced.get(target) != version

    def _trouble(self, label: str, error: HeadwaterError | None) -> None:
        report = self._report_of(label)
        if report is not None:
            report.trouble = error
