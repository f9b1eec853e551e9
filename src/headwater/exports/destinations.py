"""Where an export goes: its target, opened in a Spark that knows the format and the place."""

from __future__ import annotations

from headwater.core.spec import Export
from headwater.targets.base import Destination, ExportTarget
from headwater.targets.registry import TARGETS
from headwater.warehouse import Warehouse


def location_of(warehouse: Warehouse, definition: Export) -> str:
    """The full path, URI or name of a destination."""
    kind = TARGETS.get(definition.format)
    return kind.locate(definition, warehouse.project.location, warehouse.context)


def open_target(warehouse: Warehouse, definition: Export) -> ExportTarget:
    """The target of an export; Spark starts if it hasn't."""
    kind = TARGETS.get(definition.format)
    location = location_of(warehouse, definition)
    warehouse.need(kind.needs(warehouse.context), location)
    return kind.open(Destination(definition, warehouse.context, warehouse.spark, location, warehouse.project.sources))
