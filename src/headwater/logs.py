"""Our own log: JSON lines in `.headwater/logs/headwater.log`. What people need to see is printed, not logged."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

_BYTES, _FILES = 10_000_000, 5


def log_to(home: Path) -> None:
    """Send this process's log to the folder of a project."""
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger("headwater")
    for handler in logger.handlers[:]:
        logger.removeHandler(handler)
        handler.close()
    logger.addHandler(RotatingFileHandler(folder / "headwater.log", maxBytes=_BYTES, backupCount=_FILES))
    logger.setLevel(logging.INFO)
    logger.propagate = False


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
