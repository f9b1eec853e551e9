"""What somebody can do about an event that does not fit its topic's schema: said with the event's dead letter."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headwater.core.model import HINT_MARK
from headwater.core.spec import Topic
from headwater.sources.base import SourceSpec
from headwater.sources.decoders.base import SCHEMA

REQUIRED = "is required and has no value"
"""How the message of a missing value ends."""
UNREADABLE = " can't be read as "
"""What the message of a standard column says; its type is given."""


def with_hint(reason: Column, message: Column, topic: Topic, source: SourceSpec) -> Column:
    """The message, and for a value that does not fit what takes its event in."""
    hint = (
        F.when(F.endswith(message, F.lit(REQUIRED)), F.lit(_of_a_missing_value(topic)))
        .when(F.contains(message, F.lit(UNREADABLE)), F.lit(_without_it(topic)))
        .otherwise(F.lit(_of_a_value(topic, source)))
    )
    return F.when(reason == SCHEMA, F.concat(message, F.lit(HINT_MARK), hint)).otherwise(message)


def _of_a_missing_value(topic: Topic) -> str:
    return f"take NOT NULL from it in the source's schema, then `headwater dlq replay {topic.name}`"


def _without_it(topic: Topic) -> str:
    without = "`schema: {mismatch: discard_value}` takes the event in without the value"
    kept = ", `{new_column: rescue}` keeps the value in _rescued"
    return f"{without}{kept}, then `headwater dlq replay {topic.name}`"


def _of_a_value(topic: Topic, source: SourceSpec) -> str:
    # What programs have appended is nowhere else: to read it from the beginning would lose it.
    if not hasattr(source, "schema_hints") or source.takes_rows:
        return _without_it(topic)
    again = f"tell the type in the source's schema_hints, then `headwater flow rebuild {topic.name} --yes`"
    return f"{_without_it(topic)}; or {again}"
