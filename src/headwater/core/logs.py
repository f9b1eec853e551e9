"""Our own log: JSON lines in `.headwater/logs/headwater.log`. What people need to see is printed, not logged."""

from __future__ import annotations

import functools
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from headwater.core.disk_errors import cause_of, room
from headwater.core.private_files import create_private, make_private

_STDERR = 2
_BYTES, _FILES = 10_000_000, 5


class RotatingLog(RotatingFileHandler):
    """The file of the log. While it can't be written its lines are left out: that is said once, and counted.

    Rows and addresses may be in it: each of its files is its owner's alone.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_BYTES, backupCount=_FILES, delay=True)
        self._left_out = 0
        with suppress(OSError):  # the first line that can't be written says why
            self.stream = self._open()

    @property
    def is_whole(self) -> bool:
        """Whether the last line is in it."""
        return self._left_out == 0

    def emit(self, record: logging.LogRecord) -> None:
        before = self._left_out
        super().emit(record)
        if before and self._left_out == before:
            self._left_out = 0
            self._note(f"{before} lines were left out of the log")

    def _open(self) -> TextIOWrapper:
        create_private(Path(self.baseFilename))
        stream = super()._open()
        if self._left_out and stream.tell():
            stream.write("\n")  # the last line may have been cut off
        return stream

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by `emit` for what it could not write."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._left_out += 1
        with suppress(OSError):  # what it holds back would be written again and again
            if self.stream is not None:
                stream, self.stream = self.stream, None
                stream.close()
        if self._left_out == 1:
            message = f"the log {self.baseFilename} can't be written: {cause_of(error)}{room([self.baseFilename])}"
            with suppress(OSError, ValueError):
                print(f"{message}; its lines are left out until it can", file=sys.stderr, flush=True)

    def _note(self, message: str) -> None:
        note = logging.LogRecord("headwater.core.logs", logging.WARNING, __file__, 0, _line(message), None, None)
        super().emit(note)


def log_to(home: Path) -> None:
    """Send this process's log to the folder of a project."""
    folder = home / "logs"
    with suppress(OSError):  # the first line that can't be written says why
        make_private(folder)
    logger = logging.getLogger("headwater")
    path = folder / "headwater.log"
    if any(
        isinstance(handler, RotatingLog) and handler.baseFilename == os.path.abspath(path)
        for handler in logger.handlers
    ):
        return  # a runner opens its project again for each command that it answers
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(RotatingLog(path))
    logger.setLevel(logging.INFO)
    logger.propagate = False


@contextmanager
def native_words(home: Path) -> Iterator[None]:
    """While this is open, what libraries that are not Python's write to the terminal goes to the log folder: the Delta
    library's threads print a stack whenever a disk is full, and raise the error as well. Ours still goes out."""
    try:
        outlet = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        outlet = None
    if outlet != _STDERR:  # somebody has put something else there
        yield
        return
    try:
        file = home / "logs" / "native.err"
        make_private(file.parent)
        create_private(file)
        words = file.open("wb")
    except OSError:
        yield
        return
    ours, own = sys.stderr, os.dup(_STDERR)
    ours.flush()
    with words, open(own, "w", encoding=ours.encoding, errors=ours.errors, buffering=1) as sys.stderr:
        os.dup2(words.fileno(), _STDERR)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(own, _STDERR)
            sys.stderr = ours


def is_logging() -> bool:
    """Whether this process's log has a place."""
    return bool(_files())


def log_defect(error: BaseException) -> str:
    """Log an error that nobody has foreseen with its traceback, once; the file that it stands in.

    Where there is no project, or its log can't be written, that is a file of its own.
    """
    place = getattr(error, "_headwater_log", None)
    if place is None:
        if is_logging():  # else Python would print it
            get_logger(__name__).error("defect", error=f"{type(error).__name__}: {error}", exc_info=error)
        place = next((file.baseFilename for file in _files() if file.is_whole), None) or _aside(error)
        with suppress(AttributeError):
            error._headwater_log = place  # type: ignore[attr-defined]
    return str(place)


def _files() -> list[RotatingLog]:
    return [handler for handler in logging.getLogger("headwater").handlers if isinstance(handler, RotatingLog)]


def _aside(error: BaseException) -> str:
    descriptor, name = tempfile.mkstemp(prefix="headwater-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(traceback.format_exception(type(error), error, error.__traceback__))
    return name


def get_logger(name: str) -> Any:
    """A module's logger. What writes the lines is loaded with the first: that takes longer than many a command."""
    return _Logger(name)


class _Logger:
    """Stands for structlog's logger of a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return getattr(_bound(self._name), method)


@functools.cache
def _bound(name: str) -> Any:
    import structlog

    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def _line(message: str) -> str:
    import json
    from datetime import datetime, timezone

    return json.dumps({"event": message, "level": "warning", "timestamp": datetime.now(timezone.utc).isoformat()})
