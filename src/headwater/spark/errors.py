"""What Spark raises, as an error of ours: its reason in a line, without its stack."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.core.disk_errors import disk_error, hint_for, is_passing, paths_in, room, tells_full, tells_passing
from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError
from headwater.core.logs import log_defect
from headwater.spark.jvm import HINT

_TRANSIENT = re.compile(
    r"TimeoutException|SocketException|ConnectException|ConnectionReset|UnknownHostException|ConcurrentAppend"
    r"|ConcurrentTransaction|ConcurrentWrite|CommitFailedException|Connection refused|timed out"
    r"|Socket (?:is )?closed|Connection (?:was )?reset|Broken pipe|SocketTimeout|ClosedByInterrupt|SlowDown",
    re.IGNORECASE,
)


_UNREAD = re.compile(r"(?:Failed to (?:read|open)[^:]*|Checksum error): ([^\s:]*:?/\S+)")
_OF_DISKS = frozenset({Code.SPARK_FAILED, Code.STORAGE_FAILED, Code.COMMIT_FAILED, Code.TABLE_CORRUPT})
"""Errors whose texts may be those of a file system."""
_CLASS = re.compile(r"^(java\.lang\.IllegalArgumentException: (requirement failed: )?|org\.apache\.spark\.Spark\w+: )")
"""What Java puts before a message that says all by itself."""
_ENDED = re.compile(r"SparkContext (was|has been) shut ?down|java\.lang\.OutOfMemoryError|^Spark has ended$")
"""What is said of work that was going on when Spark ended."""


def as_headwater_error(error: BaseException, places: Sequence[str] = ()) -> HeadwaterError:
    """The error as it is, or what it means; a defect of ours is logged. `places`: the folders of the lake, where the
    error names no file on a disk that has failed."""
    if isinstance(error, HeadwaterError):
        if error.code is Code.INTERNAL:
            log_defect(error)
        return _of_a_disk(error, places)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, (PySparkException, Py4JError)):
        message = reason(error)
        said = f"{message} {_words(error)}"
        if tells_passing(said):
            paths = paths_in(said) or places
            hint = hint_for(full=tells_full(said))
            return TransientError(Code.STORAGE_FAILED, f"{without_plan(message)}{room(paths)}", hint=hint)
        kind = TransientError if _TRANSIENT.search(message) else TerminalError
        hint = HINT if _ENDED.search(message) else None
        return kind(Code.SPARK_FAILED, _CLASS.sub("", without_plan(message)), hint=hint)
    if isinstance(error, OSError) and is_passing(error):
        return disk_error("the file system failed", error, *places)
    if isinstance(error, (OSError, MemoryError)):
        return TerminalError(Code.STORAGE_FAILED, str(error) or type(error).__name__)
    hint = f"this is a defect in Headwater; {log_defect(error)} has the details"
    return TerminalError(Code.INTERNAL, f"{type(error).__name__}: {error}", hint=hint)


@contextmanager
def spark_errors(what: str = "") -> Iterator[None]:
    """What Spark raises in this block while it works is raised as an error of ours; what its analysis finds is left
    to those who can point at it."""
    try:
        yield
    except Exception as error:
        if "pyspark" not in sys.modules:
            raise
        from py4j.protocol import Py4JError
        from pyspark.errors import AnalysisException, PySparkException

        if isinstance(error, AnalysisException) or not isinstance(error, (PySparkException, Py4JError)):
            raise
        failure = as_headwater_error(error)
        if what:
            message = f"{what}: {failure.problem.message}"
            failure = type(failure)(failure.code, message, hint=failure.problem.hint)
        raise failure from error


def tells_transient(text: str) -> bool:
    """Whether Java or Python says what may pass: a connection that broke, a server that is away, another writer."""
    return _TRANSIENT.search(text) is not None


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Spark has gone, and nothing was kept
        return ""


def _of_a_disk(error: HeadwaterError, places: Sequence[str]) -> HeadwaterError:
    """An error of ours that tells of a disk, as one that goes away, with the room that is left there."""
    problem = error.problem
    if error.code not in _OF_DISKS or not tells_passing(problem.message) or " are free at " in problem.message:
        return error
    message = f"{problem.message}{room(paths_in(problem.message) or places)}"
    hint = problem.hint or hint_for(full=tells_full(message))
    full = TransientError(error.code, message, where=problem.where, hint=hint, excerpt=problem.excerpt)
    full.__cause__ = error
    return full


def keep_words(error: BaseException | None) -> None:
    """Let an error of Spark's say what it says also when Spark has gone: it would ask it for its words."""
    if "pyspark" not in sys.modules or error is None:
        return
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    if isinstance(error, (CapturedException, Py4JJavaError)):
        words = str(error)
        error.__class__ = type(type(error).__name__, (type(error),), {"__str__": lambda self: words})


def reason(error: Any) -> str:
    """The innermost cause that Java or Spark gives, as text."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    from py4j.protocol import Py4JError

    try:
        return str(innermost(java).toString())
    except (Py4JError, OSError):  # Spark has gone meanwhile: what was kept of its words
        return _innermost(error)


def _innermost(error: Any) -> str:
    try:
        lines = str(error).splitlines()
    except Exception:  # nothing was kept: py4j raises whatever it met
        return "Spark has ended"
    causes = [line.removeprefix("Caused by:") for line in lines if line.startswith(("Caused by:", ": "))]
    return (causes or lines or ["Spark has ended"])[-1].removeprefix(": ").strip()


def innermost(java: Any) -> Any:
    """The cause at the bottom of a Java exception, which may be its own."""
    seen = {int(java.hashCode())}
    while (cause := java.getCause()) is not None and int(cause.hashCode()) not in seen:
        java = cause
        seen.add(int(java.hashCode()))
    return java


def causes(error: BaseException) -> list[str]:
    """The Java classes of an error and of all that caused it."""
    at: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    names: list[str] = []
    while at is not None and len(names) < 20:
        names.append(str(at.getClass().getName()))
        at = at.getCause()
    return names


def unread_file(error: Any) -> str | None:
    """The file that Java could not read, where something above the innermost cause names one."""
    at = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(20):
        if at is None:
            return None
        named = _UNREAD.search(str(at.getMessage()))
        if named is not None:
            return named[1]
        at = at.getCause()
    return None


def piece_of(error: Any) -> str | None:
    """The piece of a query that Spark's analysis is about, where it says so."""
    if hasattr(error, "fragment"):  # another process's Spark has said it
        return error.fragment if isinstance(error.fragment, str) else None
    from py4j.protocol import Py4JError

    java = getattr(error, "_origin", None)
    try:
        contexts = [] if java is None else list(java.getQueryContext())
        return str(contexts[0].fragment()) if contexts else None
    except Py4JError:  # what Java itself raises knows of no query
        return None


def without_plan(message: str) -> str:
    """Spark appends the query's plan, and sometimes a stack, to what it says."""
    lines = [line for line in message.splitlines() if line.strip()]
    stacks = [at for at, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    if stacks:
        # What a Python worker raised stands below its stack.
        lines = [line for line in lines[stacks[-1] + 1 :] if not line.startswith((" ", "\t"))][:1] or lines
    kept = []
    for line in lines:
        if line.startswith(("'", "+-", ":-", "JVM stacktrace", "\tat ", "Driver stacktrace")):
            break
        kept.append(line.strip())
        if kept[-1].endswith(";"):
            break  # what follows is the plan, whatever its first word
    return " ".join(kept[:6]).removesuffix(";")
