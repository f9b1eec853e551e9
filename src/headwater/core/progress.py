"""A bar for what takes long: on a terminal it moves, elsewhere it is a line at the start and at the end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

EVERY = 5.0
"""Seconds between two lines about something that takes long."""

Report = Callable[[int, int, str], None]
"""Called with what is done, how much there is in all (bytes; 0: not known), and what is being done."""


@contextmanager
def byte_bar(title: str) -> Iterator[Report]:
    """A bar on standard error that shows itself with the first report."""
    if not sys.stderr.isatty():
        yield _plain(title)
        return

    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, TextColumn("{task.fields[what]}"), console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=None, what="")

    def report(done: int, total: int, what: str) -> None:
        bar.start()
        bar.update(task, completed=done, total=total, what=what)

    try:
        yield report
    finally:
        bar.stop()


def say(text: str) -> None:
    """Tell somebody who waits at a terminal what is being done; programs are not told."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


class Ticker:
    """A line on standard error every few seconds, for as long as something takes: to programs and files too."""

    def __init__(self, describe: Callable[[], str | None], every: float = EVERY) -> None:
        """`told` says what is being done; None: nothing to speak of."""
        self._described = describe
        self._every = every
        self._over = threading.Event()
        self._begun = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._run, name="progress", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            text = self._described()
            if text is not None and not self._over.is_set():
                with suppress(OSError, ValueError):  # whoever read it has gone
                    notice(f"{text}, {time.monotonic() - self._begun:.0f} s")


@contextmanager
def ticking(what: str, every: float = EVERY) -> Iterator[None]:
    """While this is open, what is being done is told every few seconds."""
    ticker = Ticker(lambda: what, every)
    ticker.start()
    try:
        yield
    finally:
        ticker.stop()


@contextmanager
def byte_ticks(what: str) -> Iterator[Report]:
    """While this is open, how many bytes are done of it is told every few seconds, to programs and files too."""
    last: list[tuple[int, int, str]] = []
    ticker = Ticker(lambda: _told_of(what, *last[0]) if last else what)
    ticker.start()

    def report(done: int, total: int, file: str) -> None:
        last[:] = [(done, total, file)]

    try:
        yield report
    finally:
        ticker.stop()


def notice(text: str) -> None:
    """Tell everybody, on standard error, what was found and done without being asked for."""
    print(f"headwater: {text}", file=sys.stderr, flush=True)


def _plain(title: str) -> Report:
    printed: set[str] = set()

    def say(key: str, text: str) -> None:
        if key not in printed:
            printed.add(key)
            print(text, file=sys.stderr, flush=True)

    def report(done: int, total: int, what: str) -> None:
        say("start", f"{title}: {total / 1e6:.0f} MB …")
        if done >= total:
            say("end", f"{title}: done")

    return report


def _told_of(what: str, done: int, total: int, file: str) -> str:
    of = f" of {total / 1e6:.0f}" if total else ""
    return f"{what}: {done / 1e6:.0f}{of} MB, {file}"
