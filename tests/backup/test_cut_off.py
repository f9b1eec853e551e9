"""A backup or a restore that is killed, or runs out of room: what is not whole is known as such, and begins again."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.backup.crashing import killed
from tests.backup.lab import back_up, manifest_of, project_at, refused, restore
from tests.faults.crashing import KILLS
from tests.faults.disks import disk
from tests.hints.followed import follows
from tests.recovery.lab import Moving
from tests.recovery.test_moved import AFTER_TWO, filled


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Moving:
    return filled(tmp_path_factory.mktemp("of") / "project", "iceberg", on_change="reload")


def numbers(seed: int, most: int) -> list[int]:
    """When to kill: early, late, and in between."""
    rng = random.Random(seed)
    return [2, *(rng.randint(3, most - 2) for _ in range(KILLS - 1)), most]


@follows("nothing was restored: take another backup")
def test_a_back_up_that_is_killed_is_none(lake: Moving, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    back_up(lake, tmp_path / "whole")
    files = len(manifest_of(tmp_path / "whole")["files"])
    project = project_at(tmp_path / "project", lake)
    for number in numbers(seed, files):
        target = tmp_path / f"cut {number}"
        assert killed(number, "backup", target, "--project", lake.root)
        assert not (target / "backup.json").exists()
        refused(project.do("restore", target), "BACKUP_INCOMPLETE", "was cut off")
        refused(lake.do("backup", target), "BACKUP_NOT_EMPTY", "was cut off")
        assert not (project.root / "lake").exists()
    assert lake.kinds() == AFTER_TWO
    back_up(lake, tmp_path / "another")
    restore(project, tmp_path / "another")
    assert project.kinds() == AFTER_TWO


@follows("restore it again: headwater restore {}")
def test_a_restore_that_is_killed_begins_again(lake: Moving, tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    back_up(lake, tmp_path / "whole")
    files = len(manifest_of(tmp_path / "whole")["files"])
    for number in numbers(seed, files):
        project = project_at(tmp_path / f"project {number}", lake)
        assert killed(number, "restore", tmp_path / "whole", "--project", project.root)
        for command in (["query", "SELECT 1"], ["plan"], ["run", "--once"], ["backup", tmp_path / "of nothing"]):
            refused(project.do(*command), "RESTORE_UNFINISHED", f"headwater restore {tmp_path / 'whole'}")
        assert killed(max(2, number // 2), "restore", tmp_path / "whole", "--project", project.root)
        restore(project, tmp_path / "whole")
        assert project.kinds() == AFTER_TWO
        assert project.run() == ({"topics.orders": (0, 0), "views.kinds": (0, 0)}, "")
        assert not list((project.root / "lake").rglob("restore.json"))
    project.land("c.json", [("6", "z", 10)])
    assert project.run()[0]["topics.orders"] == (1, 1)
    assert project.do("mv", "verify", "kinds").code == 0


@follows("free some space there or name another folder, and take it again")
def test_a_disk_that_is_full_while_a_back_up_is_taken(lake: Moving, tmp_path: Path) -> None:
    with disk(tmp_path / "disk") as full:
        full.fill(leave=60_000)
        said = refused(lake.do("backup", tmp_path / "disk" / "back"), "STORAGE_FAILED", "No space left on device")
        assert "the backup was given up" in said and f"are free at {tmp_path / 'disk'}" in said
        assert list((tmp_path / "disk" / "back").iterdir()) == [], "what there was takes no room"
        full.empty()
        back_up(lake, tmp_path / "disk" / "back")
        project = project_at(tmp_path / "project", lake)
        restore(project, tmp_path / "disk" / "back")
        assert project.kinds() == AFTER_TWO


@follows("free some space there, and restore it again")
def test_a_disk_that_is_full_while_a_lake_is_restored(lake: Moving, tmp_path: Path) -> None:
    back_up(lake, tmp_path / "back")
    project = project_at(tmp_path / "project", lake)
    settings = project.root / "headwater.yml"
    settings.write_text(settings.read_text().replace("./lake", "./disk/lake"), encoding="utf-8")
    with disk(project.root / "disk") as full:
        full.fill(leave=60_000)
        said = refused(project.do("restore", tmp_path / "back"), "STORAGE_FAILED", "No space left on device")
        assert "restored in part only" in said
        refused(project.do("query", "SELECT * FROM mv('kinds')"), "RESTORE_UNFINISHED")
        full.empty()
        restore(project, tmp_path / "back")
        assert project.kinds() == AFTER_TWO
        project.land("c.json", [("6", "z", 10)])
        assert project.run()[0]["topics.orders"] == (1, 1)


def test_a_back_up_folder_that_can_not_be_written(lake: Moving, tmp_path: Path) -> None:
    with disk(tmp_path / "disk") as full:
        full.make_read_only()
        said = refused(lake.do("backup", tmp_path / "disk" / "back"), "WAREHOUSE_UNWRITABLE", "Read-only file system")
        assert str(tmp_path / "disk") in said
        full.make_writable()
    shutil.rmtree(tmp_path / "disk", ignore_errors=True)
