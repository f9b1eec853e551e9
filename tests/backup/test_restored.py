"""A lake that is restored from a backup goes on where it was, in every format, without its original."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.backup.lab import back_up, project_at, restore
from tests.recovery.test_moved import AFTER_TWO, filled, old_paths
from tests.scale import in_formats

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("format", in_formats("iceberg", full=["delta", "hudi", "paimon", "parquet"]))
def test_a_lake_that_was_restored_elsewhere_goes_on(format: str, tmp_path: Path) -> None:
    original = filled(tmp_path / "project", format, on_change="reload")
    versions = original.versions()
    counts = original.counts(versions)
    target = tmp_path / "back up % ü"
    told = back_up(original, target)
    relations = {one["relation"]: one for one in told["relations"]}
    assert set(relations) == {"topics.orders", "views.kinds"}
    assert relations["topics.orders"]["version"] == versions[-1]
    assert (relations["topics.orders"]["epoch"], relations["topics.orders"]["step"]) == (1, 1)
    before = original.root
    restored = project_at(tmp_path / "elsewhere" / "project", original)
    shutil.rmtree(original.root)
    done = restore(restored, target)
    assert done["lake"] == told["lake"] and done["copied_from"] is None
    shutil.rmtree(target)
    assert restored.kinds() == AFTER_TWO
    assert restored.do("plan", "--json").json == []
    assert restored.run() == ({"topics.orders": (0, 0), "views.kinds": (0, 0)}, "")
    assert restored.counts(versions) == counts
    restored.land("c.json", [("6", "z", 10)])
    assert restored.run()[0]["topics.orders"] == (1, 1)
    assert restored.kinds() == [*AFTER_TWO[:2], ("z", 2, 15)]
    assert restored.refreshed() == "incremental"
    assert restored.do("mv", "verify", "kinds").code == 0
    assert restored.versions()[: len(versions)] == versions
    assert not before.exists(), "nothing was made where it was"
    assert old_paths(restored.root, str(before)) == []


@pytest.mark.parametrize("format", in_formats("delta", full=["hudi", "iceberg", "paimon", "parquet"]))
def test_a_lake_that_was_restored_leaves_its_original_alone(format: str, tmp_path: Path) -> None:
    original = filled(tmp_path / "project", format, on_change="reload")
    told = back_up(original, tmp_path / "copy")
    restored = project_at(tmp_path / "restored", original)
    before = {path: path.stat().st_mtime_ns for path in original.root.rglob("*") if path.is_file()}
    done = restore(restored, tmp_path / "copy")
    assert done["lake"] != told["lake"] and done["copied_from"] == told["lake"]
    restored.land("c.json", [("6", "z", 10)])
    assert restored.run()[0]["topics.orders"] == (1, 1)
    after = {path: path.stat().st_mtime_ns for path in original.root.rglob("*") if path.is_file()}
    assert after == before, "the original was not touched"
    original.land("d.json", [("7", "w", 1), ("8", "w", 1)])
    assert original.run()[0]["topics.orders"] == (1, 2)
    assert original.kinds() == [("w", 2, 2), *AFTER_TWO]
    assert restored.kinds() == [*AFTER_TWO[:2], ("z", 2, 15)]
    for one in (restored, original):
        assert one.do("mv", "verify", "kinds").code == 0
