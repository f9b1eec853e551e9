"""The Python API of one topic, table or view."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from headwater.api.results import PayloadSchema, RelationDescription, RelationSummary
from headwater.core.errors import Code, UsageError, require_text
from headwater.core.model import At, Column, Commit, DataFile, Kind, Version
from headwater.core.record import html_record, html_table
from headwater.core.spec import RelationSpec as Spec
from headwater.core.spec import Table, Topic, layout_of
from headwater.formats.base import Capability
from headwater.query.record_list import Listing
from headwater.tables.tally import Tally
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headwater.formats.lookup import TableLookup
    from headwater.formats.spark_table import SparkTable
    from headwater.operations.append import Appended
    from headwater.operations.drop import DroppedTable, DroppedTopic
    from headwater.operations.erasure.receipt import ErasureCheck, ErasureReceipt
    from headwater.operations.load import Loaded
    from headwater.operations.parquet_files import RelationFiles
    from headwater.operations.rebuild import RebuiltTable
    from headwater.operations.remap import Remapped
    from headwater.operations.restore import Restored
    from headwater.operations.tags import Tag
    from headwater.sources.append.records import Rows
    from headwater.sql.names import Moment
    from headwater.views.descriptions import ViewDescription, ViewSummary
    from headwater.views.explain import Explanation
    from headwater.views.records import Refreshed
    from headwater.views.verify import Verified


class Relation:
    """A topic, table or view of the lake; `Lake.topic`, `Lake.table`, `Lake.view` and `Lake.relation` give one."""

    def __init__(self, warehouse: Warehouse, kind: Kind, name: str) -> None:
        require_text(name, f"the name of a {kind.value}")
        if name not in warehouse.names(kind):
            raise warehouse.unknown(kind, name)
        self._warehouse = warehouse
        self._kind = kind
        self._name = name

    def __repr__(self) -> str:
        record = self._warehouse.record(self.kind, self.name)
        about = f"{len(self.columns)} columns" if record is not None else "no data yet"
        format, address = self._warehouse.format(self.kind, self.name), self._warehouse.address(self.kind, self.name)
        return f"<{self.kind.value} '{self.name}': {format.name}, {about}, {address}>"

    def _repr_html_(self) -> str:
        """What is known of it without reading it: what a notebook shows."""
        fields = {**self.summary().to_dict(), "columns": self.columns}
        return html_record(f"{self.kind.value} {self.name}", fields)

    @property
    def kind(self) -> Kind:
        """What it is: topic, table or view."""
        return self._kind

    @property
    def name(self) -> str:
        """Its name among those of its kind."""
        return self._name

    @property
    def columns(self) -> list[str]:
        """The names of its columns, as far as they are known without Spark."""
        return self._warehouse.columns(self.kind, self.name)

    def append(self, rows: Rows, key: str | None = None, *, wait: bool = True) -> Appended:
        """Hand rows to a topic whose source is `append`; returns when it has them, or without `wait` when they are
        durable. The same rows again with the same key are not taken twice."""
        from headwater.operations.append import append

        if self.kind is not Kind.TOPIC:
            raise UsageError(Code.USAGE, f"rows are appended to topics; '{self.name}' is a {self.kind.value}")
        return append(self._warehouse, self.name, rows, key=key, wait=wait)

    def drop(self, *, dead_letters: bool = False, slot: bool = False) -> DroppedTopic | DroppedTable:
        """Drop a topic or table that no runner holds, and all that its flow remembers; with `dead_letters` those too,
        with `slot` the replication slot and publication that only it has used."""
        from headwater.operations.drop import drop, drop_table

        if self.kind is Kind.TABLE:
            return drop_table(self._warehouse, self.name)
        if self.kind is not Kind.TOPIC:
            raise UsageError(Code.USAGE, f"topics and tables are dropped so; '{self.name}' is a {self.kind.value}")
        return drop(self._warehouse, self.name, dead_letters=dead_letters, slot=slot)

    def load(self, file: str, content: bytes, *, replace: bool = False) -> Loaded:
        """Put the rows of a file into a reference table, by its keys; or make them its whole content."""
        from headwater.operations.load import load

        return load(self._warehouse, self.name, file, content, replace=replace)

    def restore(self, at: At, *, do: bool = False) -> Restored:
        """Set a table back to a version or time by one commit more; without `do` only say what that means."""
        from headwater.operations.restore import restore

        if self.kind is not Kind.TABLE:
            hint = "a topic keeps what came, a view follows its query: read an earlier version of it instead"
            raise UsageError(
                Code.USAGE, f"{self.kind.value} '{self.name}' can't be restored: only tables can", hint=hint
            )
        return restore(self._warehouse, self.name, at, do=do)

    def replay(self, into: str, until: At | None = None, *, may_remove: bool = False) -> RebuiltTable:
        """Rebuild a table from this topic, all of it or up to a version or time, and swap it in by one commit. Where
        `retain.rows` has removed rows of the topic it is refused unless `may_remove`: the table would lose them too."""
        from headwater.operations.rebuild import replay_into

        return replay_into(self._warehouse, self.name, into, until, may_remove=may_remove)

    def remap(self, *, dry_run: bool = False, may_remove: bool = False) -> Remapped:
        """Make a topic's rows again from `_raw`, by today's selection and mapping; older versions stay. Where rows
        would go it is refused unless `may_remove`; with `dry_run` nothing is changed."""
        from headwater.operations.remap import remap

        return remap(self._warehouse, self.name, dry_run=dry_run, may_remove=may_remove)

    def forget(self, where: str, *, dry_run: bool = False, yes: bool = False) -> ErasureReceipt:
        """Erase a topic's rows that meet a condition, with all that was made of them and every version that held them;
        they don't come again. Where all rows meet it, or versions with labels go, it is refused unless `yes`."""
        from headwater.operations.erasure.forget import forget

        self._require_topic("erased")
        return forget(self._warehouse, self.name, where, dry_run=dry_run, yes=yes)

    def check_forgotten(self, where: str) -> ErasureCheck:
        """Decode every file of the lake, and say which hold a value of the condition. Changes nothing."""
        from headwater.operations.erasure.forget import check

        self._require_topic("erased")
        return check(self._warehouse, self.name, where)

    def _require_topic(self, verb: str) -> None:
        if self.kind is not Kind.TOPIC:
            hint = "a table or view loses the rows that its topics lose"
            raise UsageError(
                Code.USAGE, f"rows are {verb} from topics; '{self.name}' is a {self.kind.value}", hint=hint
            )

    def schemas(self) -> Listing[PayloadSchema]:
        """Every version of a topic's payload, with what brought it; oldest first."""
        from headwater.runner.setups.topics import schemas_of

        return Listing(
            PayloadSchema(one.version, one.brought_by, one.changes, one.step, one.found_at, one.payload.simpleString())
            for one in schemas_of(self._warehouse, self.name).versions()
        )

    def df(self, version: At | None = None) -> DataFrame:
        """Its rows, at a version or time."""
        return self._warehouse.rows(self.kind, self.name, at=version)

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """Signed changes between two versions, in the column `_weight`."""
        return self._warehouse.changes(self.kind, self.name, start=start, end=end)

    def history(self, limit: int | None = None) -> Listing[Commit]:
        """Its versions and what made them, newest first."""
        return Listing(self._lookup().history(limit))

    def diff(self, start: Moment | None, end: Moment | None = None) -> DataFrame:
        """What came (+) and went (-) between two versions, times or named snapshots, in the column `_weight`."""
        from headwater.operations.diff import difference

        return difference(self._warehouse, self.kind, self.name, start, end)

    def _net_changes(self, start: Moment | None, end: Moment | None = None) -> pa.Table | None:
        """The same without Spark; None where Spark has to be asked."""
        from headwater.operations.diff import at_of
        from headwater.operations.native_diff import native_difference

        first, last = (
            None if one is None else at_of(self._warehouse, self.kind, self.name, one) for one in (start, end)
        )
        return native_difference(self._warehouse, self.kind, self.name, first, last)

    def tag(self, label: str, at: At | None = None, *, replace: bool = False) -> Tag:
        """Name a version, the latest by default; `VERSION AS OF 'label'` reads it, and it is not expired."""
        from headwater.operations.tags import tag

        return tag(self._warehouse, self.kind, self.name, label, at, replace=replace)

    def untag(self, label: str) -> None:
        """Take a name away from a version."""
        from headwater.operations.tags import untag

        untag(self._warehouse, self.kind, self.name, label)

    def tags(self) -> Listing[Tag]:
        """Its named snapshots."""
        from headwater.operations.tags import tags_of

        return Listing(tags_of(self._warehouse, self.kind, self.name))

    @property
    def files(self) -> RelationFiles:
        """What lies in its files, and how."""
        from headwater.operations.parquet_files import RelationFiles

        return RelationFiles(self._warehouse, self.kind, self.name)

    @property
    def version(self) -> Version | None:
        """The latest version."""
        return self._lookup().version()

    def expire(self, older_than: datetime) -> list[Version]:
        """Forget versions older than a time; never one that a view, a table or a label still needs."""
        from headwater.maintenance.holds import expire

        return expire(self._warehouse, self.kind, self.name, older_than)

    def version_at(self, at: At) -> Version:
        """The newest version that was committed at or before a time."""
        return self._lookup().version_at(at)

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
            flow = f"{self.kind.plural}.{self.name}.{name}"
            return sink(self._table(), flow, mode=mode, epoch=epoch, record=self._warehouse.state.note)
        return sink(
            self._warehouse.table(self.kind, self.name),
            f"{self.kind.plural}.{self.name}.{name}",
            mode=mode,
            epoch=epoch,
            layout=layout_of(definition),
            created=lambda: self._warehouse.remember(self.kind, self.name),
            record=self._warehouse.state.note,
        )

    def summary(self) -> RelationSummary | ViewSummary:
        """What is known of it without Spark."""
        raise NotImplementedError

    def describe(self) -> RelationDescription | ViewDescription:
        """What it is, its columns and its latest version."""
        raise NotImplementedError

    def _lookup(self) -> TableLookup:
        return self._warehouse.lookup(self.kind, self.name)

    def _table(self) -> SparkTable:
        return self._warehouse.existing(self.kind, self.name)


