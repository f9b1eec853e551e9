"""A table that a user's streaming query makes: its function is called, its result checked, its query started."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, TerminalError, Where, did_you_mean
from headwater.core.model import DELETED
from headwater.core.storage import Files
from headwater.flows.ledger import Intent
from headwater.project.decorators import Registered
from headwater.project.load.code import shown
from headwater.project.transforms import line_of
from headwater.spark.errors import reason, without_plan
from headwater.spark.frames import column
from headwater.tables.batches import holds

TICK = "1 second"
"""How often a query that goes on looks at its inputs."""


def transformed(function: Registered, root: Path, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """What the function makes of streams; TRANSFORM_FAILED at the user's line where that is no stream."""
    result = called(function, root, inputs)
    if not result.isStreaming:
        hint = "make it from the parameters, which are streams; or leave `streaming=True` out"
        raise _failed(function, "what it gives is no stream", line_of(function, root), hint)
    return result


def called(function: Registered, root: Path, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """What the function makes of its inputs; TRANSFORM_FAILED at the user's line where that is no DataFrame."""
    try:
        result: Any = function.function(**inputs)
    except HeadwaterError:
        raise
    except Exception as error:  # the user's code may raise anything
        message = f"{type(error).__name__}: {without_plan(reason(error))}"
        raise _failed(function, message, _own_line(function, error, root)) from error
    if not isinstance(result, DataFrame):
        raise _failed(function, f"it gives a {type(result).__name__}, not a DataFrame", line_of(function, root))
    return result


def kept_columns(function: Registered, root: Path, result: DataFrame, keys: tuple[str, ...]) -> StructType:
    """The columns of the table; a key must be among them, and only a table with keys can delete."""
    for key in keys:
        if key not in result.columns:
            hint = did_you_mean(key, result.columns)
            raise _failed(function, f"it gives no column '{key}', a key of its table", line_of(function, root), hint)
    return StructType([f for f in result.schema.fields if not (keys and f.name == DELETED)])


def as_declared(function: Registered, root: Path, result: DataFrame, declared: StructType | None) -> DataFrame:
    """The columns that the table's `schema` declares, of its types and in its order; TRANSFORM_FAILED where the
    function gives others, or values that may not fit. DELETED is no column."""
    if declared is None:
        return result
    line = line_of(function, root)
    fields = {f.name.lower(): f for f in result.schema.fields}
    wanted = {f.name.lower() for f in declared.fields}
    for f in declared.fields:
        field = fields.get(f.name.lower())
        if field is None:
            hint = did_you_mean(f.name, result.columns)
            raise _failed(function, f"it gives no column '{f.name}', which `schema` declares", line, hint)
        if not holds(result.sparkSession, field.dataType, f.dataType):
            have, type_ = field.dataType.simpleString(), f.dataType.simpleString()
            why = f"column '{f.name}' is {have}, and `schema` declares {type_}"
            raise _failed(function, why, line, f"cast it in the function: col('{field.name}').cast('{type_}')")
    more = next((f.name for name, f in fields.items() if name not in wanted and f.name != DELETED), None)
    if more is not None:
        hint = did_you_mean(more, declared.names)
        raise _failed(function, f"it gives a column '{more}', and `schema` declares none of that name", line, hint)
    columns = [column(f.name).cast(f.dataType).alias(f.name) for f in declared.fields]
    return result.select(*columns, *([column(DELETED)] if DELETED in result.columns else []))


def started(
    function: Registered,
    root: Path,
    result: DataFrame,
    mode: str,
    checkpoint: str,
    take: Callable[[DataFrame, int], None],
    *,
    once: bool,
) -> StreamingQuery:
    """The query: over what is there by now, or going on."""
    writer = result.writeStream.foreachBatch(take).outputMode(mode).option("checkpointLocation", checkpoint)
    try:
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=TICK)).start()
    except AnalysisException as error:
        message = without_plan(reason(error))
        raise _failed(function, message, line_of(function, root), _hint(message)) from error


def is_intact(files: Files, checkpoint: str, last: Intent) -> bool:
    """Whether a checkpoint is the one that the last batch came from."""
    metadata = files.find(f"{checkpoint}/metadata")
    try:
        query = json.loads(metadata or b"{}").get("id")
    except ValueError:
        return False
    return query == last.end["query"] and files.exists(f"{checkpoint}/offsets/{last.step}")


def _hint(message: str) -> str | None:
    if "watermark" in message:
        return "give it one in the function: df.withWatermark(column, delay); or, with keys, output_mode='update'"
    return "the decorator's output_mode sets `append` or `update`" if "output mode" in message else None


def _own_line(function: Registered, error: Exception, root: Path) -> Where:
    """The last line of the function's own file on the way to the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == function.file]
    return Where(shown(Path(function.file), root), frames[-1].lineno if frames else function.line)


def _failed(function: Registered, why: str, where: Where, hint: str | None = None) -> TerminalError:
    return TerminalError(Code.TRANSFORM_FAILED, f"transform '{function.name}': {why}", where=where, hint=hint)
