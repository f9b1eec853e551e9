"""Calling the project's functions that work by Column expressions, with their mistakes shown at their lines."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headwater.core.errors import Code, UsageError, Where
from headwater.ingest.code.event import event_of
from headwater.project.decorators import Registered
from headwater.project.signatures import code_location
from headwater.spark.errors import reason, without_plan


def empty(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame of no rows, to ask for the types of expressions: no job is run."""
    return spark.range(0).select(*[F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields])


def called(function: Registered, schema: StructType) -> Any:
    """What a function makes of the event in frames of this schema."""
    try:
        return function.function(event_of(schema))
    except Exception as error:  # the user's code may raise anything
        own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == function.file]
        at = code_location(function)
        where = Where(at.file, own[-1].lineno if own else at.line)
        message = f"{function.role} '{function.name}': {type(error).__name__}: {_text(error)}"
        raise UsageError(Code.INVALID_FUNCTION, message, where=where) from None


def expressions(function: Registered, schema: StructType) -> dict[str, Column | None]:
    """The fields that a mapper or upcaster gives; None is a field to empty."""
    made = called(function, schema)
    if not isinstance(made, Mapping):
        message = f"{function.role} '{function.name}' returned {type(made).__name__}"
        hint = 'return a dict of Column expressions: {"total": event["price"] * event["quantity"]}'
        raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint=hint)
    return {
        str(name): value if value is None or isinstance(value, Column) else F.lit(value) for name, value in made.items()
    }


def types_of(function: Registered, fields: Mapping[str, Column], frame: DataFrame) -> dict[str, DataType]:
    """The types of the fields that a function gives."""
    try:
        typed = frame.select(*[value.alias(name) for name, value in fields.items()]).schema
    except PySparkException as error:
        message = f"{function.role} '{function.name}': {without_plan(str(error))}"
        raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function)) from None
    return {f.name: f.dataType for f in typed.fields}


def _text(error: BaseException) -> str:
    return without_plan(reason(error)) if isinstance(error, (PySparkException, Py4JError)) else str(error)
