"""Servers for tests, each a process of its own: on loopback and a free port, ended with the block that started them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from headwater.cli.shop.database import free_port as free_port
from headwater.spark.java import find_java

START_SECONDS = 90.0


def java() -> str:
    return str(find_java().home / "bin" / "java")


@contextmanager
def running(command: Sequence[str], log: Path, is_up: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """The process, once it answers."""
    process = start(command, log, is_up)
    try:
        yield process
    finally:
        end(process)


def start(command: Sequence[str], log: Path, is_up: Callable[[], bool]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    until = time.monotonic() + START_SECONDS
    while not is_up():
        if process.poll() is not None or time.monotonic() > until:
            end(process)
            said = log.read_text(encoding="utf-8", errors="replace")[-4000:]
            raise RuntimeError(f"{command[0]} did not come up:\n{said}")
        time.sleep(0.1)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
