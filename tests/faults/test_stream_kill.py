"""Streaming queries, the user's own and a flow's, are killed at random moments in all formats: each row once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from tests.faults.crashing import KILLS, killed
from tests.faults.streaming import stream
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

FILES, ROWS = 2, 4
CODE = """\
from pyspark.sql import functions as F
from headwater import transform

@transform("totals", streaming=True)
def totals(second_iceberg):
    return second_iceberg.groupBy((F.col("id") % 2).alias("odd")).agg(F.count("*").alias("n"), F.sum("id").alias("sum"))
"""


@pytest.mark.timeout(900)
def test_kills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    _project(tmp_path)
    own = [("inside", rng.randint(100, 2500), "first"), ("after", rng.randint(1, 2), "second")]
    kills = [*sorted(rng.sample(own, min(KILLS - 1, 2)), key=own.index), ("after", 1, "totals")]
    print(f"seed {seed}, kills: {kills}")
    for kill in kills:
        killed(tmp_path, *kill, program="tests.faults.streaming")
    stream(tmp_path)
    expected = Counter(range(FILES * ROWS))
    with Lake.open(tmp_path) as lake:
        for name in FORMATS.names():
            for relation in (lake.topic(f"first_{name}"), lake.relation(f"second_{name}")):
                found = Counter(row.id for row in relation.df().collect())
                told = f"{relation.name}: {found - expected} too many, {expected - found} missing"
                assert found == expected, told
        evens, odds = (sorted(n for n in expected if n % 2 == odd) for odd in (0, 1))
        totals = {row.odd: (row.n, row.sum) for row in lake.table("totals").df().collect()}
        assert totals == {0: (len(evens), sum(evens)), 1: (len(odds), sum(odds))}


def _project(root: Path) -> None:
    (root / "landing").mkdir()
    for file in range(FILES):
        lines = "".join(f'{{"id": {file * ROWS + n}}}\n' for n in range(ROWS))
        (root / "landing" / f"{file}.json").write_text(lines, encoding="utf-8")
    lines = ["name: streaming", "code: code.py", f"spark: {{master: 'local[2]', conf: {COLD}}}"]
    lines += ["sources: {api: {type: append}}", "topics:"]
    keyed = [format.name for format in FORMATS if format.can(Capability.STREAM_UPSERT)]
    lines += [f"  first_{name}: {{from: api, format: {name}}}" for name in FORMATS.names()]
    lines += [f"  second_{name}: {{from: api, format: {name}}}" for name in FORMATS.names() if name not in keyed]
    lines += ["tables:", "  totals: {transform: totals, keys: [odd]}"]
    lines += [f"  second_{name}: {{keys: [id], format: {name}}}" for name in keyed]
    (root / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (root / "code.py").write_text(CODE, encoding="utf-8")
