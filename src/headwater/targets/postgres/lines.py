"""Rows of an export as lines of COPY, made by Spark; what Postgres can't hold is told apart with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from headwater.core.model import DELETED
from headwater.spark.frames import column
from headwater.targets.postgres.types import copied, refused

if TYPE_CHECKING:
    from headwater.targets.spool import RowSpool

LINE, KEY, REASON = "line", "key", "reason"


def lines(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """A line for each row; where Postgres can't hold it the reason instead, and the row's key as JSON."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    parts = [copied(_kept(name, key, DELETED in types), kind) for name, kind in types.items()]
    line = F.concat(F.concat_ws("\t", *parts), F.lit("\n"))
    reason = _reason(types, key, DELETED in types)
    if reason is None:
        return rows.select(line.alias(LINE))
    shown = F.to_json(F.struct(*(column(name) for name in key or list(types))), {"ignoreNullFields": "false"})
    return rows.select(
        F.when(reason.isNull(), line).alias(LINE), F.when(reason.isNotNull(), shown).alias(KEY), reason.alias(REASON)
    )


def _reason(types: dict[str, DataType], key: Sequence[str], with_deletes: bool) -> Column | None:
    found = (refused(_kept(name, key, with_deletes), kind, name) for name, kind in types.items())
    reasons = [one for one in found if one is not None]
    return F.coalesce(*reasons) if reasons else None


def _kept(name: str, key: Sequence[str], with_deletes: bool) -> Column:
    """A column; of a row that is deleted nothing but the key counts."""
    if not with_deletes or name in key or name == DELETED:
        return column(name)
    return F.when(~column(DELETED), column(name))


def text_of(spool: RowSpool) -> Iterator[memoryview]:
    """What COPY is given, in pieces."""
    for batch in spool.batches():
        yield _joined(batch.column(0))


def refusals_of(spool: RowSpool) -> Iterator[tuple[str, str]]:
    """The key and the reason of each row that Postgres can't hold."""
    for batch in spool.batches():
        if batch.num_columns > 1 and batch.column(0).null_count:
            left = batch.filter(batch.column(0).is_null())
            yield from zip(left.column(KEY).to_pylist(), left.column(REASON).to_pylist(), strict=True)


def _joined(texts: pa.Array) -> memoryview:
    """The bytes of an array's texts, which lie one behind the other."""
    whole = texts.cast(pa.large_binary())
    _, offsets, data = whole.buffers()
    if data is None:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int64)
    return memoryview(data)[ends[whole.offset] : ends[whole.offset + len(whole)]]
