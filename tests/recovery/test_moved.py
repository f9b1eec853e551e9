"""A lake that is found elsewhere than it was works there, in every format, and says so once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.recovery.lab import Moving
from tests.scale import in_formats

pytestmark = pytest.mark.usefixtures("spark")


def filled(root: Path, format: str, **more: str) -> Moving:
    """A project after two runs: three rows, then two."""
    project = Moving.make(root, format, **more)
    project.land("a.json", [("1", "x", 1), ("2", "y", 2), ("3", "x", 3)])
    project.run()
    project.land("b.json", [("4", "y", 4), ("5", "z", 5)])
    project.run()
    return project


def old_paths(root: Path, old: str) -> list[str]:
    """Files of a lake, other than data, that still name its old place."""
    texts = (path for path in (root / "lake").rglob("*") if path.is_file() and path.suffix not in (".parquet", ".avro"))
    return [str(path.relative_to(root)) for path in texts if old.encode() + b"/" in path.read_bytes()]


AFTER_TWO = [("x", 2, 4), ("y", 2, 6), ("z", 1, 5)]


@pytest.mark.parametrize("format", in_formats("delta", "iceberg", full=["hudi", "paimon", "parquet"]))
def test_a_project_that_was_moved_goes_on(format: str, tmp_path: Path) -> None:
    before = filled(tmp_path / "project", format)
    versions = before.versions()
    counts = before.counts(versions)
    (tmp_path / "elsewhere").mkdir()
    moved = Moving(tmp_path / "elsewhere" / "project")
    before.root.rename(moved.root)
    sql = "SELECT * FROM mv('kinds') ORDER BY kind"
    engine = "auto" if format in ("hudi", "paimon") else "duckdb"  # without a JVM
    first = moved.do("query", sql, "--output", "json", "--engine", engine)
    assert first.code == 0, first.err
    assert [tuple(row.values()) for row in first.json] == AFTER_TWO
    assert f"was moved from {before.root / 'lake'}" in first.err
    assert moved.do("query", "SELECT 1", "--output", "json").err == "", "it is said once"
    assert moved.count() == 5
    assert moved.do("plan", "--json").json == []
    assert moved.run()[0] == {"topics.orders": (0, 0), "views.kinds": (0, 0)}
    assert moved.counts(versions) == counts
    moved.land("c.json", [("6", "z", 10)])
    assert moved.run()[0]["topics.orders"] == (1, 1)
    assert moved.kinds() == [*AFTER_TWO[:2], ("z", 2, 15)]
    assert moved.refreshed() == "incremental"
    assert moved.do("mv", "verify", "kinds").code == 0
    assert moved.versions()[: len(versions)] == versions
    assert not before.root.exists(), "nothing was made where it was"
    assert old_paths(moved.root, str(before.root)) == []
    shutil.rmtree(moved.root / ".headwater")
    rebuilt = moved.do("query", "SELECT * FROM mv('kinds') ORDER BY kind", "--output", "json")
    assert [tuple(row.values()) for row in rebuilt.json] == [*AFTER_TWO[:2], ("z", 2, 15)], rebuilt.err
    assert "there was no state: it was rebuilt from the lake" in rebuilt.err
    assert moved.do("plan", "--json").json == []
    assert moved.run() == ({"topics.orders": (0, 0), "views.kinds": (0, 0)}, "")
    assert moved.counts(versions) == counts


@pytest.mark.parametrize("format", in_formats("delta", "iceberg", full=["hudi", "paimon", "parquet"]))
def test_a_copy_and_its_original_go_on_apart(format: str, tmp_path: Path) -> None:
    original = filled(tmp_path / "project", format, on_change="reload")
    versions = original.versions()
    counts = original.counts(versions)
    copy = Moving(tmp_path / "copy")
    shutil.copytree(original.root, copy.root, copy_function=shutil.copy)  # as cp -r: files get the time of now
    before = {path: path.stat().st_mtime_ns for path in original.root.rglob("*") if path.is_file()}
    found = copy.do("query", "SELECT * FROM mv('kinds') ORDER BY kind", "--output", "json")
    assert found.code == 0, found.err
    assert f"is a copy of {original.root / 'lake'}" in found.err
    assert [tuple(row.values()) for row in found.json] == AFTER_TWO
    assert copy.run()[0] == {"topics.orders": (0, 0), "views.kinds": (0, 0)}
    copy.land("c.json", [("6", "z", 10)])
    assert copy.run()[0]["topics.orders"] == (1, 1)
    assert copy.counts(versions) == counts
    after = {path: path.stat().st_mtime_ns for path in original.root.rglob("*") if path.is_file()}
    assert after == before, "the original was not touched"
    original.land("d.json", [("7", "w", 1), ("8", "w", 1)])
    ran, said = original.run()
    assert ran["topics.orders"] == (1, 2)
    assert said == ""
    assert original.kinds() == [("w", 2, 2), *AFTER_TWO]
    assert copy.kinds() == [*AFTER_TWO[:2], ("z", 2, 15)]
    for one in (copy, original):
        assert one.do("mv", "verify", "kinds").code == 0
