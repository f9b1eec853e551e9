"""The years that all formats, engines and Python itself have days and times of: 1 to 9999."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType

_FIRST = {"date": "0001-01-01", "timestamp": "0001-01-01T00:00:00Z", "timestamp_ntz": "0001-01-01T00:00:00"}
_LAST = {
    "date": "9999-12-31",
    "timestamp": "9999-12-31T23:59:59.999999Z",
    "timestamp_ntz": "9999-12-31T23:59:59.999999",
}


def is_time(data_type: DataType) -> bool:
    """Whether values of the type have years."""
    return isinstance(data_type, (DateType, TimestampType, TimestampNTZType))


def is_beyond_years(value: Column, of: DataType) -> Column:
    """Whether the year of a day or time is another one."""
    name = of.simpleString()
    return (value < F.lit(_FIRST[name]).cast(of)) | (value > F.lit(_LAST[name]).cast(of))
