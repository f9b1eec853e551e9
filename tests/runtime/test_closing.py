"""A lake that is closed by an error, while a streaming query of the user's own still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import COLD

pytestmark = pytest.mark.spark

SCRIPT = """\
import sys, time
from headwater import Lake

with Lake.open(sys.argv[1]) as lake:
    into = lake.topic("ticks").sink("copy")
    started = []

    def slowly(batch, number):
        started.append(number)
        time.sleep(1)
        into(batch, number)

    ticks = lake.spark.readStream.format("rate").load().select("value")
    ticks.writeStream.foreachBatch(slowly).option("checkpointLocation", sys.argv[1] + "/checkpoint").start()
    while not started:
        time.sleep(0.05)
    lake.spark.sql("SELECT nowhere")
"""


def test_an_error_ends_queries_and_keeps_its_words(tmp_path: Path) -> None:
    project = ["name: closing", f"spark: {{master: 'local[2]', conf: {COLD}}}", "sources: {api: {type: append}}"]
    (tmp_path / "headwater.yml").write_text("\n".join([*project, "topics: {ticks: {from: api}}", ""]), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 1
    last = [line for line in ended.stderr.splitlines() if "AnalysisException" in line][-1]
    assert "UNRESOLVED_COLUMN" in last and "nowhere" in last, ended.stderr
