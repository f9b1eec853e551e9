"""Records that are larger than `max_record_size`: dead letters with their size and their beginning, never decoded."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.sources.decoders.base import EVENT, HEAD, PROBLEM, RAW, SIZE, TOO_LARGE, UNKNOWN, Decoder
from headwater.sources.decoders.typed import PROBLEM_TYPE, problem

_LARGE = "_headwater_large"
"""Size and beginning of a record that is too large; NULL for all others."""


class BoundedDecoder(Decoder):
    """Another decoder, which is shown no record that is larger than a limit.

    Readers that find such a record before it is in memory give its beginning as RAW, and its SIZE.
    """

    def __init__(self, inner: Decoder, limit: int) -> None:
        self._inner = inner
        self._limit = limit
        self.textual = inner.textual

    @property
    def inferred(self) -> int:
        return self._inner.inferred

    def detect(self, records: DataFrame) -> StructType:
        return self._inner.detect(self._small(records))

    def agreed(self, records: DataFrame, found: StructType) -> tuple[StructType, tuple[str, ...]]:
        return self._inner.agreed(self._small(records), found)

    def _small(self, records: DataFrame) -> DataFrame:
        small = ~self._is_large(records)
        if PROBLEM in records.columns:
            small &= F.coalesce(F.col(f"{PROBLEM}.reason") != TOO_LARGE, F.lit(True))
        return records.where(small).drop(SIZE)

    def decode(self, records: DataFrame, schema: StructType) -> DataFrame:
        large = self._is_large(records)
        size = F.octet_length(RAW).cast("bigint")
        if SIZE in records.columns:
            size = F.coalesce(SIZE, size)
        told = F.when(large, F.struct(size.alias("size"), F.substring(RAW, 1, HEAD).alias("head")))
        shown = records.withColumns({_LARGE: told, RAW: F.when(~large, F.col(RAW))}).drop(SIZE)
        decoded = self._inner.decode(shown, schema)
        fine = F.col(_LARGE).isNull()
        return decoded.withColumns(
            {
                EVENT: F.when(fine, F.col(EVENT)),
                PROBLEM: F.when(fine, F.col(PROBLEM)).otherwise(self._problem()).cast(PROBLEM_TYPE),
                RAW: F.coalesce(RAW, f"{_LARGE}.head"),
            }
        )

    def quick(self, records: DataFrame, schema: StructType) -> DataFrame | None:
        found = self._inner.quick(records, schema)
        if found is None:
            return None
        # Whether a size was told is looked at by `decode`, which UNKNOWN leads to.
        return found.withColumn(UNKNOWN, F.col(UNKNOWN) | self._is_large(found))

    def unknown(self, schema: StructType) -> Column | None:
        found = self._inner.unknown(schema)
        return None if found is None else found & F.col(_LARGE).isNull()

    def beyond(self, schema: StructType, raw: Column) -> Column | None:
        return self._inner.beyond(schema, F.when(F.octet_length(raw) <= self._limit, raw))

    @property
    def width(self) -> Column | None:
        return self._inner.width

    def _is_large(self, records: DataFrame) -> Column:
        large = F.coalesce(F.octet_length(RAW) > self._limit, F.lit(False))
        return large | F.col(SIZE).isNotNull() if SIZE in records.columns else large

    def _problem(self) -> Column:
        size = F.col(f"{_LARGE}.size")
        rest = F.when(size > HEAD, F.lit(f"; the first {HEAD} are kept")).otherwise("")
        message = F.concat(size.cast("string"), F.lit(f" bytes are more than `max_record_size`, {self._limit}"), rest)
        return problem(TOO_LARGE, message)
