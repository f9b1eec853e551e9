"""A runner is killed around and inside the commits of its views: no change is lost, none is doubled."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from tests.faults.crashing import ended, killed, kills
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

PROJECT = f"""\
name: viewing
spark: {{master: 'local[2]', conf: {COLD}}}
sources: {{landing: {{type: files, path: ./landing, schema: "n bigint, g string"}}}}
topics: {{events: {{from: landing}}}}
views:
  sums: {{sql: "SELECT g, count(*) AS k, sum(n) AS s FROM events GROUP BY g", refresh: {{policy: incremental}}}}
  odd: {{sql: "SELECT n, g FROM topic('events') WHERE n % 2 = 1", refresh: {{policy: incremental}}}}
"""


@pytest.mark.timeout(400)
def test_kills_lose_and_double_no_change_of_a_view(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    (tmp_path / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    _land(tmp_path, 0)
    ended(tmp_path)
    chosen = kills(rng, inside=(20, 1500), before=(1, 2), after=(1, 2))
    for file, (when, number) in enumerate(chosen, 1):
        _land(tmp_path, file)
        killed(tmp_path, when, number, "/views/")
    ended(tmp_path)
    rows = [(n, f"g{n % 3}") for n in range(10 * (len(chosen) + 1))]
    with Lake.open(tmp_path) as lake:
        odd = sorted((row["n"], row["g"]) for row in lake.view("odd").df().collect())
        assert odd == [row for row in rows if row[0] % 2]
        sums = {row["g"]: (row["k"], row["s"]) for row in lake.view("sums").df().collect()}
        wanted = {g: [n for n, of in rows if of == g] for g in ("g0", "g1", "g2")}
        assert sums == {g: (len(values), sum(values)) for g, values in wanted.items()}
        for name in ("sums", "odd"):
            steps = [commit.commit_tag.step for commit in lake.view(name).history() if commit.commit_tag is not None]
            assert sorted(set(steps)) == sorted(steps), f"{name}: {steps}"
            assert lake.view(name).verify().equal


def _land(root: Path, file: int) -> None:
    lines = (json.dumps({"n": n, "g": f"g{n % 3}"}) for n in range(10 * file, 10 * file + 10))
    (root / "landing" / f"{file}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