def _origin(definition: Spec | None) -> str | None:
    """What a relation is made from, in a word or two."""
    if isinstance(definition, Table):
        origins = ((key, value) for key, value in definition.origins.items() if value)
        return next((value if key in ("from", "seed") else key for key, value in origins), None)
    return definition.from_ if isinstance(definition, Topic) else None


class TopicOrTable(Relation):
    """A topic or a table of the lake."""

    def summary(self) -> RelationSummary:
        """What is known of it without Spark."""
        record = self._warehouse.record(self.kind, self.name)
        definition = self._warehouse.project.relations(self.kind).get(self.name)
        return RelationSummary(
            name=self.name,
            from_=_origin(definition),
            format=self._warehouse.format(self.kind, self.name).name,
            location=str(self._warehouse.address(self.kind, self.name)),
            created_at=None if record is None else record.created_at,
            description=definition.description if definition is not None else "",
        )

    def describe(self) -> RelationDescription:
        """What it is, its columns, its latest version and its size."""
        table = self._lookup()
        record = self._warehouse.record(self.kind, self.name)
        hidden = () if record is None else record.hidden
        checks = Tally(self._warehouse.files, f"{self.kind.plural}.{self.name}").counts()
        files = table.files() if table.format.can(Capability.FILES) else None
        return RelationDescription(
            **vars(self.summary()),
            version=table.version(),
            partition_by=tuple(table.layout().partition_by),
            columns=tuple(Column(one.name, one.short_type) for one in table.columns() if one.name not in hidden),
            schemas=tuple(self.schemas()) if self.kind is Kind.TOPIC else None,
            checks=checks if self.kind is Kind.TABLE else None,
            rows=None if files is None else sum(file.rows or 0 for file in files),
            files=None if files is None else len(files),
            bytes=None if files is None else sum(file.bytes for file in files),
        )


