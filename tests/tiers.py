"""Three tiers of tests: `pytest --tier fast`, the default one, and `--tier full`.

A test belongs to the *full* tier if it is marked `full`: it repeats, with another parameter or at a larger scale, what
a test of every run shows. It belongs to the *fast* tier if it needs no Java. A test needs Java if it uses one of the
fixtures in `JAVA_FIXTURES`, or says that it starts Spark by itself with the mark `spark`. While any other test runs,
Java is a trap: a test that starts it, in this process or in one of its own, fails and says so.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scale import TIER

JAVA_FIXTURES = frozenset({"spark", "kafka", "registry"})
SIZES = ("HEADWATER_VIEWS_CYCLES", "HEADWATER_TPCH_SCALE", "HEADWATER_KILLS", "HEADWATER_HOLD", "HEADWATER_BACKUPS")
REPEATED = frozenset({"HEADWATER_SEED", *SIZES})
"""What the environment may say of a run."""
FORGOTTEN = (
    "this test has started {what}, and neither uses a fixture that does nor is marked `spark`: "
    "mark it, or its module (CONTRIBUTING.md, 'Tests')"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=("fast", "default", "full"),
        default="default",
        help="fast: what needs no Java; default: every capability once in every format; full: everything",
    )


def needs_java(item: pytest.Item) -> bool:
    """Whether a test starts Spark, or another server in Java."""
    return item.get_closest_marker("spark") is not None


def is_full(item: pytest.Item) -> bool:
    return item.get_closest_marker("full") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what belongs to another tier. A test that is named on the command line is run in any tier."""
    tier = config.getoption("--tier")
    named = {argument for argument in config.args if "::" in argument}
    for item in items:
        if not JAVA_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("spark")

    def wanted(item: pytest.Item) -> bool:
        if tier == "full" or item.nodeid in named:
            return True
        return not is_full(item) and not (tier == "fast" and needs_java(item))

    kept = [item for item in items if wanted(item)]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
        items[:] = kept


# --- the trap


class Trap:
    """A Java that notes who has started it, and ends."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._note = home / "started"
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        says = FORGOTTEN.format(what="Java")
        program.write_text(f'#!/bin/sh\necho >"{self._note}"\necho "error: {says}" >&2\nexit 1\n'.replace("`", "'"))
        program.chmod(0o755)
        (home / "release").write_text('JAVA_VERSION="17.0.0"\n')

    @contextmanager
    def set(self) -> Iterator[None]:
        before = {name: os.environ.get(name) for name in ("HEADWATER_JAVA_HOME", "JAVA_HOME")}
        os.environ.update(dict.fromkeys(before, str(self._home)))
        session: Any = sys.modules.get("headwater.spark.session")
        join = None if session is None else session._join
        try:
            if session is not None:
                session._join = self._refuse
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            if session is not None:
                session._join = join

    def sprung(self) -> bool:
        """Whether Java has been started; asks once."""
        if not self._note.exists():
            return False
        self._note.unlink()
        return True

    def _refuse(self, *_: object) -> None:
        """Stands where an open Spark of this process would be joined: alone, the test would start one."""
        self._note.touch()
        raise RuntimeError(FORGOTTEN.format(what="Spark"))


def pytest_configure(config: pytest.Config) -> None:
    os.environ[TIER] = config.getoption("--tier")
    folder = tempfile.TemporaryDirectory(prefix="headwater-no-java-")
    config.add_cleanup(folder.cleanup)
    config.stash[TRAP] = Trap(Path(folder.name))


TRAP = pytest.StashKey[Trap]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if needs_java(item):
        return (yield)
    with item.config.stash[TRAP].set():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if not needs_java(item) and item.config.stash[TRAP].sprung():
        report.outcome = "failed"
        report.longrepr = f"{FORGOTTEN.format(what='Java')}\n\n{report.longreprtext}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One command that repeats what failed, with the same seed and at the same size."""
    failed = {
        report.nodeid
        for outcome in ("failed", "error")
        for report in terminalreporter.getreports(outcome)
        if "::" in report.nodeid
    }
    if failed:
        chosen = {name: value for name, value in sorted(os.environ.items()) if name in REPEATED}
        before = " ".join(f"{name}={value}" for name, value in chosen.items())
        command = f"python -m pytest --tier {config.getoption('--tier')} {shlex.join(sorted(failed))}"
        terminalreporter.section("to repeat what failed")
        terminalreporter.line(f"{before} {command}".strip())
