"""What a topic's changes are: the columns of its rows, and what tells their keys, order and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.core.quotes import backticked
from headwater.core.spec import Apply
from headwater.core.state import STORED
from headwater.schema.types import has_map
from headwater.spark.frames import column

SEQUENCE = "_hw_sequence"
"""Orders the changes of a key."""
TIE = "_hw_tie"
"""Orders those of one sequence, by arrival."""
GONE_AT = "_hw_gone_at"
"""When the flow learned that the key was deleted; NULL: it is there."""
SENT = "_hw_sent"
"""The sequence of values that are older than their row, by column; NULL for one that was never sent."""
GONE = "_hw_gone"
"""In a history: from here on there is no row."""
AT = "_hw_at"
"""In a history: when the change was made, as it said itself."""
UNSENT = "_hw_unsent"
"""Columns that a change did not send, since they had not changed."""
FROM = "_hw_from"
"""The key that a row had before the change."""
FIRST, LAST, CURRENT, IS_DELETED = "valid_from", "valid_to", "is_current", "is_deleted"
SEQ_FROM, SEQ_TO = "seq_from", "seq_to"
"""In a history whose sequence is no time: the sequence of a state, and of the one that follows it."""

OP, BEFORE, AFTER, UNCHANGED, POSITION = "_op", "before", "after", "_unchanged", "_position"
TIMES = ("event_timestamp", "_committed_at", "_ingested_at")
"""Columns that tell when a change was made: the first that has a value."""

Locate = Callable[[str], Where]
"""Where a key of the table's definition stands: `apply.keys`."""


@dataclass(frozen=True)
class Shape:
    """The changes of one topic, as one table applies them."""

    rules: Apply
    topic: StructType
    columns: StructType
    """The row's columns."""

    @property
    def captured(self) -> bool:
        """Whether the topic holds rows before and after, and not rows alone."""
        return _is_captured(self.topic)

    @property
    def keys(self) -> tuple[str, ...]:
        return self.rules.keys

    @property
    def values(self) -> list[str]:
        return [name for name in self.columns.names if name not in self.keys]

    @property
    def history(self) -> bool:
        return self.rules.history == "all"

    @property
    def soft(self) -> bool:
        return self.rules.deletes == "soft"

    @property
    def by_column(self) -> bool:
        """Whether a change may leave out columns: then each column has an order of its own."""
        return self.soft or (self.captured and UNCHANGED in self.topic.names)

    @property
    def by_row(self) -> bool:
        """Whether the newest change of a key says all there is to know of it."""
        return not self.history and not self.by_column

    @property
    def sequence(self) -> DataType:
        schema = self.columns if self.rules.sequence_by in self.columns.names else self.topic
        return schema[self.rules.sequence_by].dataType

    @property
    def ordered_by(self) -> tuple[str, ...]:
        """The stored columns that one change of a key comes after another by. No two share a position."""
        return (SEQUENCE,) if self.rules.sequence_by == POSITION else (SEQUENCE, TIE)

    @property
    def sequenced(self) -> bool:
        """Whether the sequence of a history is no time: many states may begin at one moment."""
        return self.history and not isinstance(self.sequence, TimestampType)

    @property
    def validity(self) -> list[StructField]:
        """What a history says of a state alongside its values, but for CURRENT, which follows from it."""
        times = [StructField(FIRST, TimestampType()), StructField(LAST, TimestampType())]
        order = [StructField(SEQ_FROM, self.sequence), StructField(SEQ_TO, self.sequence)]
        return [*times, *(order if self.sequenced else ())]

    @property
    def times(self) -> list[str]:
        return [name for name in TIMES if name in self.topic.names]

    @property
    def stored(self) -> StructType:
        """The table's columns, hidden ones too."""
        order = [StructField(SEQUENCE, self.sequence), StructField(TIE, StringType())]
        if self.history:
            first, last, *sequences = self.validity
            validity = [first, last, StructField(CURRENT, BooleanType()), *sequences]
            hidden = [StructField(AT, TimestampType()), StructField(GONE, BooleanType())]
            hidden += [StructField(UNSENT, ArrayType(StringType()))] if self.by_column else []
            return StructType([*self.columns.fields, *validity, *order, *hidden])
        hidden = [StructField(GONE_AT, TimestampType())]
        hidden += [StructField(SENT, MapType(StringType(), self.sequence))] if self.by_column else []
        return StructType([*self.columns.fields, *order, *hidden])

    @property
    def added(self) -> tuple[str, ...]:
        """Columns that people see alongside those of the row."""
        if self.history:
            return (*(f.name for f in self.validity), CURRENT)
        return (IS_DELETED,) if self.soft else ()

    @property
    def hidden(self) -> tuple[str, ...]:
        return tuple(name for name in self.stored.names if name.startswith("_hw_"))

    @property
    def shown(self) -> str:
        """How the stored rows are shown."""
        names = [backticked(name) for name in self.stored.names if name not in self.hidden]
        there = f"{GONE_AT} IS NULL"
        if self.history:
            # Before 0026 a state that began and ended at one moment was hidden, and had no SEQ_TO.
            known = f" OR {SEQ_TO} IS NOT NULL" if self.sequenced else ""
            there = f"NOT {GONE} AND ({LAST} IS NULL OR {FIRST} < {LAST}{known})"
        elif self.soft:
            return f"SELECT {', '.join(names)}, {GONE_AT} IS NOT NULL AS {IS_DELETED} FROM {STORED}"
        return f"SELECT {', '.join(names)} FROM {STORED} WHERE {there}"

    def comparable(self) -> list[str]:
        """Values that can be compared: there is no order and no equality of maps."""
        return [name for name in self.values if not has_map(self.columns[name].dataType)]


