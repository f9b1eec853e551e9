"""Where an export goes: its target, opened in a Spark that knows the format and the place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.core.spec import Export
from headwater.spark.session import fork
from headwater.targets.base import Destination, ExportTarget
from headwater.targets.registry import TARGETS
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def location_of(warehouse: Warehouse, definition: Export) -> str:
    """The full path, URI or name of a destination."""
    kind = TARGETS.get(definition.format)
    return kind.locate(definition, warehouse.project.location, warehouse.context)


def open_target(warehouse: Warehouse, definition: Export, spark: SparkSession | None = None) -> ExportTarget:
    """The target of an export, in a session of its own; Spark starts if it hasn't."""
    kind = TARGETS.get(definition.format)
    location = location_of(warehouse, definition)
    warehouse.need(kind.needs(warehouse.context), location)
    session = spark or fork(warehouse.spark)
    return kind.open(Destination(definition, warehouse.context, session, location, warehouse.project.sources))
