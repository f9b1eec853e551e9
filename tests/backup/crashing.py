"""A command that kills itself with its n-th file: `crashing.py NUMBER ARGUMENTS…`. By SIGKILL: nothing is tidied up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from headwater.cli.main import main
from headwater.core.storage import Files

WAYS = ("write_chunks", "write_atomic", "delete")


def run(number: int, arguments: list[str]) -> int:
    left = [number]

    def counting(act: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return act(*given, **named)

        return counted

    for name in WAYS:
        setattr(Files, name, counting(getattr(Files, name)))
    with patch.object(sys, "argv", ["headwater", *arguments]):
        try:
            main()
        except SystemExit as ended:
            if ended.code:
                return int(ended.code)
    print(number - left[0])
    return 0


def killed(number: int, *arguments: str | Path) -> bool:
    """Run a command that kills itself with a file of this number; False if it was done before."""
    command = [sys.executable, "-m", "tests.backup.crashing", str(number), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stdout + ended.stderr
    return ended.returncode != 0


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
