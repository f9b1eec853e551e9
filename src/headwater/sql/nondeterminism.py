"""What gives something else each time: chance, the clock, where rows lie. The same rows can't be made with it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from headwater.sql.dialect import Headwater
from headwater.sql.places import Span, span_of

_CHANCE = (exp.Rand, exp.Randn, exp.Randstr, exp.Uniform, exp.Uuid, exp.Shuffle)
_CLOCK = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.Localtimestamp)
_PLACES = {
    "monotonically_increasing_id",
    "spark_partition_id",
    "input_file_name",
    "input_file_block_start",
    "input_file_block_length",
}
_MOMENTS = {"now", "today", "tomorrow", "yesterday"}
"""What Spark takes in `TIMESTAMP 'now'` besides a time."""
_TIMES = (exp.DType.DATE, *exp.DataType.TEMPORAL_TYPES)


@dataclass(frozen=True)
class NonDeterminism:
    """A part of a query that gives something else each time."""

    part: exp.Expr
    name: str
    """As people write it: `now()`."""
    clock: bool
    """It depends on the time, else on chance."""

    def span(self, text: str) -> Span | None:
        """Where it stands in the text that was parsed; a name without brackets has no place of its own there."""
        if "start" in self.part.meta:  # the name that is called, without what it is given
            return int(self.part.meta["start"]), int(self.part.meta["end"])
        if isinstance(self.part, exp.TableSample):
            return span_of(self.part)
        words = [one for one in sqlglot.tokenize(text, dialect=Headwater) if f"{one.text.lower()}()" == self.name]
        if words:
            return words[0].start, words[0].end
        around = self.part.find_ancestor(exp.Func)  # unix_timestamp() means the present one
        meta = {} if around is None else around.meta
        return (int(meta["start"]), int(meta["end"])) if "start" in meta else None

    @property
    def why(self) -> str:
        return f"{self.name} {'depends on the time' if self.clock else 'gives something else each time'}"


HINTS = {
    True: "use the event's own time (event_timestamp), or when it came (_ingested_at)",
    False: "use something of the row: event_id, or a hash of its key, xxhash64(id)",
}
"""By whether it depends on the clock."""


def non_deterministic(parsed: exp.Expr) -> Iterator[NonDeterminism]:
    """Each such part of a query or a condition."""
    for part in parsed.walk(bfs=False):
        name = _name(part)
        if isinstance(part, _CHANCE) or name in _PLACES:
            yield NonDeterminism(part, f"{name}()", clock=False)
        elif isinstance(part, exp.TableSample):
            yield NonDeterminism(part, "TABLESAMPLE", clock=False)
        elif isinstance(part, _CLOCK) or name in ("now", "localtimestamp"):
            yield NonDeterminism(part, f"{name}()", clock=True)
        elif isinstance(part, exp.Cast) and _is_present(part):
            yield NonDeterminism(part.this, f"{part.to.sql(dialect='spark')} '{part.this.name}'", clock=True)


def _name(part: exp.Expr) -> str:
    """What is called, in small letters; empty where nothing is."""
    if isinstance(part, exp.Anonymous):
        return str(part.name).lower()
    if isinstance(part, exp.Func):
        return part.sql_name().lower()
    # Spark takes it for the function where there is no such column.
    bare = isinstance(part, exp.Column) and not part.table and not part.this.args.get("quoted")
    return "localtimestamp" if bare and part.name.lower() == "localtimestamp" else ""


def _is_present(cast: exp.Cast) -> bool:
    value = cast.this
    words = value.name.split() if isinstance(value, exp.Literal) and value.is_string else []
    return bool(words) and words[0].lower() in _MOMENTS and cast.to.this in _TIMES