def order(*more: Column) -> Column:
    """What one change of a key comes after another by."""
    return F.struct(column(SEQUENCE), column(TIE), *more)


def no_names() -> Column:
    """UNSENT of a change that sent everything."""
    return F.array().cast(ArrayType(StringType()))


def shape_of(rules: Apply, topic: StructType, locate: Locate) -> Shape:
    """The shape; a key or sequence that is no column, or a name that is taken, is told with its place."""
    columns = _row_columns(topic)
    _require(rules.keys, columns.names, locate("apply.keys"))
    _require([rules.sequence_by], [*columns.names, *topic.names], locate("apply.sequence_by"))
    shape = Shape(rules, topic, columns)
    for name in shape.added:
        if name in columns.names:
            message = f"the rows have a column '{name}' already, which `apply` would add"
            raise UsageError(Code.INVALID_VALUE, message, where=locate("apply"), hint="rename it in the topic")
    if shape.history and not isinstance(shape.sequence, TimestampType) and not shape.times:
        raise UsageError(
            Code.INVALID_VALUE,
            "a history needs the time of each change, and the topic has none",
            where=locate("apply.history"),
            hint=f"order by a timestamp, or have one of {', '.join(TIMES)}",
        )
    return shape


def _row_columns(topic: StructType) -> StructType:
    if not _is_captured(topic):
        fields = [f for f in topic.fields if not f.name.startswith("_")]
        return StructType([StructField(f.name, f.dataType) for f in fields])
    before, after = topic[BEFORE].dataType, topic[AFTER].dataType
    assert isinstance(before, StructType) and isinstance(after, StructType)
    older = [f for f in before.fields if f.name not in after.names]
    return StructType([StructField(f.name, f.dataType) for f in [*after.fields, *older]])


def _is_captured(topic: StructType) -> bool:
    return {OP, BEFORE, AFTER} <= set(topic.names) and all(
        isinstance(topic[name].dataType, StructType) for name in (BEFORE, AFTER)
    )


def _require(names: Sequence[str], known: Sequence[str], where: Where) -> None:
    for name in names:
        if name not in known:
            raise UsageError(Code.INVALID_VALUE, f"no column '{name}'", where=where, hint=did_you_mean(name, known))
