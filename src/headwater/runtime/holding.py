"""Work on a flow's table beside its steps: by the runner that holds the flow, else under a lease of its own."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.errors import Code, TerminalError
from headwater.runtime.holders import Holder
from headwater.runtime.leases import Lease, held
from headwater.runtime.plans import Guard
from headwater.session import jvm_pid
from headwater.warehouse import Warehouse

_working: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""In a runner each command has its own thread: one at a time works on a flow's table."""


@contextmanager
def holding(warehouse: Warehouse, flow: str, *, wait: bool = False) -> Iterator[Guard]:
    """While this is open nobody else writes the flow's table; refused (FLOW_HELD) where another process may.

    Inside the runner that holds the flow its steps go on: commits of one process take turns by the table's lock.
    `wait`: for whoever works on it in this process, who is refused otherwise.
    """
    working = _working[f"{warehouse.around.warehouse}/{flow}"]
    if not working.acquire(blocking=wait):
        raise TerminalError(
            Code.FLOW_HELD, f"another command works on {flow} already", hint="try again when that is over"
        )
    try:
        with _held(warehouse, flow) as guard:
            yield guard
    finally:
        working.release()


@contextmanager
def _held(warehouse: Warehouse, flow: str) -> Iterator[Guard]:
    state = warehouse.state
    record = state.lease(flow)
    if record is not None and held(record, state.now()).live and Holder.from_record(record.holder).is_me:
        yield lambda: None
        return
    duration = warehouse.project.settings.runtime.lease
    me = Holder.here().with_jvm(jvm_pid())
    lease = Lease.take(state, flow, me, duration)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(duration.total_seconds() / 4):
            lease.renew(me)

    thread = threading.Thread(target=renew, name=f"lease of {flow}", daemon=True)
    thread.start()
    try:
        yield lease.check
    finally:
        over.set()
        thread.join()
        lease.release()
