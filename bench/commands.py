"""What commands cost that only look something up: CPU-seconds, wall time and the JVMs that they start.

    .venv/bin/python bench/commands.py                        # every command
    .venv/bin/python bench/commands.py --baseline HEAD~20      # the same in turns with the code of a commit
    .venv/bin/python bench/commands.py --only tail --only dlq # those whose line has one of these words

The lake is made once, by the code of this checkout. CPU-seconds are those of the command and of everything that it has
started; under load they say more than wall time. Each command runs twice, and the better time counts: the first run may
have compiled Python's modules, as it does once after an installation.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.spark.java import CHOICE, find_java

HERE = Path(__file__).parents[1]
BEGIN = "from headwater.cli.main import main; main()"
ORPHANS_ARE_OURS = 36  # prctl's PR_SET_CHILD_SUBREAPER
EVENTS = 2000
PROJECT = """\
name: bench
format: {format}
sources:
  landing: {{type: files, path: ./landing, file_format: json, schema_hints: "amount decimal(12,2)"}}
topics:
  orders: {{from: landing, partition_by: [event_date], schema: {{mismatch: quarantine}}}}
tables:
  customers: {{format: {kept}, from: topic('orders'), apply: {{keys: [customer_id], sequence_by: _position}}}}
views:
  by_customer:
    format: {kept}
    sql: SELECT customer_id, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY customer_id
    refresh: {{mode: immediate}}
"""
OLDEST = "OLDEST"
"""Stands for the oldest version of the topic."""
COMMANDS = (
    "--help",
    "check",
    "status",
    "--version",
    "topic --help",
    "topic list",
    "topic describe orders",
    "topic history orders",
    "topic tail orders -n 1",
    "topic tag orders",
    f"topic diff orders {OLDEST}",
    "dlq list",
    "table describe customers",
    "table history customers",
    "mv list",
    "mv describe by_customer",
    "mv explain by_customer",
    "mv history by_customer",
    "mv refresh by_customer",
    "parquet schema orders",
    "parquet stats orders",
    "parquet stats orders --files",
    "run --once",
)


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    cpu: float
    wall: float
    jvms: int
    code: int

    def __str__(self) -> str:
        return f"{self.cpu:8.2f} {self.wall:8.2f} {self.jvms:5d}" + ("" if self.code == 0 else f"  exit {self.code}")


class Counted:
    """A Java that notes each start."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._note = home / "started"
        real = find_java().home
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(f'#!/bin/sh\necho "$*" | grep -q -- "-version" || echo >>"{self._note}"\n'
                           f'exec "{real}/bin/java" "$@"\n')  # fmt: skip
        program.chmod(0o755)
        shutil.copy(real / "release", home / "release")

    def taken(self) -> int:
        """How many have been started since this was asked last."""
        found = len(self._note.read_text().splitlines()) if self._note.exists() else 0
        self._note.unlink(missing_ok=True)
        return found


def measure(command: Sequence[str], source: Path, project: Path, java: Counted) -> Cost:
    """The better of two runs; JVMs and the exit code of both."""
    first, second = (run(command, source, project, java) for _ in range(2))
    best = min(first, second, key=lambda cost: cost.cpu)
    return replace(best, jvms=max(first.jvms, second.jvms), code=first.code or second.code)


def run(command: Sequence[str], source: Path, project: Path, java: Counted) -> Cost:
    """Run a command with the code of a checkout, and wait for all that it has started."""
    java.taken()
    environment = {**os.environ, "PYTHONPATH": str(source / "src"), CHOICE: str(java.home)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else every command would compile all its modules
    begun = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-c", BEGIN, *command],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    cpu, wall, code = 0.0, 0.0, 0
    while True:
        try:
            ended, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return Cost(cpu, wall, java.taken(), code)
        cpu += used.ru_utime + used.ru_stime
        if ended == child.pid:
            wall, code = time.monotonic() - begun, os.waitstatus_to_exitcode(status)
            child.returncode = code


def oldest_version(project: Path) -> str:
    """Of the topic; formats count in their own ways."""
    told = subprocess.run(
        [sys.executable, "-c", BEGIN, "topic", "history", "orders", "--json"],
        cwd=project, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return str(json.loads(told.stdout)[-1]["version"])


def make_lake(root: Path, format: str, java: Counted) -> None:
    """A topic with two commits and dead letters, a table of its latest rows, a view of its sums."""
    (root / "landing").mkdir(parents=True)
    kept = "delta" if format == "parquet" else format  # files of plain Parquet are only ever added to
    (root / "headwater.yml").write_text(PROJECT.format(format=format, kept=kept))
    for part in (0, 1):
        rows = (
            {"event_id": f"e{part}-{n}", "event_date": f"2026-01-{1 + n % 3:02d}", "customer_id": n % 100,
             "amount": n if n % 500 else {"no": "number"}}
            for n in range(EVENTS)
        )  # fmt: skip
        (root / "landing" / f"{part}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = run(["run", "--once"], HERE, root, java)
        if done.code:
            raise SystemExit(f"the lake could not be made: exit {done.code}")


@contextmanager
def checkout(revision: str, root: Path) -> Iterator[Path]:
    """The code of a commit, in a folder of its own."""
    place = root / revision
    subprocess.run(["git", "-C", str(HERE), "worktree", "add", "--detach", "-q", str(place), revision], check=True)
    try:
        yield place
    finally:
        subprocess.run(["git", "-C", str(HERE), "worktree", "remove", "--force", str(place)], check=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--baseline", help="a commit whose code is measured too")
    options.add_argument("--only", action="append", help="only commands with this word")
    options.add_argument("--format", default="delta", help="of the lake's tables")
    options.add_argument("--lake", type=Path, help="keep the lake here, or use the one that is here")
    given = options.parse_args()
    ctypes.CDLL(None).prctl(ORPHANS_ARE_OURS, 1)
    wanted = [one for one in COMMANDS if not given.only or any(word in one for word in given.only)]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        root = Path(folder)
        java, project = Counted(root / "java"), given.lake or root / "lake"
        if not (project / "headwater.yml").exists():
            make_lake(project, given.format, java)
        wanted = [one.replace(OLDEST, oldest_version(project)) for one in wanted]
        print(f"{'':32} {'CPU s':>8} {'wall s':>8} {'JVMs':>5}")
        if given.baseline is None:
            for one in wanted:
                print(f"{one[:32]:32} {measure(one.split(), HERE, project, java)}", flush=True)
            return
        with checkout(given.baseline, root) as before:
            for one in wanted:
                for name, source in (("before", before), ("now", HERE)):
                    print(f"{one[:24]:24} {name:7} {measure(one.split(), source, project, java)}", flush=True)


if __name__ == "__main__":
    main()