class MaterializedView(Relation):
    """A view of the lake."""

    def summary(self) -> ViewSummary:
        """How it is kept, and how its last refresh went, without Spark."""
        from headwater.operations.view_lookups import summary_of

        return summary_of(self._warehouse, self.name)

    def describe(self) -> ViewDescription:
        """Its query, columns, the versions that it was made of, and its last refreshes."""
        from headwater.operations.view_lookups import describe_view

        return describe_view(self._warehouse, self.name)

    def refresh(self, policy: str | None = None, *, rebuild: bool = False) -> Refreshed:
        """Bring it up to date now, after the views that it reads."""
        from headwater.operations.view_lookups import refreshed_without_spark

        nothing = None if rebuild or policy == "full" else refreshed_without_spark(self._warehouse, self.name)
        if nothing is not None:
            return nothing
        from headwater.operations.views import refresh_view, refresh_with_sources

        if rebuild:
            return refresh_view(self._warehouse, self.name, rebuild=True)
        return refresh_with_sources(self._warehouse, self.name, policy)[-1]

    def explain(self) -> Explanation:
        """How it is kept: each part's strategy and what it reads, or why it is recomputed."""
        from headwater.operations.view_lookups import explained_without_spark

        noted = explained_without_spark(self._warehouse, self.name)
        if noted is not None:
            return noted
        from headwater.operations.views import explain_view

        return explain_view(self._warehouse, self.name)

    def verify(self, limit: int = 20) -> Verified:
        """Compare it with its query at the versions that it names."""
        from headwater.operations.views import verify_view

        return verify_view(self._warehouse, self.name, limit)


class ForeignTable:
    """A table that somebody else keeps, read in place."""

    def __init__(self, table: SparkTable) -> None:
        self._table = table

    def __repr__(self) -> str:
        return f"<foreign table {self._table.address}: {self._table.format.name}>"

    def _repr_html_(self) -> str:
        """Its columns: what a notebook shows."""
        rows = [one.to_dict() for one in self.schema]
        return html_table(["name", "type"], rows, note=repr(self))

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self._table.schema().names)

    @property
    def schema(self) -> Listing[Column]:
        """Its columns with their types, as Spark writes them."""
        return Listing(Column(f.name, f.dataType.simpleString()) for f in self._table.schema().fields)

    @property
    def version(self) -> Version | None:
        """The latest version."""
        return self._table.version()

    def version_at(self, at: At) -> Version:
        """The newest version that was committed at or before a time."""
        return self._table.version_at(at)

    def df(self, version: At | None = None) -> DataFrame:
        """Its rows, at a version or time."""
        return self._table.read(version)

    read = df

    def changes(self, start: Version | None, end: Version) -> DataFrame:
        """Signed changes between two versions, in the column `_weight`."""
        return self._table.changes(start, end)

    def history(self, limit: int | None = None) -> Listing[Commit]:
        """Its versions and what made them, newest first."""
        return Listing(self._table.history(limit))

    @property
    def files(self) -> Listing[DataFile]:
        """Its live files."""
        return Listing(self._table.files())
