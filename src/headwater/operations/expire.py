"""Old versions go, but never one that a flow has still to read from, or that has a label."""

from __future__ import annotations

from datetime import datetime

from headwater.core.model import Kind, Version
from headwater.flows.ledger import Ledger, flow_name
from headwater.operations.tags import protected
from headwater.runner.setups.setup import flow_names
from headwater.warehouse import Warehouse


def needed(warehouse: Warehouse, kind: Kind, name: str) -> dict[Version, str]:
    """Versions of a relation that something needs, and what."""
    label = flow_name(name, kind)
    found = dict.fromkeys(protected(warehouse, kind, name), "a label")
    for flow in flow_names(warehouse):
        last = Ledger(warehouse.files, flow).last()
        if last is None:
            continue
        for positions in (last.start, last.end):
            position = positions.get(label)
            if isinstance(position, dict) and position.get("version") is not None:
                found[int(position["version"])] = flow
    return found


def expire(warehouse: Warehouse, kind: Kind, name: str, older_than: datetime) -> list[Version]:
    """Forget the versions older than a time that nothing needs; returns those that went."""
    return list(warehouse.existing(kind, name).expire(older_than, keep=needed(warehouse, kind, name)).versions)
