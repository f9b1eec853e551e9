"""Which records a function of Column expressions raises on.

The JVM says that some record of a step made it raise, and not which: the records are halved until one is left.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.errors import Code, TerminalError
from headwater.sources.decoding.base import POSITION
from headwater.sparkerrors import reason, without_plan

MOST = 20
"""So many events of a step are told apart; beyond that the function is broken, not the events."""
_BUCKETS = 1 << 40
_OF_AN_EXPRESSION = re.compile(
    r"org\.apache\.spark\.Spark\w*Exception|java\.lang\.(Arithmetic|Runtime|IllegalArgument|NumberFormat)Exception"
    r"|java\.time\.\w*Exception"
)


def may_be_of_an_event(error: BaseException) -> bool:
    """Whether an expression may have raised it on some record."""
    return _OF_AN_EXPRESSION.match(reason(error)) is not None


def raising(records: DataFrame, shaped: Callable[[DataFrame], DataFrame]) -> dict[str, str]:
    """Positions of the records on which what is `shaped` of them raises, with what it said."""
    bucket = F.pmod(F.xxhash64(POSITION), F.lit(_BUCKETS))
    found: dict[str, str] = {}
    ranges = [(0, _BUCKETS)]
    while ranges:
        halves = []
        for low, high in ranges:
            part = records.where((bucket >= low) & (bucket < high))
            message = _said(shaped(part))
            if message is None:
                continue
            some = [row[0] for row in part.select(POSITION).limit(2).collect()]
            if len(some) == 1 or high - low == 1:
                found |= dict.fromkeys(some, message)
            else:
                middle = (low + high) // 2
                halves += [(low, middle), (middle, high)]
            if len(found) + len(halves) // 2 > MOST:
                raise _too_many(message)
        ranges = halves
    return found


def _too_many(message: str) -> TerminalError:
    return TerminalError(
        Code.FUNCTION_FAILED,
        f"a mapper, upcaster or filter raised on more than {MOST} events of one step: {message}",
        hint="mend it; nothing of the step was taken in, and the flow goes on from there",
    )


def _said(frame: DataFrame) -> str | None:
    """What computing the frame raises; None if all is well."""
    try:
        frame.write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JJavaError) as error:
        if not may_be_of_an_event(error):
            raise
        return without_plan(reason(error)).partition(": ")[2] or without_plan(reason(error))
    return None
