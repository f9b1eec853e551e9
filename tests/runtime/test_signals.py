"""The second signal does not wait for anything."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

SCRIPT = """
import time
from headwater.cli.commands.run import stop_on_signals
with stop_on_signals() as stopping:
    print("ready", flush=True)
    stopping.asked.wait()
    print("asked", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_asks_and_the_second_ends(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for word in ("ready", "asked"):
            assert process.stdout.readline().strip() == word
            process.send_signal(number)
        assert process.wait(10) == 128 + number
