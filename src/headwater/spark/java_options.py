"""How the embedded JVM is started: a heap that fits the machine, and what makes a short life cheap."""

from __future__ import annotations

import re
from pathlib import Path

GIBIBYTE = 1 << 30
SMALLEST, LARGEST = GIBIBYTE, 8 * GIBIBYTE
CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory a container may take."""

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Java's quick compiler alone, and its smallest collector."""

_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def quick_options(chosen: str, *, quick: bool) -> list[str]:
    """What halves the CPU time of a command, and costs a tenth where it reads millions of rows.

    `chosen`: the user's own options, which win.
    """
    if not quick:
        return []
    return [option for option in QUICK if not (_COLLECTOR.match(option) and _COLLECTOR.search(chosen))]


def heap() -> str:
    """A quarter of the memory there is, as `spark.driver.memory` has it."""
    size = min(max(memory() // 4, SMALLEST), LARGEST)
    return f"{size >> 20}m"


def memory() -> int:
    """The bytes that this process may use: the machine's, or its container's."""
    import psutil  # loaded when a JVM is about to start

    bounds = [psutil.virtual_memory().total]
    for path in CGROUPS:
        try:
            bounds.append(int(Path(path).read_text(encoding="ascii")))
        except (OSError, ValueError):  # there is no such file, or it says "max"
            continue
    return min(bounds)
