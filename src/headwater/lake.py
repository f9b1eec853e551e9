"""The Python API: a lake, its relations, its queries, its flows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headwater.errors import Code, ProjectError, UsageError, did_you_mean
from headwater.formats.base import Address, Capability, SparkTable
from headwater.model import At, Commit, Kind, Version
from headwater.project.check import check_project
from headwater.project.definition import Project
from headwater.project.loader import load_project
from headwater.spec import Topic, layout_of
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.deadletters import DeadLetters
    from headwater.query.result import Result
    from headwater.runtime.door import Answers
    from headwater.runtime.reports import FlowEvent, FlowReport
    from headwater.sources.append.records import Rows


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

    # --- sources

    def sources(self) -> list[dict[str, Any]]:
        """Every source: its type and the topics that it feeds."""
        fed: dict[str, list[str]] = {}
        for name, topic in self.project.topics.items():
            fed.setdefault(topic.from_, []).append(name)
        return [
            {"source": name, "type": spec.type, "topics": fed.get(name, []), "description": spec.description}
            for name, spec in self.project.sources.items()
        ]

    def prepare_source(self, name: str, *, run: bool = False) -> dict[str, Any]:
        """What the other end of a source needs: each statement's `sql`, `why`, and whether it is `done`."""
        from dataclasses import asdict

        from headwater.sources.preparing import preparation

        spec = self.project.sources.get(name)
        if spec is None:
            hint = did_you_mean(name, self.project.sources)
            raise UsageError(Code.UNKNOWN_REFERENCE, f"there is no source '{name}'", hint=hint)
        found = preparation(spec, self.project.name)
        if run:
            found.run()
        statements = [asdict(one) for one in found.statements]
        return {"source": name, "run": run, "statements": statements, "notes": list(found.notes)}

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

    def dead_letters(
        self, topic: str | None = None, limit: int = 100, reason: str | None = None
    ) -> list[dict[str, Any]]:
        """Events that could not be taken in, newest first."""
        return self._letters(topic).list(topic, limit, reason)

    def dead_letter(self, id: str) -> dict[str, Any]:
        """One of them with its bytes, by its id or the beginning of it."""
        return self._letters(None).find(id)

    def replay_dead_letters(
        self, topic: str | None = None, *, ids: Sequence[str] = (), reason: str | None = None
    ) -> list[dict[str, Any]]:
        """Run dead letters through today's pipeline; says per topic what came through."""
        from dataclasses import asdict

        from headwater.runtime.replaying import replay

        letters = self._letters(topic)
        chosen: dict[str, list[str]] = {}
        if ids and topic is None:
            for one in map(letters.find, ids):
                chosen.setdefault(str(one["topic"]), []).append(str(one["id"]))
        else:
            known = self._warehouse.project.topics
            topics = [topic] if topic is not None else [name for name in letters.topics() if name in known]
            chosen = {name: list(ids) for name in topics}
        return [asdict(replay(self._warehouse, name, ids=some, reason=reason)) for name, some in chosen.items()]

    def drop_dead_letters(self, topic: str | None = None, *, ids: Sequence[str] = (), reason: str | None = None) -> int:
        """Forget dead letters for good; returns how many."""
        letters = self._letters(topic)
        if ids:
            found = [
                one
                for one in map(letters.find, ids)
                if topic in (None, one["topic"]) and reason in (None, one["reason"])
            ]
            return sum(letters.drop(str(one["topic"]), [str(one["id"])]) for one in found)
        topics = [topic] if topic is not None else list(letters.topics())
        return sum(letters.drop(name, letters.ids(name, (), reason, whole=True)) for name in topics)

    def _letters(self, topic: str | None) -> DeadLetters:
        from headwater.deadletters import DeadLetters

        if topic is not None and topic not in self._warehouse.names(Kind.TOPIC):
            raise self._warehouse.unknown(Kind.TOPIC, topic)
        return DeadLetters(self.spark, self._warehouse.around)

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
        on_event: Callable[[FlowEvent], None] | None = None,
        stopping: threading.Event | None = None,
        on_ready: Callable[[Sequence[FlowReport]], None] | None = None,
        answers: Answers | None = None,
    ) -> list[FlowReport]:
        """Run flows until they are up to date (`once`), or until `stopping` is set.

        `on_event` is called, from the flows' threads, with everything that happens to them; `on_ready` when they
        begin, with the reports that they keep. `answers` runs the commands of other terminals meanwhile.
        """
        from headwater.runtime.runner import Runner

        runner = Runner(self._warehouse, every, once, stopping=stopping or threading.Event(), answers=answers)
        runner.on_event = on_event or runner.on_event
        runner.on_ready = on_ready or runner.on_ready
        return runner.run(flows)

    def status(self) -> list[dict[str, Any]]:
        """How every flow is, without Spark, and also while another process runs it."""
        from headwater.runtime.status import flow_statuses

        return flow_statuses(self._warehouse)

    def pause(self, flow: str) -> None:
        """Take no further step of a flow, in whatever process runs it, until it is resumed."""
        from headwater.runtime import control

        control.pause(self._warehouse, flow)

    def resume(self, flow: str) -> None:
        """Go on with a flow that was paused, or try one again that was given up."""
        from headwater.runtime import control

        control.resume(self._warehouse, flow)

    def start_over(self, flow: str, *, empty: bool) -> int:
        """Read a flow's source from its beginning with the next run, into its table as it is or emptied."""
        from headwater.runtime import control

        return control.start_over(self._warehouse, flow, empty=empty)


