"""A program that appends is killed at random moments: what it was told to be in the topic is there, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from tests.faults import appending
from tests.faults.crashing import KILLS
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

TOPICS = ("as_delta", "as_iceberg")
ROWS = 1000


@pytest.mark.timeout(900)
def test_acknowledged_rows_are_there_once(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    topics = ", ".join(f"{name}: {{from: api, format: {name.removeprefix('as_')}}}" for name in TOPICS)
    (tmp_path / "headwater.yml").write_text(
        f"name: appending\nspark: {{master: 'local[2]', conf: {COLD}}}\n"
        f"sources: {{api: {{type: append}}}}\ntopics: {{{topics}}}\n"
    )
    acknowledged: list[tuple[str, int]] = []
    first = 1
    for _ in range(KILLS):
        delay = rng.randint(50, 4000)
        ended = _killed(tmp_path, first, delay)
        assert ended.returncode == -signal.SIGKILL, f"seed {seed}, {delay} ms: {ended.stdout}{ended.stderr}"
        told = [line.split() for line in ended.stdout.splitlines() if line.startswith("as_")]
        assert told
        acknowledged += [(name, int(n)) for name, n in told]
        # The caller does not know what became of its last row: it tries it again, under the same key.
        first = max(n for _, n in acknowledged)
    last = first + 2
    appending.main(str(tmp_path), first, last)
    with Lake.open(tmp_path) as lake:
        for name in TOPICS:
            found = Counter(row.id for row in lake.topic(name).df().select("id").collect())
            as_record = {n for topic, n in acknowledged if topic == name}
            missing = [n for n in as_record if found[n] != 1 or found[-n] != 1]
            assert missing == [], f"seed {seed}, {name}: acknowledged and not there once: {missing}"
            expected = Counter({sign * n: 1 for n in range(1, last) for sign in (1, -1)})
            assert found == expected, f"seed {seed}, {name}: {found - expected} too many, {expected - found} missing"


def _killed(root: Path, first: int, delay: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, appending.__file__, str(root), str(first), str(ROWS)]
    env = {**os.environ, "DIE_AFTER": str(delay)}
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=env)
