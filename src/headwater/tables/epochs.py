"""Relations that are rebuilt while others read them: what is to be emptied or replaced is not read before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.core.model import Kind
from headwater.flows.ledger import Ledger, flow_name
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import inputs_of, streaming_tables
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headwater.formats.spark_table import SparkTable


@dataclass(frozen=True)
class KeptTable:
    """A table that a flow keeps, for those who read it."""

    flow: str
    ledger: Ledger
    table: SparkTable

    @classmethod
    def of(cls, warehouse: Warehouse, name: Name, spark: SparkSession) -> KeptTable:
        flow = flow_name(name.name, name.kind)
        return cls(flow, Ledger(warehouse.files, flow), warehouse.table(name.kind, name.name, spark))

    def is_ready(self) -> bool:
        """Whether it has nothing of an earlier epoch left."""
        epoch, last = self.ledger.epoch(), self.ledger.last()
        if epoch.number == 1 or (last is None and not epoch.empty) or (last is not None and last.step > 0):
            return True
        if last is not None and self.table.landed(last.commit_tag(self.flow)) is not None:
            return True
        return self.table.read().isEmpty()


def new_rows_of(warehouse: Warehouse, table: str) -> Iterator[tuple[str, Name]]:
    """What a streaming table's function is given new rows of, by its parameters."""
    project, function = warehouse.project, streaming_tables(warehouse.project)[table]
    reads = graph_of(project).inputs[Name(Kind.TABLE, table)]
    for parameter, each in zip(inputs_of(function, project.root), reads, strict=True):
        if parameter not in function.changes:
            yield parameter, each.of


def is_streamed(warehouse: Warehouse, name: Name) -> bool:
    """Whether a streaming table is given the new rows of a relation: rows that go and come again would be new to it."""
    return any(of == name for table in streaming_tables(warehouse.project) for _, of in new_rows_of(warehouse, table))
