"""The process is killed before, inside and after commits, in all five formats at once: no loss, no double.

Files are taken in in every format, a Kafka topic in two; each flow takes several steps.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headwater.formats.registry import FORMATS
from headwater.lake import Lake
from tests.services.kafka import broker

FILES = 4
CLICKS = 40
CLICKS_IN = ("delta", "iceberg")
COLD = "{spark.driver.extraJavaOptions: '-XX:TieredStopAtLevel=1', spark.sql.codegen.wholeStage: 'false'}"
"""Every process here begins cold and lives for seconds: compiling would take most of them."""
SCRIPT = Path(__file__).with_name("crashing.py")


@pytest.mark.timeout(900)
def test_kills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with broker(tmp_path) as kafka:
        kafka.create("clicks", partitions=2)
        kafka.send("clicks", ({"value": b'{"event_id": "k%d"}' % n, "partition": n % 2} for n in range(CLICKS)))
        _project(tmp_path, kafka.address)
        _through_kills(tmp_path, rng)


def _through_kills(tmp_path: Path, rng: random.Random) -> None:
    kills = [("before", rng.randint(2, 4)), ("inside", rng.randint(300, 2500)), ("after", rng.randint(2, 4))]
    rng.shuffle(kills)
    for when, number in kills:
        ended = _run(tmp_path, when, number)
        assert ended.returncode == -signal.SIGKILL, f"{when} {number}: {ended.stdout}{ended.stderr}"
    ended = _run(tmp_path, "never", 0)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    expected = Counter({f"{file}-{n}": 1 for file in range(FILES) for n in range(3)})
    with Lake.open(tmp_path) as lake:
        for name in FORMATS.names():
            topic = lake.topic(f"as_{name}")
            found = Counter(row["event_id"] for row in topic.df().select("event_id").collect())
            assert found == expected, f"{name}: {found - expected} too many, {expected - found} missing"
            steps = [commit.mark.step for commit in topic.history() if commit.mark is not None]
            assert sorted(set(steps)) == sorted(steps) == list(range(FILES)), f"{name}: {steps}"
            assert len(lake.dead_letters(f"as_{name}", limit=1000)) == FILES
        for name in CLICKS_IN:
            rows = lake.topic(f"clicks_{name}").df().select("event_id").collect()
            assert Counter(row["event_id"] for row in rows) == Counter(f"k{n}" for n in range(CLICKS)), name


def _project(root: Path, brokers: str) -> None:
    landing = root / "landing"
    landing.mkdir()
    for file in range(FILES):
        lines = [json.dumps({"event_id": f"{file}-{n}", "n": n}) for n in range(3)]
        (landing / f"{file}.json").write_text("\n".join([*lines, "{broken"]) + "\n")
    topics = "\n".join(f"  as_{name}: {{from: landing, format: {name}}}" for name in FORMATS.names())
    topics += "".join(f"\n  clicks_{name}: {{from: clicks, format: {name}}}" for name in CLICKS_IN)
    lines = ["name: crashing", f"spark: {{master: 'local[2]', conf: {COLD}}}", "sources:"]
    lines += ["  landing: {type: files, path: ./landing, max_files: 1}"]
    lines += [f"  clicks: {{type: kafka, brokers: '{brokers}', topic: clicks, max_rows: 10}}", "topics:", topics]
    (root / "headwater.yml").write_text("\n".join(lines) + "\n")


def _run(root: Path, when: str, number: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(root), when, str(number)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
