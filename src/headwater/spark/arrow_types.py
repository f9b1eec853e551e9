"""The Arrow types of rows that go to Spark or come from it, by PySpark's own conversion."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType


def arrow_type_of(data_type: DataType) -> pa.DataType:
    """What Spark's values of a type are in Arrow."""
    return to_arrow_type(data_type)


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """What Spark's rows are in Arrow."""
    return to_arrow_schema(schema)


def spark_schema_of(schema: pa.Schema) -> StructType:
    """What Arrow's rows are in Spark; a timestamp is a `timestamp`, with a zone or without."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=False)
