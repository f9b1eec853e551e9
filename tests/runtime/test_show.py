"""What a run shows, at a terminal and to a program that stops listening."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

AT_A_TERMINAL = """
import time
from headwater.cli.live import RunDisplay
from headwater.core.errors import Code, TransientError
from headwater.runner.reports import FlowReport, FlowState
show, report = RunDisplay(as_json=False), FlowReport("topics.orders")
with show.showing():
    show.on_ready([report])
    time.sleep(0.7)
    report.state, report.rows = FlowState.RETRYING, 12345
    report.error = TransientError(Code.SOURCE_UNAVAILABLE, "no folder [x]")
    time.sleep(1.2)
"""
TO_A_PIPE = """
import sys
from pathlib import Path
from headwater.cli.live import RunDisplay
from headwater.runner.reports import FlowEvent
show = RunDisplay(as_json=True)
show.on_event(FlowEvent("started", "topics.orders"))
sys.stdin.readline()
for _ in range(100):
    show.on_event(FlowEvent("started", "topics.orders"))
print("went on", file=sys.stderr)
"""


def test_a_table_that_keeps_itself_up_to_date() -> None:
    terminal, end = pty.openpty()
    wide = {**os.environ, "COLUMNS": "160", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", AT_A_TERMINAL], stderr=end, env=wide, check=True, timeout=60)
    text = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    os.close(end)
    assert "starting" in text
    assert "retrying" in text and "12,345" in text and "no folder [x]" in text


def test_a_listener_that_goes_away_stops_nothing() -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", TO_A_PIPE], **pipes) as process:  # type: ignore[call-overload]
        assert b'"started"' in process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert b"went on" in process.stderr.read()


PANIC = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from headwater.core.logs import native_words
write_deltalake("table", pa.table({"n": range(3000)}))
table = DeltaTable("table")
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))  # as good as a full disk
with native_words(Path("home")):
    for _ in range(2):
        try:
            write_deltalake(table, pa.table({"n": [hash(str(n)) for n in range(3000)]}), mode="append")
        except Exception as error:
            print("raised", type(error).__name__, file=sys.stderr)
print("after", file=sys.stderr)
"""


def test_what_a_library_prints_when_a_commit_fails_goes_to_the_log_and_not_to_the_terminal(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PANIC], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["raised DeltaError", "raised DeltaError", "after"]
    words = tmp_path / "home" / "logs" / "native.err"
    assert words.read_text().count("panicked at") == 2
    assert [stat.S_IMODE(path.stat().st_mode) for path in (words, words.parent)] == [0o600, 0o700]
