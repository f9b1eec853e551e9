"""A real `headwater run` in a process of its own, and what tests do with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

PROJECT = """\
name: running
spark: {{master: 'local[2]', conf: {cold}}}
runtime: {{lease: 5s}}
sources: {{landing: {{type: files, path: ./landing}}, later: {{type: files, path: ./later}}}}
topics:
{topics}
"""
COMMAND = [sys.executable, "-c", "from headwater.cli.main import main; main()"]


class Running:
    """A runner; `events` grows while it runs."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.root = root
        self.events: list[dict[str, Any]] = []
        self._err = (root / "run.err").open("ab")
        command = [*COMMAND, "run", "--json", "--project", str(root), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._err, text=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def of(self, event: str, flow: str | None = None) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == event and flow in (None, e.get("flow"))]

    def until(self, met: Callable[[], object], seconds: float = 180) -> None:
        """Wait for something; the runner's own words where it does not come."""
        deadline = time.monotonic() + seconds
        while not met():
            said = (self.root / "run.err").read_text()
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.events} {said}"
            assert time.monotonic() < deadline, f"waited in vain: {self.events} {said}"
            time.sleep(0.05)

    def jvms(self) -> list[psutil.Process]:
        return jvms(self.root)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        """Whatever happened, nothing of it stays."""
        self.process.kill()
        self.process.wait()
        for jvm in self.jvms():
            jvm.kill()
        self._err.close()


def jvms(root: Path) -> list[psutil.Process]:
    """Every JVM that was started for the project: its log is named in its arguments."""
    found = []
    for process in psutil.process_iter(["name", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        ours = "java" in (process.info["name"] or "") and any(str(root) in word for word in words)
        if ours and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def land(root: Path, name: str, ids: list[str], folder: str = "landing") -> None:
    """A file of events, there whole or not at all."""
    (root / folder).mkdir(exist_ok=True)
    part = root / folder / f".{name}.tmp"
    part.write_text("".join(json.dumps({"event_id": id}) + "\n" for id in ids), encoding="utf-8")
    part.rename(root / folder / name)
