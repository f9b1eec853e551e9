"""Work on a flow's table: alongside the runner that has the flow, or alone while that lets go of it."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.state import State
from headwater.runner.holders import Holder
from headwater.runner.leases import Lease, held
from headwater.runner.setups.setup import Guard
from headwater.spark.session import is_running, jvm_pid
from headwater.warehouse import Warehouse

REQUESTED = 5.0
"""Seconds that a request to let go of a flow is good for, unless it is made again."""
LETTING_GO = 15.0
"""Seconds that a runner may take to hear of a request and to unwind a cancelled step, alongside
`runtime.stop_within`."""

_working: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""In a runner each command has its own thread: one at a time works on a flow's table."""
_alongside: Counter[str] = Counter()
"""Commands of this process that write under the runner's own lease, by flow."""
_in_background: Counter[str] = Counter()
"""Flows that maintenance works on, or is about to."""
_counting = threading.Lock()


@contextmanager
def holding(warehouse: Warehouse, flow: str, *, wait: bool = False) -> Iterator[Guard]:
    """While this is open nobody else writes the flow's table; refused (FLOW_HELD) where another process may.

    Inside the runner that holds the flow its steps go on: commits of one process take turns by the table's lock.
    `wait`: for whoever works on it in this process, who is refused otherwise.
    """
    warehouse.project.require_whole()
    with _one_command(warehouse, flow, wait), _held(warehouse, flow) as guard:
        yield guard


@contextmanager
def holding_in_background(warehouse: Warehouse, flow: str) -> Iterator[Guard]:
    """The same for maintenance alongside the flows: commands wait for its one piece of work, and are not refused."""
    warehouse.project.require_whole()
    key = _key(warehouse, flow)
    with _counting:
        _in_background[key] += 1
    try:
        with _one_command(warehouse, flow, False, background=True), _held(warehouse, flow) as guard:
            yield guard
    finally:
        with _counting:
            _in_background[key] -= 1


@contextmanager
def alone(warehouse: Warehouse, flow: str, *, wait: bool = False) -> Iterator[Guard]:
    """While this is open nobody runs the flow: a runner that has it is asked to let go of it, and takes it back at the
    end, opened again. Refused (FLOW_HELD) where it does not let go in time."""
    warehouse.project.require_whole()
    with _one_command(warehouse, flow, wait):
        with _renewed(warehouse, _let_go(warehouse, flow)) as guard:
            yield guard


def is_written_alongside(warehouse: Warehouse, flow: str) -> bool:
    """Whether a command of this process relies on the runner's lease on a flow."""
    with _counting:
        return _alongside[_key(warehouse, flow)] > 0


def _key(warehouse: Warehouse, flow: str) -> str:
    return f"{warehouse.context.warehouse}/{flow}"


@contextmanager
def _one_command(warehouse: Warehouse, flow: str, wait: bool, *, background: bool = False) -> Iterator[None]:
    working = _working[_key(warehouse, flow)]
    acquired = working.acquire(blocking=wait) or (not background and _outlast(working, _key(warehouse, flow)))
    if not acquired:
        raise TerminalError(
            Code.FLOW_HELD, f"another command works on {flow} already", hint="try again when that is over"
        )
    try:
        yield
    finally:
        working.release()


def _outlast(working: threading.Lock, key: str) -> bool:
    """Wait while maintenance works on a flow; whether the flow was free then."""
    while True:
        with _counting:
            if not _in_background[key]:
                return working.acquire(blocking=False)
        if working.acquire(timeout=0.1):
            return True


@contextmanager
def _held(warehouse: Warehouse, flow: str) -> Iterator[Guard]:
    state, key = warehouse.state, _key(warehouse, flow)
    with _counting:
        _alongside[key] += 1  # before the lease is looked at: the runner does not let go of it from now on
    try:
        record = state.lease(flow)
        if record is not None and held(record, state.now()).live and Holder.from_record(record.holder).is_me:
            yield lambda: None
            return
    finally:
        with _counting:
            _alongside[key] -= 1
    with _renewed(warehouse, _lease_of_command(warehouse, flow)) as guard:
        yield guard


@contextmanager
def _renewed(warehouse: Warehouse, lease: Lease) -> Iterator[Guard]:
    """A lease, kept alive until the work is done."""
    duration = warehouse.project.settings.runtime.lease
    me = _me()
    over = threading.Event()

    def renew() -> None:
        while not over.wait(duration.total_seconds() / 4):
            lease.renew(me)

    thread = threading.Thread(target=renew, name=f"lease of {lease.flow}", daemon=True)
    thread.start()
    try:
        yield lease.check
    finally:
        over.set()
        thread.join()
        lease.release()


def _me() -> Holder:
    return Holder.here().with_jvm(jvm_pid() if is_running() else None)


def _lease_of_command(warehouse: Warehouse, flow: str) -> Lease:
    return Lease.take(warehouse.state, flow, _me(), warehouse.project.settings.runtime.lease, of_command=True)


def _let_go(warehouse: Warehouse, flow: str) -> Lease:
    """The flow's lease, once the runner that has it has let go of it."""
    state: State = warehouse.state
    runtime, token = warehouse.project.settings.runtime, uuid.uuid4().hex
    deadline = time.monotonic() + runtime.stop_within.total_seconds() + LETTING_GO
    asked = float("-inf")
    try:
        while True:
            try:
                return _lease_of_command(warehouse, flow)
            except HeadwaterError as error:
                if error.code is not Code.FLOW_HELD or time.monotonic() > deadline:
                    raise
            if time.monotonic() - asked > REQUESTED / 2:
                state.ask_release(flow, token, REQUESTED)
                asked = time.monotonic()
            time.sleep(0.1)
    finally:
        if asked > float("-inf"):
            state.end_release(flow, token)
