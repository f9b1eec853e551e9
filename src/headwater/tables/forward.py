"""A table whose query or function has changed and that goes on from where it is: what is there stays."""

from __future__ import annotations

import hashlib
import inspect
from dataclasses import replace

from headwater.core.model import Kind
from headwater.core.spec import Table
from headwater.flows.ledger import Ledger, flow_name
from headwater.project.decorators import Registered
from headwater.project.definition import ProjectDefinition
from headwater.project.transforms import transform_of
from headwater.views.records import Notes
from headwater.warehouse import Warehouse, fingerprint


def made_by(project: ProjectDefinition, definition: Table) -> str:
    """Changes when the rows of a table may be others: by its definition, or by the text of its function.

    What is expected of rows is asked of those to come; the rows that are there stay.
    """
    of_query = fingerprint(definition.model_copy(update={"expect": {}}))
    function = transform_of(project, definition)
    return of_query if function is None else f"{of_query}-{_text_of(function)}"


def carry_forward(warehouse: Warehouse, definition: Table, *, other: bool) -> None:
    """From now on the table is kept by this definition, without what it has ingested being read again.

    `other`: by another query or function than before. Else only what does not make its rows has changed.
    """
    flow = flow_name(definition.name, Kind.TABLE)
    ledger = Ledger(warehouse.files, flow)
    last, now = ledger.last(), made_by(warehouse.project, definition)
    if last is None or last.definition == now:
        return
    if other:
        # The columns that its inputs had when it was built are forgotten: those that came since may be used.
        Notes(warehouse.files, flow, last.epoch).forget_columns()
    elif last.definition.partition("-")[2] != now.partition("-")[2]:
        return  # the text of its function is another one too, which is not ours to decide
    ledger.write(replace(last, definition=now))


def keep_on(warehouse: Warehouse, view: str) -> None:
    """From now on a view is kept by its definition of now, in which nothing that makes its rows has changed."""
    ledger = Ledger(warehouse.files, flow_name(view, Kind.VIEW))
    last, now = ledger.last(), fingerprint(warehouse.definition(Kind.VIEW, view))
    if last is not None and last.definition != now:
        ledger.write(replace(last, definition=now))


def _text_of(function: Registered) -> str:
    try:
        text = inspect.getsource(function.function).encode()
    except (OSError, TypeError):  # made without a file
        text = getattr(function.function, "__code__", function).__repr__().encode()
    return hashlib.sha256(text).hexdigest()[:8]
