"""The benches on the code of two checkouts, in turns: is the new code as fast as the old?

    git worktree add /tmp/old cd638c5                                       # or any other commit
    .venv/bin/python bench/side_by_side.py /tmp/old                         # some 16 minutes on two cores
    .venv/bin/python bench/side_by_side.py /tmp/old --only views --rounds 3

Each checkout runs its own `bench/` over its own `src/`, with the packages of this environment, on a machine that does
nothing else. For every figure that both print: the old one, the new one, and how many times as fast the new code is.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ALONE = (
    "import sys; sys.path.insert(0, 'bench'); import ingest; ingest.Bench.by_hand = lambda *a, **k: 1.0; ingest.main()"
)
"""The backlog without the work by hand, which is the same for both."""
BENCHES: Mapping[str, Sequence[str]] = {
    "backlog": (
        "-c",
        ALONE,
        "backlog",
        "--rows",
        "1000000",
        "--formats",
        "delta,iceberg,hudi,paimon",
        "--repeats",
        "2",
    ),
    "live": ("bench/ingest.py", "live", "--seconds", "40"),
    "views speed": ("bench/views.py", "speed", "--rows", "1000000", "--repeats", "5"),
    "views floor": ("bench/views.py", "floor", "--rows", "1000000", "--repeats", "9"),
    "query": ("bench/query.py", "--rows", "1000000", "--repeats", "5"),
}
FIGURE = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?) (rows/s|ms|s)\b")
"""What is compared; sums, ratios and sizes are not."""


def figures(output: str) -> Iterator[tuple[str, str, float]]:
    """Of each figure what is said of it, its unit and its value."""
    for line in output.splitlines():
        if "duckdb" not in line.lower() and "by hand" in line.partition(":")[0]:
            continue
        for at, match in enumerate(FIGURE.finditer(line)):
            name = re.sub(r"[\d,.]+", "#", line)[:60]
            yield f"{name} [{at}]", match[2], float(match[1].replace(",", ""))


def run(checkout: Path, arguments: Sequence[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: {' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def compare(name: str, old: Path, new: Path, rounds: int) -> None:
    found: dict[tuple[str, str], dict[Path, list[float]]] = defaultdict(lambda: {old: [], new: []})
    for number in range(rounds):
        for checkout in (old, new) if number % 2 == 0 else (new, old):
            for label, unit, value in figures(run(checkout, BENCHES[name])):
                found[label, unit][checkout].append(value)
    print(f"\n{name}", flush=True)
    for (label, unit), of in found.items():
        if of[old] and of[new]:
            before, after = statistics.median(of[old]), statistics.median(of[new])
            times = (after / before if unit == "rows/s" else before / after) if before and after else float("nan")
            print(f"  {times:5.2f}x   {before:12,.3f} → {after:12,.3f} {unit:6} {label}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the other checkout")
    parser.add_argument("--new", type=Path, default=HERE)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], help="benches whose name begins with this")
    given = parser.parse_args()
    for name in BENCHES:
        if not given.only or name.startswith(tuple(given.only)):
            compare(name, given.old.resolve(), given.new.resolve(), given.rounds)


if __name__ == "__main__":
    main()
