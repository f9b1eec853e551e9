"""The Python API of one topic, table or view."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from headwater.core.errors import Code, UsageError
from headwater.core.model import At, Commit, Kind, Version
from headwater.core.spec import RelationSpec as Spec
from headwater.core.spec import Table, Topic, layout_of
from headwater.formats.base import Capability, SparkTable
from headwater.tables.tally import Tally
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.operations.parquet_files import RelationFiles
    from headwater.sources.append.records import Rows
    from headwater.sql.names import Moment
    from headwater.views.explain import Explanation
    from headwater.views.records import Refreshed
    from headwater.views.verify import Verified


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
        from headwater.operations.append import append

        if self.kind is not Kind.TOPIC:
            raise UsageError(Code.USAGE, f"rows are appended to topics; '{self.name}' is a {self.kind.value}")
        return append(self._warehouse, self.name, rows, key=key, wait=wait)

    def drop(self, *, dead_letters: bool = False, slot: bool = False) -> dict[str, Any]:
        """Drop a topic or table that no runner holds, and all that its flow remembers; with `dead_letters` those too,
        with `slot` the replication slot and publication that only it has used."""
        from dataclasses import asdict

        from headwater.operations.drop import drop, drop_table

        if self.kind is Kind.TABLE:
            return drop_table(self._warehouse, self.name)
        if self.kind is not Kind.TOPIC:
            raise UsageError(Code.USAGE, f"topics and tables are dropped so; '{self.name}' is a {self.kind.value}")
        return asdict(drop(self._warehouse, self.name, dead_letters=dead_letters, slot=slot))

    def load(self, file: str, content: bytes, *, replace: bool = False) -> dict[str, Any]:
        """Put the rows of a file into a reference table, by its keys; or make them its whole content."""
        from dataclasses import asdict

        from headwater.operations.load import load

        return asdict(load(self._warehouse, self.name, file, content, replace=replace))

    def restore(self, at: At, *, do: bool = False) -> dict[str, Any]:
        """Set a table back to a version or time by one commit more; without `do` only say what that means."""
        from dataclasses import asdict

        from headwater.operations.restore import restore

        if self.kind is not Kind.TABLE:
            hint = "a topic keeps what came, a view follows its query: read an earlier version of it instead"
            raise UsageError(
                Code.USAGE, f"{self.kind.value} '{self.name}' can't be restored: only tables can", hint=hint
            )
        return asdict(restore(self._warehouse, self.name, at, do=do))

    def replay(self, into: str, until: At | None = None) -> dict[str, Any]:
        """Make a table anew from this topic, all of it or up to a version or time, and swap it in by one commit."""
        from dataclasses import asdict

        from headwater.operations.rebuild import replay_into

        return asdict(replay_into(self._warehouse, self.name, into, until))

    def remap(self, *, dry_run: bool = False, may_remove: bool = False) -> dict[str, Any]:
        """Make a topic's rows again from `_raw`, by today's selection and mapping; older versions stay. Where rows
        would go it is refused unless `may_remove`; with `dry_run` nothing is changed."""
        from dataclasses import asdict

        from headwater.operations.remap import remap

        return asdict(remap(self._warehouse, self.name, dry_run=dry_run, may_remove=may_remove))

    def schemas(self) -> list[dict[str, Any]]:
        """Every version of a topic's payload, with what brought it; oldest first."""
        from headwater.runner.topics import schemas_of

        return [version.described() for version in schemas_of(self._warehouse, self.name).versions()]

    def df(self, version: At | None = None) -> DataFrame:
        """Its rows, at a version or time."""
        return self._warehouse.rows(self.kind, self.name, at=version)

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """Signed changes between two versions, in the column `_weight`."""
        return self._warehouse.changes(self.kind, self.name, start=start, end=end)

    def history(self, limit: int | None = None) -> list[Commit]:
        """Its versions and what made them, newest first."""
        return self._table().history(limit)

    def diff(self, start: Moment | None, end: Moment | None = None) -> DataFrame:
        """What came (+) and went (-) between two versions, times or named snapshots, in the column `_weight`."""
        from headwater.operations.diff import difference

        return difference(self._warehouse, self.kind, self.name, start, end)

    def tag(self, label: str, at: At | None = None, *, replace: bool = False) -> dict[str, Any]:
        """Name a version, the latest by default; `VERSION AS OF 'label'` reads it, and it is not expired."""
        from dataclasses import asdict

        from headwater.operations.tags import tag

        return asdict(tag(self._warehouse, self.kind, self.name, label, at, replace=replace))

    def untag(self, label: str) -> None:
        """Take a name away from a version."""
        from headwater.operations.tags import untag

        untag(self._warehouse, self.kind, self.name, label)

    def tags(self) -> list[dict[str, Any]]:
        """Its named snapshots."""
        from dataclasses import asdict

        from headwater.operations.tags import tags_of

        return [asdict(one) for one in tags_of(self._warehouse, self.kind, self.name)]

    @property
    def files(self) -> RelationFiles:
        """What lies in its files, and how."""
        from headwater.operations.parquet_files import RelationFiles

        return RelationFiles(self._warehouse, self.kind, self.name)

    def version(self) -> Version | None:
        """The latest version."""
        return self._table().version()

    def expire(self, older_than: datetime) -> list[Version]:
        """Forget versions older than a time; never one that a view, a table or a label still needs."""
        from headwater.operations.expire import expire

        return expire(self._warehouse, self.kind, self.name, older_than)

    def version_at(self, at: At) -> Version:
        return self._table().version_at(at)

    def read_stream(self, *, changes: bool = False, start: At | None = None, consumer: str = "stream") -> DataFrame:
        """A streaming DataFrame for a query of your own."""
        return self._warehouse.stream(self.kind, self.name, changes=changes, start=start, consumer=consumer)

    def sink(
        self, name: str, *, mode: Literal["append", "upsert"] = "append", epoch: int = 1
    ) -> Callable[[DataFrame, int], None]:
        """An exactly-once sink for `writeStream.foreachBatch`; `name` stands for one query and its checkpoint.

        A query that lost its checkpoint is refused (CHECKPOINT_LOST) until `epoch` is raised. A table that has no data
        yet is made from the first rows.
        """
        from headwater.tables.sink import sink

        if self.kind is Kind.VIEW:
            raise UsageError(Code.USAGE, f"view '{self.name}' is kept by its query alone", hint="write into a table")
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
            "from": _origin(definition),
            "format": self._warehouse.format(self.kind, self.name).name,
            "location": str(self._warehouse.address(self.kind, self.name)),
            "created_at": None if record is None else record.created_at,
            "description": definition.description if definition is not None else "",
        }

    def describe(self) -> dict[str, Any]:
        """What it is, its columns, its latest version and its size."""
        table = self._table()
        layout = table.layout()
        record = self._warehouse.record(self.kind, self.name)
        hidden = () if record is None else record.hidden
        found = {
            **self.summary(),
            "version": table.version(),
            "partition_by": list(layout.partition_by),
            "columns": [
                {"name": f.name, "type": f.dataType.simpleString()}
                for f in table.schema().fields
                if f.name not in hidden
            ],
        }
        if self.kind is Kind.TOPIC:
            found["schemas"] = self.schemas()
        checks = Tally(self._warehouse.files, f"{self.kind.plural}.{self.name}").told()
        if self.kind is Kind.TABLE and checks is not None:
            found["checks"] = checks
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


