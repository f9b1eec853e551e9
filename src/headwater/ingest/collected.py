"""A small step's rows on the driver, as Arrow."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from headwater.ingest.columns import EVENT_DATE, INGESTED_AT
from headwater.sources.decoders.base import PROBLEM, SCHEMA, UNKNOWN

if TYPE_CHECKING:
    import pyarrow as pa


def stamped(rows: pa.Table) -> pa.Table:
    """With the time of arrival, and the date of those that have no time of their own."""
    import pyarrow as pa
    import pyarrow.compute as pc

    now = datetime.now(timezone.utc)
    for name, value in ((INGESTED_AT, now), (EVENT_DATE, now.date())):
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            rows = rows.set_column(at, field, pc.fill_null(rows[name], pa.scalar(value, field.type)))
    return rows


def has_suspect(rows: pa.Table) -> bool:
    """Whether a record may bring something new: an unknown key, or a type that may be widened."""
    import pyarrow.compute as pc

    if pc.any(rows[UNKNOWN]).as_py():
        return True
    return SCHEMA in pc.unique(pc.struct_field(rows[PROBLEM], "reason")).to_pylist()


def split(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Those with a problem, and the others."""
    import pyarrow.compute as pc

    is_bad = pc.is_valid(rows[PROBLEM])
    return rows.filter(is_bad), rows.filter(pc.invert(is_bad))
