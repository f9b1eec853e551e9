"""`system.dead_letters`: the lake's table of dead letters, without their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headwater.core.state.history import LONGEST_ERROR, shortened
from headwater.formats.registry import SYSTEM_FORMAT
from headwater.ingest.dead_letter_list import address_in
from headwater.query.system.table import SystemTable
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = {
    "id": "string", "topic": "string", "source": "string", "reason": "string", "message": "string",
    "position": "string", "at": "timestamp", "flow": "string", "epoch": "bigint", "step": "bigint",
}  # fmt: skip


def dead_letters_table() -> SystemTable:
    return SystemTable(
        "dead_letters", "events that could not be ingested, without their bytes", _COLUMNS, _values, _by_spark
    )


def _values(warehouse: Warehouse, columns: Sequence[str]) -> list[list[Any]]:
    assert SYSTEM_FORMAT.native is not None
    table = SYSTEM_FORMAT.native(address_in(warehouse.context), warehouse.context)
    if not table.exists():
        return [[] for _ in columns]
    read = table.read(columns=list(columns)).read_all()
    found: dict[str, list[Any]] = {name: read[name].to_pylist() for name in columns}
    if "message" in found:
        found["message"] = [value and shortened(value) for value in found["message"]]
    return list(found.values())


def _by_spark(warehouse: Warehouse, session: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F

    rows = SYSTEM_FORMAT.spark(session, address_in(warehouse.context), warehouse.context).read()
    return rows.select(*_COLUMNS).withColumn("message", F.substring("message", 1, LONGEST_ERROR))
