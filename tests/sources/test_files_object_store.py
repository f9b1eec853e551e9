"""Files that land in a real object store, into a lake that lies in it too."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from headwater.api.lake import Lake
from headwater.spark import connectors
from tests.runtime.running import COMMAND, Running
from tests.services.s3 import SECRET_KEY, ObjectStore, object_store
from tests.support import COLD

pytestmark = pytest.mark.spark

PROJECT = """\
name: far
warehouse: s3://lake/far
spark: {{master: 'local[2]', conf: {cold}}}
storage: {{s3: {s3}}}
sources:
  landing: {{type: files, path: "s3://landing/in/**/*.json"}}
  taken: {{type: files, path: s3://landing/once, after: archive, archive_to: s3://landing/done}}
topics:
  orders: {{from: landing}}
  once: {{from: taken}}
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    connectors.ensure(["s3"])  # else they are fetched while a test waits for its runner
    with object_store(tmp_path_factory.mktemp("s3")) as running:
        yield running


def land(bucket: fs.FileSystem, name: str, *lines: str) -> None:
    with bucket.open_output_stream(name) as file:
        file.write("".join(line + "\n" for line in lines).encode())


def names_in(bucket: fs.FileSystem, folder: str) -> list[str]:
    found = bucket.get_file_info(fs.FileSelector(folder, recursive=True))
    return sorted(one.path for one in found if one.type is fs.FileType.File)


@pytest.mark.timeout(600)
def test_files_and_lake_in_an_object_store(store: ObjectStore, tmp_path: Path) -> None:
    bucket = store.bucket("landing")
    store.bucket("lake")
    project = PROJECT.format(s3=store.settings, cold=COLD)
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    land(bucket, "in/2026/01/1.json", '{"id": 1}', '{"id": 2', '{"id": 3}')
    land(bucket, "once/1.json", '{"id": 9}')

    runner = Running(tmp_path)
    try:
        runner.until(lambda: runner.of("step", "topics.orders") and runner.of("step", "topics.once"))
        # New files in new folders are found while it runs, and those that are there are not ingested again.
        land(bucket, "in/2026/02/2.json", '{"id": 4, "note": "new"}')
        runner.until(lambda: len(runner.of("step", "topics.orders")) >= 2)
        runner.until(lambda: names_in(bucket, "done"))
        runner.signal(signal.SIGTERM)
        assert runner.process.wait(60) == 0
    finally:
        runner.end()
    assert [step["rows"] for step in runner.of("step", "topics.orders")] == [2, 1]
    assert (names_in(bucket, "once"), names_in(bucket, "done")) == ([], ["done/1.json"])

    # Without Spark, from the store.
    with Lake.open(tmp_path) as lake:
        rows = [tuple(row.values()) for row in lake.sql("SELECT id, note FROM topic('orders') ORDER BY id")]
    assert rows == [(1, None), (3, None), (4, "new")]
    dead_letters = _called(tmp_path, "dlq", "list", "--json")
    assert [letter["reason"] for letter in json.loads(dead_letters.stdout)] == ["decode"], dead_letters.stderr
    said = (tmp_path / "run.err").read_text() + json.dumps(runner.events) + dead_letters.stdout + dead_letters.stderr
    assert SECRET_KEY not in said


@pytest.mark.timeout(600)
def test_wrong_keys_are_told(store: ObjectStore, tmp_path: Path) -> None:
    store.bucket("landing")
    wrong = store.settings.replace(SECRET_KEY, "not-this-one")
    project = PROJECT.format(s3=wrong, cold=COLD).replace("s3://lake/far", "./lake")
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    answer = _called(tmp_path, "run", "orders", "--once", "--json")
    said = answer.stdout + answer.stderr
    assert answer.returncode == 1 and "Traceback" not in said, said
    assert "bucket 'landing'" in said and "ACCESS_DENIED" in said and "not-this-one" not in said


def _called(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: the Spark of the tests knows no object store."""
    command = [*COMMAND, *arguments, "--project", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
