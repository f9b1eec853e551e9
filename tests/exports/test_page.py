"""The examples of docs/exports.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.sql.parse import split
from tests.docs.test_examples import ROOT, blocks
from tests.support import Shop, headwater

PAGE = "docs/exports.md"


def test_the_commands_and_statements_of_the_page(spark: SparkSession, tmp_path: Path) -> None:
    (project,) = blocks(PAGE, "yaml")
    shop = Shop.make(tmp_path)
    (tmp_path / "headwater.yml").write_text(project.replace("  orders: {", "  events: {from: landing}\n  orders: {"))
    event = {"event_id": "e1", "order_id": 1, "amount": 150, "event_timestamp": "2026-01-05T08:00:00Z"}
    shop.land("a.json", [event])
    ran = shop.run()
    assert ran.code == 0, ran.out + ran.err
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    for body in re.findall(r"^```\n(headwater .*?)^```", text, re.M | re.S):
        for line in body.splitlines():
            answer = headwater(*shlex.split(line)[1:], "--project", tmp_path)
            assert answer.code == 0, f"{line}: {answer.err}"
    with Lake.open(tmp_path) as lake:
        for sql in (statement for body in blocks(PAGE, "sql") for statement in split(body)):
            (row,) = lake.sql(sql).rows()
            assert row["rows"] == 1
        assert lake.export("big_orders").rows == 1
        states = {job.destination.rpartition("/")[2]: job.state for job in lake.export_jobs()}
    assert set(states.values()) <= {"done", "stopped"} and states["bi"] == "stopped"
