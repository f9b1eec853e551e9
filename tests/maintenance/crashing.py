"""`headwater maintain` that kills itself at one moment of a compaction: `crashing.py before|after ARGUMENTS…`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from headwater.cli.main import main
from headwater.formats.maintenance import proof
from headwater.formats.registry import FORMATS
from headwater.maintenance import jobs

MOMENTS = ("before", "after")
"""When its files are written and its rows are compared: before the commit, or, where the format commits by itself,
between that and the check; and after the commit, before anything is noted of it."""


def kill(*_: object, **__: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def run(moment: str, arguments: list[str]) -> None:
    if moment == "after":
        jobs._effect = kill
    else:
        for format in FORMATS:  # whatever uses it has it by name
            assert format.spark is not None
        for name, module in list(sys.modules.items()):
            if name.startswith("headwater.formats.") and getattr(module, "require_same", None) is proof.require_same:
                module.require_same = kill  # type: ignore[attr-defined]
        proof.require_same = kill
    with patch.object(sys, "argv", ["headwater", *arguments]):
        main()


def killed(moment: str, *arguments: str | Path) -> bool:
    """Run a command that kills itself then; False if the moment did not come."""
    command = [sys.executable, "-m", "tests.maintenance.crashing", moment, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stdout + ended.stderr
    return ended.returncode != 0


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
