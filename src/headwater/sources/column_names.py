"""Names that columns of a topic have, and those that a payload's columns can't have. Light: `check` reads it too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count

from headwater.sources.base import EventColumns
from headwater.sources.decoders.base import CAST_FAILURES, EVENT, POSITION, PROBLEM, RAW, UNKNOWN

MAPPED = {
    "event_id": "id",
    "event_type": "type",
    "event_timestamp": "timestamp",
    "aggregate_id": "stream",
    "tenant_id": "tenant",
    "event_version": "version",
}
"""Standard column → the key of the source's `columns:` that maps it."""

EVENT_DATE = "event_date"
SOURCE = "_source"
INGESTED_AT = "_ingested_at"
RESCUED = "_rescued"
ROW = "_row"
CONTEXT = "_context"
"""What the source told alongside the bytes, as JSON; only of records with a problem."""
OF_ICEBERG = ("_file", "_pos", "_partition", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number")
OF_DELTA = ("_change_type", "_commit_version", "_commit_timestamp")
OF_PAIMON = ("_value_count", "_sequence_number", "_value_kind")
OF_FORMATS = (*OF_ICEBERG, *OF_DELTA, *OF_PAIMON)
"""Names that a format keeps for itself, in small letters: it can't make, or worse can't read, a table that has them.
They are left free in every format, so that a topic has the same columns in all of them and can be exported to any."""
OF_FORMATS_BEGIN = ("_hoodie_", "_key_", "_headwater_")
RESERVED = (
    EVENT_DATE,
    SOURCE,
    POSITION,
    INGESTED_AT,
    RAW,
    RESCUED,
    EVENT,
    PROBLEM,
    CAST_FAILURES,
    UNKNOWN,
    ROW,
    CONTEXT,
)
PREFIX = "payload_"


def is_of_a_format(name: str) -> bool:
    return name.lower() in OF_FORMATS or name.lower().startswith(OF_FORMATS_BEGIN)


def column_names(keys: Iterable[str], used: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each key of a payload with the name of its column: one that is used already gets a prefix."""
    taken = {name.lower() for name in used}
    for key in keys:
        name = unused_name(key, taken, may_keep=not is_of_a_format(key))
        taken.add(name.lower())
        yield key, name


def unused_name(key: str, taken: Collection[str], *, may_keep: bool = True) -> str:
    """The key, with a prefix where its name is `taken` (in small letters), and with a number if that is too."""
    if key and may_keep and key.lower() not in taken:
        return key
    candidates = chain((PREFIX + key,), (f"{PREFIX}{key}_{n}" for n in count(2)))
    return next(name for name in candidates if name.lower() not in taken)


def renamed_columns(declared: Iterable[str], mapped: EventColumns) -> dict[str, str]:
    """The declared columns that a topic has under other names, and those."""
    standard = {name: getattr(mapped, key) for name, key in MAPPED.items()}
    from_elsewhere = [name for name, told in standard.items() if told not in (None, name)]
    return {key: name for key, name in column_names(declared, (*RESERVED, *from_elsewhere)) if key != name}
