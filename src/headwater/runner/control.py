"""What people do to flows: pause, resume, start over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.flows.ledger import Ledger
from headwater.runner.holders import Holder
from headwater.runner.holds import alone
from headwater.runner.leases import Lease
from headwater.runner.setups.setup import named
from headwater.warehouse import Warehouse


def pause(warehouse: Warehouse, name: str) -> None:
    """Take no further step, from the present one's end on and after restarts, until it is resumed."""
    warehouse.state.set_control(named(warehouse, name), paused=True)


def resume(warehouse: Warehouse, name: str) -> None:
    """Go on with a flow that was paused, or try one again that was given up."""
    warehouse.state.set_control(named(warehouse, name), paused=False)


def start_over(warehouse: Warehouse, name: str, *, empty: bool) -> int:
    """Begin a new epoch: the source is read from its beginning, at once where a runner has the flow, also if it has
    given it up, else with the next run. Returns the epoch's number."""
    flow = named(warehouse, name)
    warehouse.require_lake()
    with alone(warehouse, flow):
        return Ledger(warehouse.files, flow).restart(empty=empty).number


@contextmanager
def holding_alone(warehouse: Warehouse, flow: str) -> Iterator[None]:
    """Nobody may run it meanwhile."""
    lease = Lease.take(warehouse.state, flow, Holder.here(), warehouse.project.settings.runtime.lease, of_command=True)
    try:
        yield
    finally:
        lease.release()
