"""A lake in an object store that is copied and moved there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.spark import connectors
from tests.recovery.lab import Moving
from tests.runtime.running import COMMAND
from tests.services.s3 import object_store
from tests.support import COLD

pytestmark = [pytest.mark.spark, pytest.mark.full]

PROJECT = """\
name: far
warehouse: s3://lake/{lake}
spark: {{master: 'local[2]', conf: {cold}}}
storage: {{s3: {s3}}}
sources: {{landing: {{type: files, path: ./landing}}}}
topics:
  orders: {{from: landing}}
  bills: {{from: landing, format: iceberg}}
"""
ROWS = [("1", "x", 1), ("2", "y", 2)]


@pytest.mark.timeout(600)
def test_a_lake_in_a_bucket_is_copied_and_moved(tmp_path: Path) -> None:
    connectors.ensure(["s3"])
    with object_store(tmp_path / "s3") as store:
        store.bucket("lake")
        bucket = tmp_path / "s3" / "buckets" / "lake"
        project, copy = Moving(tmp_path / "project"), Moving(tmp_path / "copy")

        def name(of: Moving, lake: str) -> None:
            text = PROJECT.format(lake=lake, cold=COLD, s3=store.settings)
            (of.root / "headwater.yml").write_text(text, encoding="utf-8")

        (project.root / "landing").mkdir(parents=True)
        name(project, "a")
        project.land("1.json", ROWS)
        assert run(project)[0] == {"topics.orders": 2, "topics.bills": 2}

        shutil.copytree(bucket / "a", bucket / "b")
        shutil.copytree(project.root, copy.root)
        name(copy, "b")
        copy.land("2.json", [("3", "y", 3)])
        rows, said = run(copy)
        assert rows == {"topics.orders": 1, "topics.bills": 1} and "/b is a copy of s3a://lake/a" in said
        assert both(copy) == (3, 3) and both(project) == (2, 2)

        (bucket / "b").rename(bucket / "c")
        name(copy, "c")
        answer = copy.do("query", "SELECT count(*) AS n FROM bills", "--output", "json")
        assert answer.json == [{"n": 3}] and "/c was moved from s3a://lake/b" in answer.err
        shutil.rmtree(copy.root / ".headwater")
        assert both(copy) == (3, 3), "rebuilt from the bucket"
        assert both(project) == (2, 2)


def run(project: Moving) -> tuple[dict[str, int], str]:
    """By flow, its rows; in a process of its own: the Spark of the tests knows no object store."""
    command = [*COMMAND, "run", "--once", "--json", "--project", str(project.root)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    done = json.loads(answer.stdout.splitlines()[-1])
    return {flow["flow"]: flow["rows"] for flow in done["flows"]}, answer.stderr


def both(project: Moving) -> tuple[int, int]:
    return project.count("orders"), project.count("bills")
