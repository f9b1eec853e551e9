"""The way of a record through the code: from `headwater run --once` to the commit of a topic, and of a view on it.

    .venv/bin/python bench/walk.py [--paths]
    PYTHONPATH=OTHER/src .venv/bin/python bench/walk.py      # the same for the code of another worktree

Two figures each. The *stack* at the moment of the commit: how many functions of ours are called one in the other, in
how many modules, and how often the next one is in another package. The *calls* up to that commit, in the thread of the
flow: different functions, their modules, and different calls that lead from one package to another. A package is
the first folder in `headwater/`. Deterministic but for what Spark does.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
from collections import defaultdict
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import headwater
from headwater.cli.main import main as command

ROOT = str(Path(headwater.__file__).parent)
COMMITS = frozenset({"append", "upsert", "create_with", "replace"})
PROJECT = """\
name: walk
spark: {master: 'local[2]'}
sources: {landing: {type: files, path: ./landing, schema: "n bigint, g string"}}
topics: {events: {from: landing}}
views: {sums: {sql: "SELECT g, count(*) AS k, sum(n) AS s FROM events GROUP BY g", refresh: {policy: incremental}}}
"""

Function = tuple[str, str]


def function_of(frame: FrameType) -> Function | None:
    """A function of ours, by its module and name."""
    code = frame.f_code
    if not code.co_filename.startswith(ROOT) or code.co_name.startswith("<"):
        return None
    return code.co_filename[len(ROOT) + 1 : -3].replace("/", "."), f"{code.co_name}:{code.co_firstlineno}"


def package_of(function: Function) -> str:
    return function[0].split(".")[0]


class Walk:
    """What has been called in each thread, up to the last commit of each table."""

    def __init__(self) -> None:
        self.calls: defaultdict[int, set[tuple[Function | None, Function]]] = defaultdict(set)
        self.found: dict[str, tuple[list[Function], set[tuple[Function | None, Function]]]] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        here = function_of(frame)
        if here is None:
            return
        stack: list[Function] = []
        above = frame.f_back
        while above is not None:
            other = function_of(above)
            if other is not None:
                stack.append(other)
            above = above.f_back
        calls = self.calls[threading.get_ident()]
        calls.add((stack[0] if stack else None, here))
        if frame.f_code.co_name in COMMITS and here[0].startswith("formats."):
            table = str(getattr(frame.f_locals.get("self"), "address", ""))
            self.found.setdefault(table, ([*reversed(stack), here], set(calls)))


def changes(pairs: list[tuple[Function, Function]]) -> int:
    return sum(package_of(one) != package_of(other) for one, other in pairs)


def told(functions: list[Function]) -> str:
    return f"{len({*functions})} functions, {len({module for module, _ in functions})} modules"


def land(root: Path, file: int) -> None:
    rows = ({"n": n, "g": f"g{n % 3}"} for n in range(10 * file, 10 * file + 10))
    (root / "landing" / f"{file}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run(root: Path, walk: Walk | None = None) -> None:
    arguments = ["headwater", "run", "--once", "--project", str(root)]
    sys.setprofile(walk)
    threading.setprofile(walk)
    try:
        with redirect_stdout(StringIO()), patch.object(sys, "argv", arguments):
            command()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", action="store_true", help="show the stacks")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="headwater-walk-"))
    try:
        (root / "headwater.yml").write_text(PROJECT, encoding="utf-8")
        (root / "landing").mkdir()
        land(root, 0)
        run(root)
        land(root, 1)
        walk = Walk()
        run(root, walk)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    for table, (stack, calls) in walk.found.items():
        if not table.endswith(("topics/events", "views/sums")):
            continue
        pairs = [(stack[at], stack[at + 1]) for at in range(len(stack) - 1)]
        called = [callee for _, callee in calls]
        across = [(caller, callee) for caller, callee in calls if caller is not None]
        print(f"{table.rpartition('/lake/')[2]}")
        print(f"  stack: {told(stack)}, {changes(pairs)} changes of package")
        print(f"  calls: {told(called)}, {changes(across)} across packages")
        if given.paths:
            print("\n".join(f"    {module}  {name}" for module, name in stack))


if __name__ == "__main__":
    main()
