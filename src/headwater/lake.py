"""The Python API: a lake, its relations, its queries, its flows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headwater.errors import Code, ProjectError, UsageError
from headwater.formats.base import Address, Capability, SparkTable
from headwater.model import At, Commit, Kind, Version
from headwater.project.check import check_project
from headwater.project.definition import Project
from headwater.project.loader import load_project
from headwater.spec import Topic
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.flows import StepDone
    from headwater.query.result import Result
    from headwater.runtime.runner import FlowReport


class Lake:
    """A project's lake. Spark starts with the first call that needs it; `close` ends it."""

    def __init__(self, project: Project) -> None:
        problems = check_project(project)
        if problems:
            raise ProjectError(problems)
        self.project = project
        self._warehouse = Warehouse(project)

    @classmethod
    def open(cls, path: Path | str = ".", target: str | None = None) -> Lake:
        """The lake of the project at or above a path."""
        return cls(load_project(path, target))

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def spark(self) -> SparkSession:
        return self._warehouse.spark

    def connectors(self) -> list[str]:
        """Names in the connector lock: what the project's session needs."""
        return sorted({name for need in self._warehouse.needs() for name in need.connectors})

    def close(self) -> None:
        self._warehouse.close()

    # --- relations

    def topic(self, name: str) -> Relation:
        return Relation(self._warehouse, Kind.TOPIC, name)

    def table(self, name: str) -> Relation:
        return Relation(self._warehouse, Kind.TABLE, name)

    def view(self, name: str) -> Relation:
        return Relation(self._warehouse, Kind.VIEW, name)

    def foreign(self, format: str, *, path: str | None = None, table: str | None = None) -> SparkTable:
        """Somebody else's table, by path or by name in a catalog: `foreign("iceberg", table="lake.sales.orders")`."""
        if (path is None) == (table is None):
            raise UsageError(Code.USAGE, "give the table's path or its name in a catalog, one of them")
        return self._warehouse.foreign(format, Address(self.project.location(path) if path else None, table))

    def topics(self) -> list[dict[str, Any]]:
        """Every topic: where it comes from, where it is, and whether it has data."""
        return [self.topic(name).summary() for name in self._warehouse.names(Kind.TOPIC)]

    def dead_letters(self, topic: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Events that could not be taken in, newest first."""
        from headwater.deadletters import DeadLetters

        return DeadLetters(self.spark, self._warehouse.around).list(topic, limit)

    # --- work

    def sql(self, query: str) -> Result:
        """The answer to a SELECT over `topic('x')`, `table('x')`, `mv('x')`."""
        from headwater.query.spark import answer

        return answer(self._warehouse, query)

    def run(
        self,
        flows: Sequence[str] = (),
        *,
        once: bool = False,
        every: timedelta | None = None,
        on_step: Callable[[StepDone], None] | None = None,
        stopping: threading.Event | None = None,
    ) -> list[FlowReport]:
        """Run flows until they are up to date (`once`), or until `stopping` is set."""
        from headwater.runtime.runner import Runner

        runner = Runner(self._warehouse, every, once, on_step or (lambda step: None), stopping or threading.Event())
        return runner.run(flows)


class Relation:
    """A topic, table or view of the lake."""

    def __init__(self, warehouse: Warehouse, kind: Kind, name: str) -> None:
        if name not in warehouse.names(kind):
            raise warehouse.unknown(kind, name)
        self._warehouse = warehouse
        self.kind = kind
        self.name = name

    def df(self, version: At | None = None) -> DataFrame:
        """Its rows, at a version or time."""
        return self._table().read(version)

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """Signed changes between two versions, in the column `_weight`."""
        return self._table().changes(start, end)

    def history(self, limit: int | None = None) -> list[Commit]:
        """Its versions and what made them, newest first."""
        return self._table().history(limit)

    def version_at(self, at: At) -> Version:
        return self._table().version_at(at)

    def read_stream(self, *, changes: bool = False, start: At | None = None, consumer: str = "stream") -> DataFrame:
        """A streaming DataFrame for a query of your own."""
        return self._table().read_stream(changes=changes, start=start, consumer=consumer)

    def sink(self, name: str, *, mode: Literal["append", "upsert"] = "append") -> Callable[[DataFrame, int], None]:
        """An exactly-once sink for `writeStream.foreachBatch`."""
        from headwater.formats.sink import sink

        return sink(self._table(), name, mode=mode)

    def summary(self) -> dict[str, Any]:
        """What is known of it without Spark."""
        record = self._warehouse.record(self.kind, self.name)
        definition = self._warehouse.project.relations(self.kind).get(self.name)
        return {
            "name": self.name,
            "from": definition.from_ if isinstance(definition, Topic) else None,
            "format": self._warehouse.format(self.kind, self.name).name,
            "location": str(self._warehouse.address(self.kind, self.name)),
            "created_at": None if record is None else record.created_at,
            "description": definition.description if definition is not None else "",
        }

    def describe(self) -> dict[str, Any]:
        """What it is, its columns, its latest version and its size."""
        table = self._table()
        layout = table.layout()
        found = {
            **self.summary(),
            "version": table.version(),
            "partition_by": list(layout.partition_by),
            "columns": [{"name": f.name, "type": f.dataType.simpleString()} for f in table.schema().fields],
        }
        if table.format.can(Capability.FILES):
            files = table.files()
            found |= {
                "rows": sum(f.rows or 0 for f in files),
                "files": len(files),
                "bytes": sum(f.bytes for f in files),
            }
        return found

    def _table(self) -> SparkTable:
        return self._warehouse.existing(self.kind, self.name)
