"""Several processes commit to one Delta table on an object store: of each race one wins, and all know it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Unsupported
from headwater.core.model import CommitTag
from headwater.formats.base import Address
from headwater.formats.delta.native import storage_options
from headwater.formats.registry import FORMATS
from headwater.spark import connectors
from tests.faults import racing
from tests.services.proxy import proxy_of
from tests.services.s3 import object_store
from tests.support import COLD

pytestmark = pytest.mark.spark

WRITERS = ("spark", "spark", "light")


@pytest.mark.timeout(600)
def test_no_commit_is_lost_whoever_writes(tmp_path: Path) -> None:
    connectors.ensure(["s3"])
    path = "s3a://lake/raced"
    with object_store(tmp_path / "s3") as store:
        store.bucket("lake")
        for number in range(len(WRITERS)):
            project = tmp_path / str(number)
            project.mkdir()
            conf = f"spark: {{master: 'local[1]', conf: {COLD}}}"
            (project / "headwater.yml").write_text(
                f"name: race\nwarehouse: s3://lake/{number}\n{conf}\nstorage: {{s3: {store.settings}}}\n"
            )
        _make(tmp_path / "0", path)
        wrote = _race(tmp_path, path)
        with Lake.open(tmp_path / "0") as lake:
            native = FORMATS.get("delta").native
            assert native is not None
            table = native(Address(path=path), lake.project.lake_context)
            found = Counter((row["writer"], row["step"]) for row in table.read().read_all().to_pylist())
            version = table.version()
        log = tmp_path / "s3" / "buckets" / "lake" / "raced" / "_delta_log"
        assert found == Counter((number, step) for number, steps in enumerate(wrote) for step in range(steps))
        assert version == sum(wrote)
        assert not [file.name for file in log.iterdir() if "probe" in file.name]


def _race(folder: Path, path: str) -> list[int]:
    """How many rows each of the writers has committed."""
    writers = [
        subprocess.Popen(
            [sys.executable, racing.__file__, engine, str(folder / str(number)), path, str(folder), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, engine in enumerate(WRITERS)
    ]
    try:
        while not all((folder / f"ready.{number}").exists() for number in range(len(WRITERS))):
            for writer in writers:
                assert writer.poll() is None, writer.communicate()[1]
            time.sleep(0.05)
        (folder / "start").touch()
        wrote = []
        for writer, engine in zip(writers, WRITERS, strict=True):
            if engine != "spark":
                (folder / "stop").touch()
            out, err = writer.communicate(timeout=400)
            assert writer.returncode == 0, err
            wrote.append(int(out))
        return wrote
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def _make(project: Path, path: str) -> None:
    with Lake.open(project) as lake:
        schema = pa.schema([("writer", pa.int32()), ("step", pa.int32())])
        options = storage_options(lake.project.lake_context.storage)
        deltalake.DeltaTable.create(path, deltalake.Schema.from_arrow(schema), storage_options=options)


def test_the_native_writer_leaves_a_store_alone_that_lets_two_writers_win(tmp_path: Path) -> None:
    with object_store(tmp_path / "s3") as store, proxy_of(store.address) as proxy:
        store.bucket("lake")
        native = FORMATS.get("delta").native
        assert native is not None
        puts: list[str] = []
        proxy.cuts = lambda method, path: bool(method == "PUT" and puts.append(path))
        rows = pa.table({"writer": [1], "step": [1]}, schema=pa.schema([("writer", pa.int32()), ("step", pa.int32())]))
        for number, stripped in enumerate((frozenset({"if-none-match"}), frozenset[str]())):
            # A bucket is tried once per process, by the address of its store.
            project = tmp_path / str(number)
            project.mkdir()
            (project / "headwater.yml").write_text(
                f"name: race\nwarehouse: s3://lake/{number}\n"
                f"storage: {{s3: {store.settings.replace(store.address, proxy.address)}}}\n"
            )
            path = f"s3://lake/a folder/{number}+ü"
            with Lake.open(project) as lake:
                context = lake.project.lake_context
            proxy.without = frozenset()
            schema, options = deltalake.Schema.from_arrow(rows.schema), storage_options(context.storage)
            deltalake.DeltaTable.create(path, schema, storage_options=options)
            table = native(Address(path=path), context)
            proxy.without = stripped
            for step in range(2):
                if stripped:
                    with pytest.raises(Unsupported, match="ignores If-None-Match"):
                        table.append(rows, CommitTag("x", 1, step))
                else:
                    table.append(rows, CommitTag("x", 1, step))
            assert table.version() == (0 if stripped else 2)
        assert len([path for path in puts if "probe" in path]) == 2 * 2 + 2
        assert not list((tmp_path / "s3").rglob("*probe*"))
