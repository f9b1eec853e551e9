"""Rows for copies: of every type, and as the change of a step."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.exports.lakes import COLUMNS, NESTED, NESTED_VALUES, PLAIN_ROWS


def goods(spark: SparkSession) -> DataFrame:
    schema = COLUMNS + NESTED
    names = "id name price big ratio small flag n day at tags place counts".split()  # noqa: SIM905
    return spark.sql(f"SELECT *, {NESTED_VALUES} FROM VALUES {PLAIN_ROWS}").toDF(*names).to(_schema(spark, schema))


def _schema(spark: SparkSession, text: str) -> Any:
    return spark.createDataFrame([], text).schema


def change(spark: SparkSession, values: str, columns: str = "id, total, note") -> DataFrame:
    return spark.sql(f"SELECT * FROM VALUES {values} AS t({columns}, _deleted)")
