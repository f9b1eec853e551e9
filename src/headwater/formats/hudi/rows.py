"""Users' rows as a write gives them to Hudi."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from headwater.core.model import DELETED
from headwater.core.spec import Layout
from headwater.formats.hudi.columns import nullable, stored_schema, to_stored
from headwater.formats.hudi.keys import RECORD_KEY, record_key, record_key_values, with_checked_keys
from headwater.formats.hudi.names import NO_VALUE
from headwater.spark.frames import column

IS_DELETED = "_hoodie_is_deleted"


def prepared(df: DataFrame, schema: StructType, layout: Layout) -> DataFrame:
    """The rows to write, with the columns that only Hudi sees."""
    checked = with_checked_keys(_without_empty_partitions(df, schema, layout), schema, layout)
    hidden: list[Column] = []
    if record_key(schema, layout.keys) == RECORD_KEY:
        hidden.append(nullable(record_key_values(schema, layout.keys)).alias(RECORD_KEY))
    if layout.keys:
        # from the first write on, so that a delete never has to add a column
        flag = column(DELETED) if DELETED in df.columns else F.lit(False)
        hidden.append(nullable(flag).alias(IS_DELETED))
    return to_stored(checked, schema, *hidden)


def prepared_schema(schema: StructType, layout: Layout) -> StructType:
    """The schema of prepared rows."""
    fields = list(stored_schema(schema).fields)
    if record_key(schema, layout.keys) == RECORD_KEY:
        fields.append(StructField(RECORD_KEY, StringType()))
    if layout.keys:
        fields.append(StructField(IS_DELETED, BooleanType()))
    return StructType(fields)


def _without_empty_partitions(df: DataFrame, schema: StructType, layout: Layout) -> DataFrame:
    """A partition path has one text for '' and NULL, as everywhere on Hive-style paths: both are NULL then."""
    for name in layout.partition_by:
        if isinstance(schema[name].dataType, StringType) and name not in layout.keys:
            df = df.withColumn(name, F.when(~column(name).isin("", NO_VALUE), column(name)))
    return df
