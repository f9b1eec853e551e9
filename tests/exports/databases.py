"""Exports to a database, as the engine calls a target: snapshots and steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import Where
from headwater.core.model import CommitTag
from headwater.core.secret import Secret
from headwater.core.spec import Export
from headwater.core.spec.base import placed
from headwater.exports.checksum import measured_on_the_way
from headwater.exports.read_back import read_back
from headwater.formats.base import LakeContext
from headwater.sources.base import SourceSpec
from headwater.targets.base import Destination, ExportTarget, SourceState
from headwater.targets.registry import TARGETS

FLOW = "exports.orders"


class Database(SourceSpec):
    """An entry of `sources:` that names a database."""

    dsn: Secret


@dataclass
class Copy:
    """One export: each `open` is another process's."""

    spark: SparkSession
    folder: Path
    keys: dict[str, Any]
    sources: dict[str, SourceSpec]
    storage: dict[str, Any] = field(default_factory=dict)
    opened: list[ExportTarget] = field(default_factory=list)

    def close(self) -> None:
        for target in self.opened:
            target.close()

    def open(self, **keys: Any) -> ExportTarget:
        definition = Export.model_validate({"from": "table('orders')", **self.keys, **keys})
        context = LakeContext(warehouse=str(self.folder / "warehouse"), home=str(self.folder), storage=self.storage)
        kind = TARGETS.get(definition.format)
        target = kind.open(Destination(definition, context, self.spark, definition.to, self.sources))
        self.opened.append(target)
        return target

    def snapshot(self, rows: DataFrame, **keys: Any) -> Any:
        """Staged, read back and published, as `exports/snapshot.py` does it."""
        target = self.open(**keys)
        target.check(rows.schema)
        source = SourceState("tables.orders", {"tables.orders": 7}, "run-1")
        rows, told = measured_on_the_way(target.prepared(rows))
        try:
            written = target.stage(rows, source)
            found = read_back(target.readers(), rows.schema, told(), "here")
            target.publish(written, source, told())
        except BaseException:
            target.discard()
            raise
        return found

    def step(self, change: DataFrame, number: int, *, epoch: int = 1, flow: str = FLOW, **keys: Any) -> Any:
        """A step by a process of its own."""
        target = self.open(**keys)
        tag = CommitTag(flow, epoch, number, {"orders": number})
        if target.landed(tag):
            return None
        return target.apply(change, tag, first=number == 0)


def database(dsn: str) -> dict[str, SourceSpec]:
    return {"crm": placed(Database.model_validate({"type": "database", "dsn": dsn}), "crm", Where("headwater.yml"))}
