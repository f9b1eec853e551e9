"""What a streaming query is given: new rows alone, or signed changes.

A query that is given new rows alone can't take any back. An input that is rebuilt brings all of its rows once more, as
new ones: the query's table is then filled again too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headwater.core.errors import Code, TransientError
from headwater.core.model import Kind
from headwater.core.storage import Files
from headwater.flows.ledger import Ledger, flow_name
from headwater.project.graph import Name
from headwater.project.transforms import streaming_tables
from headwater.tables.epochs import KeptTable, new_rows_of
from headwater.warehouse import Warehouse

_NOTE = "inputs.json"


class InputRebuilt(TransientError):
    """An input has begun a new epoch since the query began to read it."""

    def __init__(self, flow: str, epoch: int) -> None:
        super().__init__(Code.SOURCE_CHANGED, f"{flow} has started over, in epoch {epoch}")


@dataclass(frozen=True)
class StreamInputs:
    """The inputs of one query that it is given new rows of. Opened with the query; `notes` are those of its epoch."""

    inputs: Sequence[KeptTable]
    notes: Files

    def are_ready(self) -> bool:
        return all(one.is_ready() for one in self.inputs)

    def begin(self) -> None:
        """Write down in which epochs the inputs are; raises where the query has read them in other ones."""
        note = self.notes.find(_NOTE)
        if note is None:
            self.notes.write_atomic(_NOTE, json.dumps({one.flow: one.ledger.epoch().number for one in self.inputs}))
        self.check()

    def check(self) -> None:
        """Called before each batch: one with rows of a new epoch can't come before that epoch has begun."""
        begun: dict[str, int] = json.loads(self.notes.read_text(_NOTE)) if self.inputs else {}
        for one in self.inputs:
            epoch = one.ledger.epoch().number
            if begun.get(one.flow, epoch) != epoch:
                raise InputRebuilt(one.flow, epoch)


def restart_streams(warehouse: Warehouse, of: Name) -> None:
    """Fill the tables of streaming queries again that are given new rows of a relation. Called before its rows are
    exchanged for others without a new epoch of its own flow."""
    for name in streaming_tables(warehouse.project):
        ledger = Ledger(warehouse.files, flow_name(name, Kind.TABLE))
        if any(relation == of for _, relation in new_rows_of(warehouse, name)) and ledger.last():
            ledger.restart(empty=True)
