"""The seam for decoding: what the records hold, and the events that they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

RAW = "_raw"
"""The record's bytes, as they came."""
POSITION = "_position"
"""Where the record stands in its source; sorts in order of arrival."""
EVENT = "_event"
"""The decoded payload: a struct; NULL where nothing could be decoded."""
PROBLEM = "_problem"
"""Why a record can't be ingested: struct<reason: string, message: string>; NULL where all is well.

Reason `decode`: it could not be read at all, and the event is NULL. Reason `schema`: some value does not fit the
schema; the event is there without that value.
"""
CAST_FAILURES = "_misfits"
"""Optional: map<string,string> of top-level values that do not fit their type, as text; NULL where all is well."""
UNKNOWN = "_unknown"
"""Whether the record may hold more than the schema says."""
SIZE = "_headwater_record_size"
"""Optional: the size in bytes of a record that is too large, of which RAW is only the beginning; NULL for others."""
HEAD = 1 << 16
"""So many bytes are kept of a record that is too large."""
DECODE = "decode"
SCHEMA = "schema"
TOO_LARGE = "too_large"
"""A reason too: it is larger than somebody takes, and the event is NULL."""


class Decoder(ABC):
    """Makes events of a frame of records.

    A reader brings it. The topic's target (`ingest/topic.py`) uses it in each step: it decodes by the schema that is
    known, looks closely (`detect`) only where a record may hold more, and then decodes by what was found.
    """

    textual: bool = False
    """Values have no types of their own: the schema decides how they are read. The pipeline asks before it decodes."""

    @property
    def inferred(self) -> int:
        """Grows when `detect` has taught the decoder itself something, such as a registry's schema: then what `decode`
        gave before is out of date, even under the same schema. The topic compares it before and after each `detect`."""
        return 0

    @abstractmethod
    def detect(self, records: DataFrame) -> StructType:
        """The schema of these records' payloads; may run a job. A field that is null throughout is left out. Called
        for a topic's first records, and for a step's records that may hold what the schema lacks."""

    def agreed(self, records: DataFrame, found: StructType) -> tuple[StructType, tuple[str, ...]]:
        """What `detect` has found in these records, with the type of the many where they disagree; and what to tell
        people of it. Called right after a `detect` that has found text where there was none."""
        return found, ()

    @abstractmethod
    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        """The records with EVENT (a struct of exactly `schema`) and PROBLEM; no record is dropped or added. Called in
        each step whose records `quick` could not decide, when dead letters are replayed, and in a remap."""

    def quick(self, records: DataFrame, schema: StructType) -> DataFrame | None:
        """The records with EVENT and UNKNOWN alone: a plan as small as can be, for steps in which all is well. Called
        first in each step of a topic whose pipeline allows it.

        UNKNOWN is true for every record that `decode` gives a PROBLEM or that `unknown` is true for, and may be true
        for others; such a step is decoded again. EVENT has the fields of `schema`, and may have others behind them.
        None: there is no quicker way than `decode`.
        """
        return None

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        """Over decoded records, and their bytes: whether one holds what `schema` lacks. Exactly, and at any price: it
        is computed only for records that `unknown` is true for. Called once a topic has no room for another column.
        None: `unknown` itself is exact."""
        return None

    @property
    def width(self) -> Column | None:
        """Over records: a number of columns that one does not exceed by itself; None: they are all alike. Called when
        `detect` has found more columns than the topic may have, to leave out the records that bring them alone."""
        return None

    def unknown(self, schema: StructType) -> Column | None:
        """Over decoded records: whether one may hold what `schema` lacks. Never a wrong no; None: it can't happen.

        Called with each `decode` of a step. It is computed for every record, so it has to be cheap; `detect` then looks
        closely.
        """
        return None
