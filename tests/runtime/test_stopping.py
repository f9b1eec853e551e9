"""Ctrl-C at a terminal stops a run as SIGTERM does: the step in hand is finished, a summary is printed, exit code 0."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runtime.running import COMMAND, PROJECT, jvms, land
from tests.runtime.terminal import CTRL_C, Terminal
from tests.support import COLD

pytestmark = pytest.mark.spark


@contextmanager
def at_terminal(root: Path, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal([*COMMAND, "run", "--project", str(root), *arguments])
    try:
        yield terminal
    finally:
        terminal.end()
        for jvm in jvms(root):
            jvm.kill()


def gone(root: Path, seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while jvms(root) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not jvms(root)


def test_ctrl_c_at_a_terminal_is_a_clean_stop(tmp_path: Path) -> None:
    project = PROJECT.format(cold=COLD, topics="  orders: {from: landing}\n")
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    land(tmp_path, "1.json", [f"e{n}" for n in range(50)])
    with at_terminal(tmp_path, "--json") as terminal:
        terminal.until(lambda: '"event": "step"' in terminal.said)
        (jvm,) = jvms(tmp_path)
        assert os.getsid(jvm.pid) != os.getsid(terminal.pid), "the keys of the terminal do not reach Java"
        terminal.type(CTRL_C)
        assert terminal.wait() == 0, terminal.said
        assert '"event": "done", "stopped": true' in terminal.said and '"error": null' in terminal.said
        assert "SparkContext" not in terminal.said and "Traceback" not in terminal.said
        assert gone(tmp_path)

    # While Spark starts there is nothing to finish; and what people see is the summary.
    with at_terminal(tmp_path) as terminal:
        terminal.until(lambda: jvms(tmp_path))
        terminal.type(CTRL_C)
        assert terminal.wait() == 0, terminal.said
        assert "topics.orders" in terminal.said and "Traceback" not in terminal.said
        assert gone(tmp_path)

    # Killed, it leaves no Java behind, though that is in a session of its own.
    with at_terminal(tmp_path, "--json") as terminal:
        terminal.until(lambda: '"event": "started"' in terminal.said)
        assert jvms(tmp_path)
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait()
        assert gone(tmp_path)
