"""`make soak` for a minute: the lake is whole at its end. Its figures are for a quiet machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "bench/soak.py"
EXACT = (
    "the runner ends well",
    "no step failed",
    "every event is there once",
    "the view of sums equals its query",
    "the view of rows equals its query",
    "the table has the latest of each",
)


@pytest.mark.spark
@pytest.mark.full
def test_the_lake_is_whole_at_the_end(tmp_path: Path) -> None:
    words = [sys.executable, str(SOAK), "--minutes", "1", "--json", "--keep", str(tmp_path / "lake")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    checks = {check["what"]: check for check in map(json.loads, done.stdout.splitlines())}
    assert {what: checks[what]["told"] for what in EXACT if not checks[what]["holds"]} == {}, done.stderr
