"""Rows of an older nested schema as a newer one has them. Spark's cast can't add a field to a struct."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headwater.schema.cast import conformed as value_under
from headwater.spark.frames import column


def conformed(df: DataFrame, schema: StructType) -> DataFrame:
    """The columns of `schema`: what `df` lacks, at any depth, is NULL."""
    known = {field.name: field.dataType for field in df.schema.fields}
    return df.select(
        *(
            (value_under(column(f.name), known[f.name], f.dataType) if f.name in known else _null(f.dataType)).alias(
                f.name
            )
            for f in schema.fields
        )
    )


def differ_inside(old: StructType, new: StructType) -> bool:
    """Whether a column that both have differs in its nested fields."""
    known = {field.name: field.dataType for field in old.fields}
    return any(
        isinstance(f.dataType, (StructType, ArrayType, MapType))
        and f.name in known
        and f.dataType.simpleString() != known[f.name].simpleString()
        for f in new.fields
    )


def _null(data_type: DataType) -> Column:
    return F.lit(None).cast(data_type)
