"""Our own log: JSON lines in `.headwater/logs/headwater.log`. What people need to see is printed, not logged."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import IO, Any

from headwater.private_files import create_private, make_private

_BYTES, _FILES = 10_000_000, 5


def log_to(home: Path) -> None:
    """Send this process's log to the folder of a project."""
    folder = home / "logs"
    make_private(folder)
    logger = logging.getLogger("headwater")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(_Log(folder / "headwater.log", maxBytes=_BYTES, backupCount=_FILES))
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Log(RotatingFileHandler):
    """Rows and addresses may be in it: each of its files is its owner's alone."""

    def _open(self) -> IO[Any]:  # type: ignore[override]
        create_private(Path(self.baseFilename))
        return super()._open()


def get_logger(name: str) -> Any:
    """A module's logger. What logs nothing need not load what writes the lines."""
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
