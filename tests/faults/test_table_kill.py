"""The runner of tables of applied changes is killed around their commits: no change is lost, none is doubled."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.lake import Lake
from tests.support import COLD

FILES = 4
PROJECT = f"""\
name: applying
spark: {{master: 'local[2]', conf: {COLD}}}
sources:
  landing: {{type: files, path: ./landing, max_files: 1, schema: "id bigint, n bigint, v string, gone boolean"}}
topics: {{log: {{from: landing}}}}
tables:
  latest: {{from: topic('log'), apply: {{keys: [id], sequence_by: n, delete_when: gone}}}}
  history: {{from: topic('log'), apply: {{keys: [id], sequence_by: n, delete_when: gone, history: all}}}}
"""


@pytest.mark.timeout(600)
def test_kills_lose_and_double_no_change(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = [(rng.randint(1, 5), n, f"v{n}", rng.random() < 0.2) for n in range(1, 25)]
    sent = rng.sample(rows, len(rows))
    (tmp_path / "landing").mkdir()
    (tmp_path / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    for file in range(FILES):
        lines = [dict(zip(("id", "n", "v", "gone"), row, strict=True)) for row in sent[file::FILES]]
        (tmp_path / "landing" / f"{file}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for when, number in [("inside", rng.randint(500, 4000)), (rng.choice(["before", "after"]), rng.randint(2, 4))]:
        ended = _run(tmp_path, when, number)
        assert ended.returncode == -signal.SIGKILL, f"{when} {number}: {ended.stdout}{ended.stderr}"
    ended = _run(tmp_path, "never", 0)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last = {row[0]: row for row in rows}
    states = [(row[0], row[1]) for row in rows if not row[3]]
    with Lake.open(tmp_path) as lake:
        assert lake.topic("log").df().count() == len(rows)
        found = [tuple(row) for row in lake.table("latest").df().select("id", "n", "v", "gone").collect()]
        assert sorted(found) == sorted(row for row in last.values() if not row[3])
        assert len(lake.table("history").df().where("is_current").collect()) == len(found)
        stored = lake._warehouse.table(lake.table("history").kind, "history").read().where("NOT _hw_gone")
        assert sorted((row["id"], row["n"]) for row in stored.collect()) == sorted(states)
        for name in ("latest", "history"):
            steps = [commit.mark.step for commit in lake.table(name).history() if commit.mark is not None]
            assert sorted(steps) == list(range(FILES)), f"{name}: {steps}"


def _run(root: Path, when: str, number: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.applying", str(root), when, str(number)]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