class Relation:
    """A topic, table or view of the lake."""

    def __init__(self, warehouse: Warehouse, kind: Kind, name: str) -> None:
        if name not in warehouse.names(kind):
            raise warehouse.unknown(kind, name)
        self._warehouse = warehouse
        self.kind = kind
        self.name = name

    def append(self, rows: Rows, key: str | None = None, *, wait: bool = True) -> dict[str, Any]:
        """Hand rows to a topic whose source is `append`; returns when it has them, or without `wait` when they are
        durable. The same rows again with the same key are not taken twice."""
        from headwater.runtime.appending import append

        if self.kind is not Kind.TOPIC:
            raise UsageError(Code.USAGE, f"rows are appended to topics; '{self.name}' is a {self.kind.value}")
        return append(self._warehouse, self.name, rows, key=key, wait=wait)

    def drop(self, *, dead_letters: bool = False, slot: bool = False) -> dict[str, Any]:
        """Drop a topic that no runner holds: its table and all that its flow remembers; with `dead_letters` those too,
        with `slot` the replication slot and publication that only it has used."""
        from dataclasses import asdict

        from headwater.runtime.dropping import drop

        if self.kind is not Kind.TOPIC:
            raise UsageError(Code.USAGE, f"only topics can be dropped so far; '{self.name}' is a {self.kind.value}")
        return asdict(drop(self._warehouse, self.name, dead_letters=dead_letters, slot=slot))

    def remap(self) -> dict[str, Any]:
        """Make a topic's rows anew from `_raw`, by today's selection and mapping; older versions stay."""
        from dataclasses import asdict

        from headwater.runtime.remapping import remap

        return asdict(remap(self._warehouse, self.name))

    def schemas(self) -> list[dict[str, Any]]:
        """Every version of a topic's payload, with what brought it; oldest first."""
        from headwater.runtime.topics import schemas_of

        return [version.described() for version in schemas_of(self._warehouse, self.name).versions()]

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

    def sink(
        self, name: str, *, mode: Literal["append", "upsert"] = "append", epoch: int = 1
    ) -> Callable[[DataFrame, int], None]:
        """An exactly-once sink for `writeStream.foreachBatch`; `name` stands for one query and its checkpoint.

        A query that lost its checkpoint is refused (CHECKPOINT_LOST) until `epoch` is raised. A table that has no data
        yet is made from the first rows.
        """
        from headwater.tables.sink import sink

        definition = self._warehouse.project.relations(self.kind).get(self.name)
        if definition is None:
            return sink(self._table(), f"{self.kind.plural}.{self.name}.{name}", mode=mode, epoch=epoch)
        return sink(
            self._warehouse.table(self.kind, self.name),
            f"{self.kind.plural}.{self.name}.{name}",
            mode=mode,
            epoch=epoch,
            layout=layout_of(definition),
            created=lambda: self._warehouse.remember(self.kind, self.name),
        )

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
        if self.kind is Kind.TOPIC:
            found["schemas"] = self.schemas()
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