def _origin(definition: Spec | None) -> str | None:
    """What a relation is made from, in a word or two."""
    if isinstance(definition, Table):
        given = ((key, value) for key, value in definition.origins.items() if value)
        return next((value if key in ("from", "seed") else key for key, value in given), None)
    return definition.from_ if isinstance(definition, Topic) else None


class MaterializedView(Relation):
    """A view of the lake."""

    def describe(self) -> dict[str, Any]:
        """Its query, columns, the versions that it was made of, and its last refreshes."""
        from headwater.operations.views import describe_view

        return describe_view(self._warehouse, self.name)

    def refresh(self, policy: str | None = None, *, rebuild: bool = False) -> Refreshed:
        """Bring it up to date now, after the views that it reads."""
        from headwater.operations.views import refresh_view, refresh_with_sources

        if rebuild:
            return refresh_view(self._warehouse, self.name, rebuild=True)
        return refresh_with_sources(self._warehouse, self.name, policy)[-1]

    def explain(self) -> Explanation:
        """How it is kept: each part's strategy and what it reads, or why it is computed anew."""
        from headwater.operations.views import explain_view

        return explain_view(self._warehouse, self.name)

    def verify(self, limit: int = 20) -> Verified:
        """Compare it with its query at the versions that it names."""
        from headwater.operations.views import verify_view

        return verify_view(self._warehouse, self.name, limit)
