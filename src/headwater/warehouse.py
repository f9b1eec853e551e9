"""The lake as a whole: which relations it has, where they are, and a handle on each."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headwater.errors import Code, UsageError, did_you_mean
from headwater.formats.base import Address, Format, SparkTable, Surroundings
from headwater.formats.recognising import found_in
from headwater.formats.registry import FORMATS
from headwater.logs import log_to
from headwater.model import Kind
from headwater.objectstores import storage_needs
from headwater.progress import byte_bar, say
from headwater.project.definition import Project
from headwater.session import SessionNeeds, activate, close_session, is_running, open_session
from headwater.sources.table.config import TableSource
from headwater.spec import Relation, Topic
from headwater.state import RelationRecord, State
from headwater.storage import Files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Warehouse:
    """One project's lake. Spark starts with the first thing that needs it."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.around: Surroundings = project.surroundings
        self._spark: SparkSession | None = None
        self._started_spark = False
        self._state: State | None = None
        self._lock = threading.RLock()
        self._foreign_formats: set[str] = set()

    @property
    def files(self) -> Files:
        return Files(self.around.warehouse, self.around.storage)

    @property
    def state(self) -> State:
        with self._lock:
            if self._state is None:
                self._state = State.of(self.project.settings.state, self.project.home)
                log_to(self.project.home)
            return self._state

    @property
    def spark(self) -> SparkSession:
        """The one Spark of this process, with what the project's formats need and nothing else."""
        with self._lock:
            if self._spark is None:
                self._require_writable()
                self._started_spark = self._started_spark or not is_running()
                if self._started_spark:
                    say("Starting Spark …")
                with byte_bar("Fetching connectors") as progress:
                    self._spark = open_session(
                        f"headwater {self.project.name}",
                        self.needs(),
                        self.project.settings.spark,
                        home=self.project.home,
                        progress=progress,
                    )
            return self._spark

    @property
    def owns_spark(self) -> bool:
        """Whether the Spark that is used was started for this lake."""
        return self._started_spark and self._spark is not None

    def needs(self) -> Iterable[SessionNeeds]:
        # Dead letters are kept in Delta whatever the project's own formats are.
        names = {"delta", *self._foreign_formats, *(record.format for record in self.state.relations())}
        for kind in Kind:
            names.update(map(self.project.format_of, self.project.relations(kind).values()))
        read = [source for source in self.project.sources.values() if isinstance(source, TableSource)]
        names.update(source.format for source in read)
        paths = (self.project.location(source.path) for source in read if source.path is not None)
        stores = storage_needs(self.project.settings.storage, [self.around.warehouse, *paths])
        sources = (SessionNeeds(connectors=source.connectors) for source in self.project.sources.values())
        return [stores, *sources, *(FORMATS.get(name).needs(self.around) for name in sorted(names))]

    # --- relations

    def names(self, kind: Kind) -> list[str]:
        """The relations of a kind: defined by the project, or made and recorded."""
        recorded = (record.name for record in self.state.relations(kind))
        return sorted({*self.project.relations(kind), *recorded})

    def definition(self, kind: Kind, name: str) -> Relation:
        found = self.project.relations(kind).get(name)
        if found is None:
            raise self.unknown(kind, name)
        return found

    def record(self, kind: Kind, name: str) -> RelationRecord | None:
        return self.state.relation(kind, name)

    def format(self, kind: Kind, name: str) -> Format:
        record = self.record(kind, name)
        return FORMATS.get(record.format if record else self.project.format_of(self.definition(kind, name)))

    def address(self, kind: Kind, name: str) -> Address:
        """Where a relation is recorded to be, else where its definition puts it."""
        record = self.record(kind, name)
        if record is not None:
            return Address(record.path, record.table)
        definition = self.definition(kind, name)
        if definition.path is not None:
            return Address(path=self.project.location(definition.path))
        if definition.table is not None and not _names_a_source_table(self.project, definition):
            return Address(table=definition.table)
        return self.format(kind, name).address(self.around, kind.plural, name)

    def table(self, kind: Kind, name: str, spark: SparkSession | None = None) -> SparkTable:
        """A handle; the table itself may not have been made yet."""
        session = spark or self.spark
        activate(session)
        return self.format(kind, name).spark(session, self.address(kind, name), self.around)

    def existing(self, kind: Kind, name: str, spark: SparkSession | None = None) -> SparkTable:
        """A handle on a table that is there."""
        if name not in self.names(kind):
            raise self.unknown(kind, name)
        table = self.table(kind, name, spark)
        if not table.exists():
            raise UsageError(
                Code.NO_SUCH_RELATION,
                f"{kind.value} '{name}' has no data yet",
                hint="run it first: headwater run --once",
            )
        return table

    def foreign(self, format: str, address: Address, spark: SparkSession | None = None) -> SparkTable:
        """A handle on somebody else's table."""
        found = FORMATS.get(format)
        with self._lock:
            if spark is None and format not in self._foreign_formats:
                self._foreign_formats.add(format)
                self._spark = None  # the next session has what this format needs, or says what it lacks
        session = spark or self.spark
        activate(session)
        table = found.spark(session, address, self.around)
        if not table.exists():
            there = None if address.path is None else found_in(Files(address.path, self.around.storage))
            hint = None if there is None else f"what lies there is {there}"
            raise UsageError(Code.NO_SUCH_RELATION, f"there is no {found.title} table at {address}", hint=hint)
        return table

    def remember(self, kind: Kind, name: str) -> None:
        """Record a relation that has just been made."""
        address = self.address(kind, name)
        definition = self.definition(kind, name)
        self.state.put(
            RelationRecord(
                kind, name, self.format(kind, name).name, address.path, address.table,
                definition=fingerprint(definition),
            )
        )  # fmt: skip

    def unknown(self, kind: Kind, name: str) -> UsageError:
        return UsageError(
            Code.NO_SUCH_RELATION,
            f"there is no {kind.value} '{name}'",
            hint=did_you_mean(name, self.names(kind)),
        )

    def close(self) -> None:
        """Let go of everything; a Spark that was there before is left running."""
        with self._lock:
            if self._spark is not None and self._started_spark:
                close_session(self._spark)
            self._spark, self._started_spark = None, False
            if self._state is not None:
                self._state.close()
                self._state = None

    def _require_writable(self) -> None:
        """A warehouse that can't be written is said before Spark starts."""
        self.files.make_folder("_headwater")


def fingerprint(definition: Relation) -> str:
    """Changes when the definition does."""
    return hashlib.sha256(definition.model_dump_json().encode()).hexdigest()[:16]


def _names_a_source_table(project: Project, definition: Relation) -> bool:
    """A CDC topic's `table` is the captured table, not its own name."""
    if not isinstance(definition, Topic):
        return False
    source = project.sources.get(definition.from_)
    return source is not None and source.type == "postgres_cdc"
