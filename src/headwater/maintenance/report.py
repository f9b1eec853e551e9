"""`headwater maintain`: maintenance of a whole lake, once, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from headwater.core.record import Record
from headwater.core.spec import MaintenanceSpec
from headwater.flows.ledger import flow_name
from headwater.maintenance.holds import Hold, Holds
from headwater.maintenance.run import LakeMaintenance
from headwater.maintenance.subject import FAILED, MaintenanceAction, MaintenanceMemory
from headwater.runner.holds import holding
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class MaintenanceReport(Record):
    """What was done, or is due; and who needs which old version."""

    dry_run: bool
    actions: tuple[MaintenanceAction, ...]
    holds: tuple[Hold, ...]

    @property
    def failed(self) -> bool:
        """Whether something could not be done."""
        return any(action.outcome == FAILED for action in self.actions)


def maintain(
    warehouse: Warehouse,
    names: Sequence[str] = (),
    *,
    dry_run: bool = False,
    on_action: Callable[[MaintenanceAction], None] = lambda action: None,
) -> MaintenanceReport:
    """Do what is due to the named relations, or to all; what fails does not keep the others from theirs.

    Whoever asks for it does not mean the window of the project: it is done now.
    """
    warehouse.require_lake()
    held: Callable[[Warehouse, str], AbstractContextManager[Callable[[], None]]] = partial(holding, wait=True)
    settings = warehouse.project.settings.maintenance or MaintenanceSpec()
    work = LakeMaintenance(warehouse, held, MaintenanceMemory.of(warehouse.state), settings=settings)
    actions = []
    relations = work.relations(names)
    for kind, name in relations:
        for action in work.look(kind, name, dry_run=dry_run):
            on_action(action)
            actions.append(action)
    pruned = None if names else work.prune(dry_run=dry_run)
    if pruned is not None:
        on_action(pruned)
        actions.append(pruned)
    holds, labels = Holds.of(warehouse), {flow_name(name, kind) for kind, name in relations}
    shown = (hold for label in sorted(labels) for hold in holds.by_relation.get(label, ()))
    return MaintenanceReport(dry_run, tuple(actions), tuple(shown))
