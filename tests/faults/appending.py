"""A program that appends and is killed: `appending.py PROJECT FIRST LAST`.

Appends the rows FIRST to LAST-1, each under a key of its own, in turn to every topic, and prints each as it is
acknowledged. With the environment variable `DIE_AFTER`, the process kills itself so many milliseconds after the first
acknowledgement: SIGKILL, nothing is tidied up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from headwater.api.lake import Lake


def main(project: str, first: int, last: int) -> None:
    after = os.environ.get("DIE_AFTER")
    with Lake.open(project) as lake:
        names = [topic.name for topic in lake.topics()]
        for n in range(first, last):
            for name in names:
                lake.topic(name).append([{"id": n}, {"id": -n}], key=f"row {n}")
                print(name, n, flush=True)
                if after is not None:
                    threading.Timer(int(after) / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()
                    after = None


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
