"""The layout that a Hudi table was made with, from its properties; of another writer's table what these tell."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.core.spec import Layout
from headwater.formats.hudi.instants import LAYOUT

TABLE_TYPE = "hoodie.datasource.write.table.type"
MERGE_ON_READ = "MERGE_ON_READ"


def layout_of(properties: Mapping[str, str]) -> Layout:
    """As it was given, or as the table's keys, partitions and type say."""
    stored = properties.get(LAYOUT)
    if stored is not None:
        return Layout.model_validate_json(stored)
    return Layout(
        keys=_names(properties.get("hoodie.table.recordkey.fields")),
        partition_by=_names(properties.get("hoodie.table.partition.fields")),
        options={TABLE_TYPE: MERGE_ON_READ} if properties.get("hoodie.table.type") == MERGE_ON_READ else {},
    )


def _names(listed: str | None) -> tuple[str, ...]:
    """A property that lists columns; one of them may carry its key generator's kind (`day:simple`)."""
    return tuple(name.split(":")[0] for name in (listed or "").split(",") if name)
