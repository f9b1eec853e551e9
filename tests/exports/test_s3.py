"""Exports to an object store, by a process with a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.spark import connectors
from tests.exports.lakes import COLUMNS, PLAIN_ROWS
from tests.services.s3 import object_store
from tests.support import COLD

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
from headwater.api.lake import Lake
with Lake.open(sys.argv[1]) as lake:
    lake.sql("INSERT INTO goods SELECT * FROM VALUES " + sys.stdin.read())
    first = lake.export("goods", format="parquet", to="s3://lake/out", partition_by=["flag"])
    again = lake.export("goods", format="parquet", to="s3://lake/out", partition_by=["flag"], if_exists="overwrite")
    table = lake.export("goods", format="delta", to="s3://lake/table")
    print([first.rows, again.rows, table.rows, len(table.readers)])
"""


@pytest.mark.timeout(400)
def test_copies_in_a_bucket(tmp_path: Path) -> None:
    connectors.ensure(["s3"])
    with object_store(tmp_path / "s3") as store:
        bucket = store.bucket("lake")
        project = tmp_path / "shop"
        project.mkdir()
        (project / "headwater.yml").write_text(
            f"name: shop\nspark: {{master: 'local[1]', conf: {COLD}}}\nstorage: {{s3: {store.settings}}}\n"
            f"tables:\n  goods: {{schema: '{COLUMNS}', keys: [id]}}\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(project)], input=PLAIN_ROWS, capture_output=True, text=True, timeout=380
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.split("\n")[-2] == "[6, 6, 6, 2]"
        with bucket.open_input_file("out/_manifest.json") as file:
            manifest = json.loads(file.read())
        assert manifest["rows"] == 6
        files = [one["path"] for one in manifest["files"]]
        rows = sum(pq.ParquetFile(bucket.open_input_file(f"out/{path}")).metadata.num_rows for path in files)
        assert rows == 6
        from pyarrow import fs

        listed = [one.path for one in bucket.get_file_info(fs.FileSelector("out", recursive=True)) if one.is_file]
        assert sorted(listed) == sorted(["out/_manifest.json", *(f"out/{path}" for path in files)])
