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

from headwater.decorators import Registered
from headwater.errors import Code, HeadwaterError, TerminalError, Where, did_you_mean
from headwater.flows import Intent
from headwater.model import DELETED
from headwater.project.code import shown
from headwater.project.transforms import line_of
from headwater.sparkerrors import reason, without_plan
from headwater.storage import Files

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
        hint = "the decorator's output_mode sets `append` or `update`" if "output mode" in str(error) else None
        raise _failed(function, without_plan(reason(error)), line_of(function, root), hint) from error


def is_intact(files: Files, checkpoint: str, last: Intent) -> bool:
    """Whether a checkpoint is the one that the last batch came from."""
    found = files.find(f"{checkpoint}/metadata")
    try:
        query = json.loads(found or b"{}").get("id")
    except ValueError:
        return False
    return query == last.end["query"] and files.exists(f"{checkpoint}/offsets/{last.step}")


def _own_line(function: Registered, error: Exception, root: Path) -> Where:
    """The last line of the function's own file on the way to the error."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == function.file]
    return Where(shown(Path(function.file), root), frames[-1].lineno if frames else function.line)


def _failed(function: Registered, why: str, where: Where, hint: str | None = None) -> TerminalError:
    return TerminalError(Code.TRANSFORM_FAILED, f"transform '{function.name}': {why}", where=where, hint=hint)
