"""Which files of a batch can't be read, after reading them all together has failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame

from headwater.core.disk_errors import chain_of, tells_passing
from headwater.core.storage import Files
from headwater.sources.files.log import InputFile
from headwater.spark.errors import reason, tells_transient

_CHUNK = 1 << 22
_NOT_THE_FILE = ("cancelled", "OutOfMemoryError", "ExecutorLostFailure")


def unreadable(taken: Sequence[InputFile], read: Callable[[Sequence[InputFile]], DataFrame]) -> dict[InputFile, str]:
    """Halves that fail are halved again: a few jobs for one broken file among a thousand."""
    cause = _attempt(taken, read) if taken else None
    if cause is None:
        return {}
    if len(taken) == 1:
        again = _attempt(taken, read)  # what does not happen again is not in the file
        return {} if again is None else {taken[0]: again}
    half = len(taken) // 2
    return {**unreadable(taken[:half], read), **unreadable(taken[half:], read)}


def read_through(files: Files, file: InputFile) -> None:
    """Read a file's bytes to the end: raises if it is the storage that fails, and not what is in the file."""
    with files.reading(file.path) as opened:
        while opened.read(_CHUNK):
            pass


def _attempt(taken: Sequence[InputFile], read: Callable[[Sequence[InputFile]], DataFrame]) -> str | None:
    try:
        read(taken).write.format("noop").mode("overwrite").save()
    except (PySparkException, Py4JError) as error:
        if not blames_a_task(error) and not blames_a_path(error):
            raise
        return root_cause(error)
    return None


def blames_a_task(error: BaseException) -> bool:
    """Whether Spark gave up because a task failed by itself: not because the job was ended or the machine too small."""
    chain = list(chain_of(error))
    told = " ".join(map(str, chain))
    failed = "aborted due to stage failure" in told or any(isinstance(one, PythonException) for one in chain)
    passing = tells_passing(told) or tells_transient(told)
    return failed and not passing and not any(word in told for word in _NOT_THE_FILE)


def blames_a_path(error: BaseException) -> bool:
    """Whether Spark could not make sense of the name of a file or folder."""
    return any("URISyntaxException" in str(one) for one in chain_of(error))


def root_cause(error: Exception) -> str:
    """What is at the bottom of Spark's chain of exceptions, in a line."""
    text = reason(error)
    told = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown"]
    # Python tells its error last, Java first.
    return (told[-1] if "Traceback" in text else told[0].rsplit("Exception: ", 1)[-1])[:500]
