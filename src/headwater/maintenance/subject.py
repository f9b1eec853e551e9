"""One relation while maintenance looks at it, and what is remembered of it between two looks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.core.model import DataFile, Kind
from headwater.core.record import Record
from headwater.core.spec import MaintenanceSpec, RelationSpec
from headwater.core.state import MaintenanceRecord, State
from headwater.flows.ledger import flow_name
from headwater.formats.base import DEFAULT_FILE_SIZE
from headwater.maintenance.rules import Due, Partition, partitions_json, partitions_of_json
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.spark_table import SparkTable

DONE, DUE, FAILED, YIELDED = "done", "due", "failed", "yielded"
"""What becomes of an action; `due`: of a dry run."""

_LONGEST_RETRY = timedelta(hours=1)
_FIRST_RETRY = timedelta(minutes=1)


@dataclass(frozen=True)
class JobEffect:
    """What one run of an action did: the rest of its row in the history."""

    version_before: int | None = None
    version_after: int | None = None
    files_before: int | None = None
    files_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    rows: int | None = None
    checksum: str | None = None
    deleted_files: int | None = None
    deleted_bytes: int | None = None


@dataclass(frozen=True)
class MaintenanceAction(Record):
    """Something that was done to a relation, failed, or with a dry run is due."""

    relation: str
    action: str
    rule: str
    started_at: datetime
    duration_ms: int = 0
    partitions: tuple[Partition, ...] = ()
    effect: JobEffect = field(default_factory=JobEffect)
    outcome: str = DONE
    error: str | None = None

    def to_dict(self) -> dict[str, object]:
        """One level: the effect's fields stand among its own."""
        own = {**vars(self), "partitions": [dict(one) for one in self.partitions if one]}
        last = {name: own.pop(name) for name in ("outcome", "error")}
        del own["effect"]
        return {**own, **vars(self.effect), **last}

    def row(self) -> MaintenanceRecord:
        """As the history keeps it."""
        return MaintenanceRecord(
            self.relation,
            self.action,
            self.rule,
            self.started_at,
            self.duration_ms,
            **vars(self.effect),
            partitions=partitions_json(self.partitions),
            outcome=self.outcome,
            error=self.error,
        )


@dataclass
class MaintenanceMemory:
    """What maintenance goes by besides a table's metadata; read from the history, and kept by one process."""

    done_at: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """By relation and action: when it was done last, or looked for in vain."""
    clustered_at: defaultdict[str, dict[Partition, datetime]] = field(default_factory=lambda: defaultdict(dict))
    left: defaultdict[str, frozenset[str]] = field(default_factory=lambda: defaultdict(frozenset))
    """By relation: small files that a compaction has left as they are."""
    _failures: dict[tuple[str, str], tuple[int, datetime]] = field(default_factory=dict)

    @staticmethod
    def of(state: State) -> MaintenanceMemory:
        """What the history tells."""
        memory = MaintenanceMemory()
        columns = ["relation", "action", "started_at", "duration_ms", "partitions", "outcome"]
        for relation, action, started_at, duration, partitions, outcome in state.history(MaintenanceRecord, columns):
            if outcome == DONE:
                at = datetime.fromtimestamp(started_at / 1_000_000, timezone.utc) + timedelta(milliseconds=duration)
                memory.note(relation, action, at, partitions_of_json(partitions))
        return memory

    def note(self, relation: str, action: str, at: datetime, partitions: Sequence[Partition] = ((),)) -> None:
        """Something has been done."""
        self.done_at[relation, action] = at
        self._failures.pop((relation, action), None)
        if action == "cluster":
            self.clustered_at[relation].update(dict.fromkeys(partitions, at))

    def failed(self, relation: str, action: str, now: datetime) -> None:
        """It is tried again later, and then later still."""
        count = self._failures.get((relation, action), (0, now))[0] + 1
        wait = min(_LONGEST_RETRY, _FIRST_RETRY * 2 ** (count - 1))
        self._failures[relation, action] = (count, now + wait)

    def may_try(self, relation: str, action: str, now: datetime) -> bool:
        """Whether it has not just failed."""
        failure = self._failures.get((relation, action))
        return failure is None or failure[1] <= now


@dataclass
class MaintainedRelation:
    """A topic, table or view as it is now: what rules and actions are given."""

    warehouse: Warehouse
    kind: Kind
    name: str
    settings: MaintenanceSpec
    memory: MaintenanceMemory
    spark: SparkSession | None = None
    """The session that works on it; the lake's own for None."""
    go_on: Callable[[], bool] = lambda: True
    """Asked where a job waits: not when the runner is to stop."""
    now: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    @property
    def label(self) -> str:
        return flow_name(self.name, self.kind)

    @property
    def dead_letters(self) -> str:
        """What its dead letters are kept by: a topic's by its name alone."""
        return self.name if self.kind is Kind.TOPIC else self.label

    @cached_property
    def definition(self) -> RelationSpec:
        return self.warehouse.definition(self.kind, self.name)

    @cached_property
    def table(self) -> SparkTable:
        return self.warehouse.existing(self.kind, self.name, self.spark)

    @cached_property
    def files(self) -> list[DataFile]:
        return self.table.files()

    @cached_property
    def target(self) -> int:
        """The size that its files are compacted to."""
        definition = self.definition
        return definition.compaction.target_file_size or definition.target_file_size or DEFAULT_FILE_SIZE

    def again(self) -> MaintainedRelation:
        """The same relation as it is by now."""
        return replace(self, now=datetime.now(timezone.utc))

    def wait(self, seconds: float) -> bool:
        """For so long; False where it is cut off."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not self.go_on():
                return False
            time.sleep(min(left, 0.1))
        return True

    def last(self, action: str) -> datetime | None:
        """When an action was done, or looked for in vain; a relation that is new has nothing to be done yet."""
        record = self.warehouse.record(self.kind, self.name)
        return self.memory.done_at.get((self.label, action), None if record is None else record.created_at)


def partitions_of(due: Sequence[Due]) -> tuple[Partition, ...]:
    return tuple(one.partition for one in due)
