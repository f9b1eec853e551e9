"""What has to be right before a flow's first step: who may write the table, and what a start over leaves in it."""

from __future__ import annotations

from headwater.core.errors import Code, UsageError
from headwater.core.secret import Secret
from headwater.core.spec import RelationSpec
from headwater.flows.ledger import Epoch
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.formats.spark_table import SparkTable
from headwater.warehouse import Warehouse


def notes_of(epoch: Epoch) -> list[str]:
    """Where in the flow's folder its reader keeps its notes: a new epoch begins without the old one's."""
    return [] if epoch.number == 1 else [f"epoch-{epoch.number}"]


def empty(table: SparkTable) -> None:
    """Take all rows out of a table that is to be filled again: its past stays where the format can replace."""
    if not table.exists() or table.read().isEmpty():
        return
    if table.format.can(Capability.REPLACE):
        table.replace(table.spark.createDataFrame([], table.schema()))
    else:
        table.drop()


def require_fence(warehouse: Warehouse, definition: RelationSpec) -> None:
    """On a lake that machines share, a runner that was thought dead must not be able to commit."""
    format = FORMATS.get(warehouse.project.format_of(definition))
    if isinstance(warehouse.project.settings.state, Secret) and format.fence is None:
        fenced = ", ".join(each.title for each in FORMATS if each.fence is not None)
        raise UsageError(
            Code.UNSUPPORTED,
            f"{format.title} can't be kept on a lake that several machines share: nothing stops a late writer",
            where=definition.where,
            hint=f"take {fenced}, or `state: sqlite` and one machine",
        )
