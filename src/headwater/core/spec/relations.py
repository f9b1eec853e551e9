"""Topics, tables and views: what the lake keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, model_validator

from headwater.core.spec.base import Count, Definition, Duration, Frozen, Interval, Names, Size, Trigger
from headwater.core.spec.layout import Clustering, Compaction, Layout, ParquetOptions, Retention


class RelationSpec(Definition):
    """What topics, tables and views have in common: where and how they are kept."""

    format: str | None = Field(default=None, description="Table format; the project's if unset.")
    path: str | None = Field(default=None, description="Folder to keep it in, instead of its place in the warehouse.")
    table: str | None = Field(default=None, description="Name in a catalog to keep it under, instead of its own.")
    partition_by: Names = Field(default=(), description="Columns, or expressions such as `date(ts)`, to partition by.")
    z_order_by: Names = Field(default=(), description="Columns to cluster by.")
    target_file_size: Size | None = Field(default=None, description="Size that files are compacted to.")
    parquet: ParquetOptions = Field(default=ParquetOptions(), description="How its Parquet files are written.")
    compact: Compaction | None = Field(default=None, description="When small files are joined.")
    cluster: Clustering | None = Field(default=None, description="By what and when files are sorted.")
    retain: Retention | None = Field(default=None, description="How much of the past to keep.")
    interop: Names = Field(default=(), description="Other table formats that its files can be read as, without a copy.")
    publish: Names = Field(default=(), description="Other catalogs to register it in.")

    @model_validator(mode="after")
    def _one_place(self) -> RelationSpec:
        if self.path is not None and self.table is not None and not isinstance(self, Topic):
            raise ValueError("give `path` or `table`, not both")
        return self

    @model_validator(mode="after")
    def _kept(self) -> RelationSpec:
        if self.clustering.by and self.z_order_by and self.clustering.by != self.z_order_by:
            raise ValueError("`cluster.by` and `z_order_by` name other columns: give one of them")
        if self.retention.rows is not None and not isinstance(self, Topic):
            raise ValueError("`retain.rows` is for topics; tables and views follow what they are made of")
        if self.retention.dead_letters is not None and isinstance(self, View):
            raise ValueError("`retain.dead_letters` is for topics and tables; a view has none")
        return self

    @property
    def compaction(self) -> Compaction:
        """When small files are joined: as it says, or by default."""
        return self.compact or Compaction()

    @property
    def clustering(self) -> Clustering:
        """When files are sorted: as it says, or by default."""
        return self.cluster or Clustering()

    @property
    def retention(self) -> Retention:
        """What is kept of the past: as it says, or by default."""
        return self.retain or Retention()

    @property
    def clustered_by(self) -> tuple[str, ...]:
        """The columns that its files are sorted by."""
        return self.clustering.by or self.z_order_by


class SchemaPolicy(Frozen):
    """What happens when records change their shape."""

    new_column: Literal["add", "rescue", "fail", "ignore"] = Field(
        default="add",
        description="A field not seen before: `add` a column, `rescue` it as JSON, `fail` or `ignore` it.",
    )
    mismatch: Literal["quarantine", "fail", "discard_value"] = Field(
        default="quarantine",
        description="A value of another type: `quarantine` the event, `fail`, or `discard_value`.",
    )
    max_columns: Count = Field(
        default=1000,
        description="The most columns, counting those inside structs; a record with more becomes a dead letter.",
    )


class Topic(RelationSpec):
    """A named, append-only stream kept as a columnar table."""

    from_: str = Field(alias="from", description="The source it is fed from.")
    table: str | None = Field(
        default=None,
        description="From Postgres CDC: which captured table. Else the name in a catalog to keep it under.",
    )
    include_events: Names = Field(default=(), description="Event types to ingest; all if unset.")
    exclude_events: Names = Field(default=(), description="Event types to leave out.")
    filter: str | None = Field(default=None, description="SQL condition, or name of a `@filter`, on events to ingest.")
    mappers: Names = Field(default=(), description="Groups of `@mapper` functions; the decoded columns if unset.")
    batch_size: Count = Field(default=1000, description="A step at the latest when this many events wait …")
    flush_interval: Interval | None = Field(
        default=None,
        description="… or this much time has passed; the source's own if unset (files at once, others 1s).",
    )
    schema_: SchemaPolicy = Field(
        default=SchemaPolicy(), alias="schema", description="What happens when records change shape."
    )
    keep_raw: bool = Field(default=False, description="Keep the payload as it came, in `_raw`; `topic remap` needs it.")
    delivery: Literal["exactly_once", "at_least_once"] = Field(
        default="exactly_once", description="`at_least_once` saves the check and may repeat a step."
    )
    deduplicate_by: Names = Field(default=(), description="Columns that identify an event, to drop duplicates.")
    deduplicate_within: Interval | None = Field(
        default=None, description="How far back to look for duplicates; everything if unset."
    )
    trigger: Trigger | None = Field(default=None, description="When it takes a step; the project's if unset.")

    @model_validator(mode="after")
    def _consistent(self) -> Topic:
        both = sorted(set(self.include_events) & set(self.exclude_events))
        if both:
            raise ValueError(f"event '{both[0]}' is both included and excluded")
        if self.deduplicate_within is not None and not self.deduplicate_by:
            raise ValueError("`deduplicate_within` needs `deduplicate_by`")
        return self


class Apply(Frozen):
    """How a stream of changes becomes the current state, or its history."""

    keys: Names = Field(min_length=1, description="The primary key.")
    sequence_by: str = Field(default="_position", description="Column that orders the changes of one key.")
    delete_when: str | None = Field(default="_op = 'd'", description="SQL condition under which a change is a delete.")
    history: Literal["latest", "all"] = Field(
        default="latest",
        description="`latest` keeps one row per key (SCD 1), `all` every state with its validity (SCD 2).",
    )
    tombstones: Duration = Field(
        default=timedelta(days=7),
        description="How long a delete is remembered, so that a late older change can't undo it.",
    )
    deletes: Literal["hard", "soft"] = Field(
        default="hard",
        description="`hard` removes the row, `soft` keeps its last values and sets `is_deleted`.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Apply:
        if self.deletes == "soft" and self.history == "all":
            raise ValueError("`deletes: soft` is for `history: latest`: a history keeps what was deleted anyway")
        return self


class Watermark(Frozen):
    """How long to wait for events that come late."""

    column: str = Field(description="Column of the event time.")
    delay: Duration = Field(description="How much later than the newest event one may come.")
    late: Literal["update", "drop", "quarantine"] = Field(default="update", description="What happens to later events.")


class Expectation(Frozen):
    """A condition that every row should meet."""

    check: str = Field(description="SQL condition.")
    on_violation: Literal["warn", "drop", "quarantine", "fail"] = Field(
        default="warn", description="What happens to a row that fails."
    )


class Table(RelationSpec):
    """Refined data: from SQL or Python, from a stream of changes, or loaded by hand."""

    from_: str | None = Field(
        default=None, alias="from", description="Topic or table whose changes are applied: `topic('x')`."
    )
    apply: Apply | None = Field(default=None, description="How those changes become rows; with `from`.")
    seed: str | None = Field(default=None, description="File that a reference table is loaded from.")
    schema_: str | None = Field(
        default=None,
        alias="schema",
        description="Columns and types, `code string, since date`: of a reference table (by its values if unset), or "
        "those that a `transform` has to give.",
    )
    sql: str | None = Field(
        default=None, description="Query that makes it; `stream(x)` marks the inputs that drive it."
    )
    transform: str | None = Field(default=None, description="Name of the `@transform` function that makes it.")
    keys: Names = Field(default=(), description="The primary key.")
    watermark: Watermark | None = Field(default=None, description="How long to wait for late events.")
    expect: dict[str, Expectation] = Field(default={}, description="Conditions by name.")
    trigger: Trigger | None = Field(default=None, description="When it takes a step; the project's if unset.")

    @model_validator(mode="after")
    def _one_origin(self) -> Table:
        origins = [key for key, value in self.origins.items() if value is not None]
        if len(origins) > 1:
            raise ValueError(f"give one of `from`, `seed`, `sql`, `transform`, not {' and '.join(map(_tick, origins))}")
        if (self.from_ is None) != (self.apply is None):
            raise ValueError("`from` and `apply` come together" + ("" if self.apply else "; or write it as `sql`"))
        if not origins and not self.keys:
            raise ValueError(
                "give `sql`, `transform`, `seed`, or `from` with `apply`; a table filled by hand has `keys`"
            )
        if self.schema_ is not None and (self.sql is not None or self.from_ is not None):
            raise ValueError(
                "`schema` is for a table that is loaded from a file, filled by hand or made by `transform`"
                + ("" if self.sql is None else ": cast in the query")
            )
        if self.apply is not None and self.keys:
            raise ValueError("with `apply` the keys stand in `apply.keys`")
        return self

    @property
    def origins(self) -> dict[str, str | None]:
        return {"from": self.from_, "seed": self.seed, "sql": self.sql, "transform": self.transform}


class Refresh(Frozen):
    """When and how a view is brought up to date."""

    mode: Literal["immediate", "periodic", "manual", "on_query"] = Field(
        default="immediate",
        description="When. `every` alone means `periodic`, `max_staleness` alone `on_query`.",
    )
    every: Interval | None = Field(default=None, description="How often, for `periodic`.")
    max_staleness: Duration | None = Field(default=None, description="How old an answer may be, for `on_query`.")
    policy: Literal["auto", "incremental", "incremental_strict", "full"] = Field(
        default="auto",
        description="How: `auto` decides by cost; `incremental_strict` fails rather than recompute.",
    )

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and "mode" not in fields:
            if "every" in fields:
                return {**fields, "mode": "periodic"}
            if "max_staleness" in fields:
                return {**fields, "mode": "on_query"}
        return fields

    @model_validator(mode="after")
    def _consistent(self) -> Refresh:
        if (self.mode == "periodic") != (self.every is not None):
            raise ValueError("mode `periodic` and `every` come together")
        if self.max_staleness is not None and self.mode != "on_query":
            raise ValueError("`max_staleness` is for mode `on_query`")
        return self


class View(RelationSpec):
    """A materialized view: always equal to its query at the versions it names."""

    sql: str = Field(description="The query.")
    refresh: Refresh = Field(default=Refresh(), description="When and how it is brought up to date.")


def layout_of(definition: RelationSpec) -> Layout:
    """How a topic, table or view lies in its files."""
    return Layout(
        keys=_keys_of(definition),
        partition_by=definition.partition_by,
        z_order_by=definition.clustered_by,
        looked_up_by=("_ingested_at",) if isinstance(definition, Topic) else (),
        target_file_size=definition.target_file_size,
        parquet=definition.parquet,
        options=definition.options,
    )


def _keys_of(definition: RelationSpec) -> tuple[str, ...]:
    if not isinstance(definition, Table):
        return ()
    if definition.apply is None:
        return definition.keys
    # A history has a row per key and change: two may begin at the same moment.
    return definition.apply.keys + (("_hw_sequence",) if definition.apply.history == "all" else ())


def _tick(key: str) -> str:
    return f"`{key}`"
