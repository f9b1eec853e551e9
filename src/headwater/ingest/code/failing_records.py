"""Which records a function of Column expressions raises on.

The JVM says that some record of a step made it raise, and not which: the records are halved until one is left.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.errors import Code, TerminalError
from headwater.sources.decoders.base import POSITION
from headwater.spark.errors import reason, without_plan

MOST = 20
"""So many events of a step are told apart; beyond that the function is broken, not the events."""
FEW = 64
"""Up to so many records are halved by their positions, more by the hashes of these."""
_BUCKETS = 1 << 40
_OF_AN_EXPRESSION = re.compile(
    r"org\.apache\.spark\.Spark\w*Exception|java\.lang\.(Arithmetic|Runtime|IllegalArgument|NumberFormat)Exception"
    r"|java\.time\.\w*Exception"
)
_OF_A_RECORD = re.compile(
    r"^java\.lang\.(StackOverflowError|NullPointerException|IndexOutOfBoundsException"
    r"|ArrayIndexOutOfBoundsException|NegativeArraySizeException|ClassCastException|UnsupportedOperationException)"
)


@dataclass(frozen=True)
class _Part:
    """Some records: those with hashes in a range, or the few at these positions."""

    low: int = 0
    high: int = _BUCKETS
    positions: tuple[str, ...] | None = None

    def of(self, records: DataFrame) -> DataFrame:
        if self.positions is not None:
            return records.where(F.col(POSITION).isin(*self.positions))
        bucket = F.pmod(F.xxhash64(POSITION), F.lit(_BUCKETS))
        return records.where((bucket >= self.low) & (bucket < self.high))

    def listed(self, records: DataFrame) -> _Part:
        """The same records by their positions, where they are few."""
        if self.positions is not None:
            return self
        some = [row[0] for row in self.of(records).select(POSITION).limit(FEW + 1).collect()]
        few = len(some) <= FEW or self.high - self.low == 1
        return _Part(positions=tuple(sorted(set(some)))) if few else self

    def halves(self) -> tuple[_Part, _Part]:
        if self.positions is not None:
            middle = len(self.positions) // 2
            return _Part(positions=self.positions[:middle]), _Part(positions=self.positions[middle:])
        middle = (self.low + self.high) // 2
        return _Part(self.low, middle), _Part(middle, self.high)


def may_be_of_an_event(error: BaseException) -> bool:
    """Whether an expression may have raised it on some record."""
    return _OF_AN_EXPRESSION.match(reason(error)) is not None


def may_be_of_a_record(error: BaseException) -> bool:
    """Whether a step may have failed for what is in some record, and not for what is around it."""
    if isinstance(error, RecursionError):
        return True
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return False
    return _OF_A_RECORD.search(reason(error)) is not None or may_be_of_an_event(error)


def failing(records: DataFrame, attempt: Callable[[DataFrame], DataFrame]) -> dict[str, str]:
    """Positions of the records for which a step fails in Spark, with what it said; none if it fails for many, or for
    none of them."""

    def said(part: _Part) -> str | None:
        try:
            attempt(part.of(records)).write.format("noop").mode("overwrite").save()
        except Exception as error:
            if not may_be_of_a_record(error):
                raise
            return without_plan(reason(error)) or type(error).__name__
        return None

    try:
        return _halved(records, said)
    except TerminalError:
        return {}


def raising(records: DataFrame, shaped: Callable[[DataFrame], DataFrame]) -> dict[str, str]:
    """Positions of the records on which what is `shaped` of them raises, with what it said."""
    return _halved(records, lambda part: _said(shaped(part.of(records))))


def _halved(records: DataFrame, said: Callable[[_Part], str | None]) -> dict[str, str]:
    """The records that something is said of when they are alone."""
    messages: dict[str, str] = {}
    message = said(_Part())
    raised = deque([] if message is None else [(_Part(), message)])
    while raised:
        part, message = raised.popleft()
        part = part.listed(records)
        if part.positions is not None and len(part.positions) < 2:
            messages |= dict.fromkeys(part.positions, message)
            continue
        first, second = part.halves()
        # Where the first half is fine, it was the second that raised, with the same words.
        of_first = said(first)
        of_second = message if of_first is None else said(second)
        raised += [(half, failure) for half, failure in ((first, of_first), (second, of_second)) if failure is not None]
        if len(messages) + len(raised) > MOST:
            raise _too_many(message)
    return messages


def _too_many(message: str) -> TerminalError:
    return TerminalError(
        Code.FUNCTION_FAILED,
        f"a mapper, upcaster or filter raised on more than {MOST} events of one step: {message}",
        hint="fix it; nothing of the step was ingested, and the flow continues from there",
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
