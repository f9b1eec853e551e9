"""Backups that can't be taken, and what is no backup: a clear word, and nothing is written."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.operations.backup import parts
from headwater.operations.backup.writer import BackupWriter
from tests.backup.lab import back_up, manifest_of, project_at, refused, restore, rewrite
from tests.hints.followed import follows
from tests.recovery.lab import Moving
from tests.recovery.test_moved import AFTER_TWO, filled


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Moving:
    return filled(tmp_path_factory.mktemp("of") / "project", "delta", on_change="reload")


@pytest.fixture(scope="module")
def taken(lake: Moving) -> Path:
    """A backup of it."""
    back_up(lake, lake.root.parent / "taken")
    return lake.root.parent / "taken"


# --- where it goes


@follows("name another folder")
def test_a_folder_that_is_not_empty(lake: Moving, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / ".something").write_text("mine")
    refused(lake.do("backup", tmp_path / "full"), "BACKUP_NOT_EMPTY", "there is something already")
    assert [path.name for path in (tmp_path / "full").iterdir()] == [".something"]
    refused(lake.do("backup", tmp_path / "full" / ".something"), "BACKUP_NOT_EMPTY", "is a file")
    back_up(lake, tmp_path / "another")


@follows("delete it, or name another folder")
def test_a_back_up_that_was_cut_off_is_in_the_way(lake: Moving, taken: Path, tmp_path: Path) -> None:
    shutil.copytree(taken, tmp_path / "cut")
    (tmp_path / "cut" / "backup.json").unlink()
    (tmp_path / "cut" / "backup.unfinished").write_text("{}")
    refused(lake.do("backup", tmp_path / "cut"), "BACKUP_NOT_EMPTY", "a backup that was cut off")
    shutil.rmtree(tmp_path / "cut")
    back_up(lake, tmp_path / "cut")


@follows("name a folder outside of it, best on another disk")
@pytest.mark.parametrize("place", ["lake", "lake/topics/back", ".headwater/back", "..", "link/back"])
def test_a_folder_in_the_lake_itself(place: str, lake: Moving, tmp_path: Path) -> None:
    if not (lake.root / "link").exists():
        (lake.root / "link").symlink_to(lake.root / "lake")
    before = sorted((lake.root / "lake").rglob("*"))
    refused(lake.do("backup", lake.root / place), "INVALID_VALUE", "the backup's folder")
    assert sorted((lake.root / "lake").rglob("*")) == before
    assert not (lake.root / ".headwater" / "back").exists()
    back_up(lake, tmp_path / "outside")


def test_where_there_is_no_lake_yet(lake: Moving, tmp_path: Path) -> None:
    begun = project_at(tmp_path / "new", lake)
    refused(begun.do("backup", tmp_path / "back"), "NO_SUCH_RELATION", "there is no lake", "headwater run --once")
    assert not (tmp_path / "back").exists()


@follows("stop the runner while the backup is taken")
def test_a_flow_that_never_stands_still(lake: Moving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ledger is written with each file that is copied."""
    noted = lake.root / "lake" / "_headwater" / "flows" / "topics.orders" / "noted.json"
    copy = BackupWriter.copy

    def copied(*given: Any) -> str:
        noted.write_text(str(time.monotonic_ns()), encoding="utf-8")
        return copy(*given)

    with monkeypatch.context() as changing:
        changing.setattr(parts, "PATIENCE", 0.5)
        changing.setattr(BackupWriter, "copy", copied)
        refused(lake.do("backup", tmp_path / "back"), "BACKUP_BUSY", "topics.orders has changed each time")
    noted.unlink()
    assert list((tmp_path / "back").iterdir()) == []
    back_up(lake, tmp_path / "back")


# --- what is no backup, or not the one that was written


def data_file(folder: Path) -> str:
    """A file of rows in a backup."""
    names = [f"{root}/{path}" for root, path, *_ in manifest_of(folder)["files"]]
    return next(name for name in names if name.startswith("lake/topics/orders/") and name.endswith(".parquet"))


def without_manifest(folder: Path) -> None:
    (folder / "backup.json").unlink()


def cut_off(folder: Path) -> None:
    (folder / "backup.json").unlink()
    (folder / "backup.unfinished").write_text("{}")


def without_a_file(folder: Path) -> None:
    (folder / data_file(folder)).unlink()


def with_other_bytes(folder: Path) -> None:
    file = folder / data_file(folder)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def with_fewer_bytes(folder: Path) -> None:
    file = folder / data_file(folder)
    file.write_bytes(file.read_bytes()[:-1])


def with_another_state(folder: Path) -> None:
    (folder / "state.json").write_text("{}")


def without_a_state(folder: Path) -> None:
    (folder / "state.json").unlink()


def with_half_a_manifest(folder: Path) -> None:
    text = (folder / "backup.json").read_text(encoding="utf-8")
    (folder / "backup.json").write_text(text[: len(text) // 2], encoding="utf-8")


def with_a_list_for_a_manifest(folder: Path) -> None:
    (folder / "backup.json").write_text("[1, 2]", encoding="utf-8")


def of_a_newer_release(folder: Path) -> None:
    rewrite(folder, {**manifest_of(folder), "format": 99, "headwater": "99.0", "files": "elsewhere"})


def with_a_link(folder: Path) -> None:
    file = folder / data_file(folder)
    file.rename(folder.parent / "aside")
    file.symlink_to(folder.parent / "aside")


def with_a_folder_behind_a_link(folder: Path) -> None:
    (folder / "lake" / "topics").rename(folder.parent / "topics")
    (folder / "lake" / "topics").symlink_to(folder.parent / "topics")


def naming(root: str, path: str) -> Callable[[Path], None]:
    """With a file that somebody has put into the manifest, with its right checksum."""

    def change(folder: Path) -> None:
        content = b"name: mine\n"
        told = manifest_of(folder)
        told["files"].append([root, path, len(content), 0, hashlib.sha256(content).hexdigest()])
        rewrite(folder, told)
        for place in (folder / root, folder.parent):
            (place / "headwater.yml").parent.mkdir(parents=True, exist_ok=True)
            (place / "headwater.yml").write_bytes(content)

    return change


def with_a_record_that_leads_away(folder: Path) -> None:
    """Somebody has edited what says where a topic is, and its checksum too."""
    name = "_headwater/relations/topics.orders.json"
    record = json.loads((folder / "lake" / name).read_text(encoding="utf-8"))
    content = json.dumps({**record, "path": "../../elsewhere"}).encode()
    (folder / "lake" / name).write_bytes(content)
    told = manifest_of(folder)
    for file in told["files"]:
        if file[1] == name:
            file[2], file[4] = len(content), hashlib.sha256(content).hexdigest()
    rewrite(folder, told)


def naming_one_twice(folder: Path) -> None:
    told = manifest_of(folder)
    rewrite(folder, {**told, "files": [*told["files"], told["files"][0]]})


DAMAGES: list[tuple[Callable[[Path], None], str, str]] = [
    (without_a_file, "BACKUP_DAMAGED", "the backup lacks"),
    (with_other_bytes, "BACKUP_DAMAGED", "its checksum differs"),
    (with_fewer_bytes, "BACKUP_DAMAGED", "bytes, and had"),
    (with_another_state, "BACKUP_DAMAGED", "state.json"),
    (without_a_state, "BACKUP_DAMAGED", "state.json"),
    (with_half_a_manifest, "BACKUP_DAMAGED", "backup.json can't be read"),
    (with_a_list_for_a_manifest, "BACKUP_DAMAGED", "backup.json can't be read"),
    (with_a_link, "BACKUP_DAMAGED", "is a link, or lies behind one"),
    (with_a_folder_behind_a_link, "BACKUP_DAMAGED", "is a link, or lies behind one"),
    (with_a_record_that_leads_away, "BACKUP_DAMAGED", "leads out of the lake, to ../../elsewhere"),
    (naming("lake", "../headwater.yml"), "BACKUP_DAMAGED", "lake/../headwater.yml"),
    (naming("lake", "topics/../../headwater.yml"), "BACKUP_DAMAGED", "which is no file of a lake"),
    (naming("lake", "/tmp/headwater.yml"), "BACKUP_DAMAGED", "which is no file of a lake"),
    (naming("project", "headwater.yml"), "BACKUP_DAMAGED", "which is no file of a lake"),
    (naming("project", ".headwater/state.db"), "BACKUP_DAMAGED", "which is no file of a lake"),
    (naming("elsewhere", "x"), "BACKUP_DAMAGED", "backup.json can't be read"),
    (naming_one_twice, "BACKUP_DAMAGED", "which is no file of a lake"),
]


@pytest.mark.parametrize(("damage", "code", "words"), DAMAGES, ids=lambda each: getattr(each, "__name__", ""))
def test_what_is_not_a_back_up_is_not_restored(
    damage: Callable[[Path], None], code: str, words: str, lake: Moving, taken: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups" / "one"
    shutil.copytree(taken, folder)
    damage(folder)
    project = project_at(tmp_path / "project", lake)
    before = {path: path.read_bytes() for path in project.root.rglob("*") if path.is_file()}
    refused(project.do("restore", folder), code, words, str(folder))
    assert not (project.root / "lake").exists()
    assert not (project.root / ".headwater" / "restore.json").exists()
    for path, content in before.items():
        assert path.read_bytes() == content


@follows("nothing was restored: take another backup, or fetch this one again")
def test_a_backup_that_is_fetched_again_is_restored(lake: Moving, taken: Path, tmp_path: Path) -> None:
    shutil.copytree(taken, tmp_path / "fetched")
    with_other_bytes(tmp_path / "fetched")
    project = project_at(tmp_path / "project", lake)
    refused(project.do("restore", tmp_path / "fetched"), "BACKUP_DAMAGED", "its checksum differs")
    shutil.rmtree(tmp_path / "fetched")
    shutil.copytree(taken, tmp_path / "fetched")
    restore(project, tmp_path / "fetched")
    assert project.kinds() == AFTER_TWO


@follows("name the folder that the backup was taken into", "nothing was restored: take another backup")
@follows("update Headwater here; nothing was changed", here=False)
def test_what_is_no_back_up_is_not_restored(lake: Moving, taken: Path, tmp_path: Path) -> None:
    project = project_at(tmp_path / "project", lake)
    refused(project.do("restore", tmp_path / "nowhere"), "BACKUP_INCOMPLETE", "it is not there, nor is its backup.json")
    told = {
        without_manifest: ("BACKUP_INCOMPLETE", "is no backup: it has no backup.json"),
        cut_off: ("BACKUP_INCOMPLETE", "was cut off before it was whole"),
        of_a_newer_release: ("LAKE_TOO_NEW", "99.0"),
    }
    for damage, (code, words) in told.items():
        shutil.copytree(taken, tmp_path / damage.__name__)
        damage(tmp_path / damage.__name__)
        refused(project.do("restore", tmp_path / damage.__name__), code, words)
    assert not (project.root / "lake").exists()
    restore(project, taken)
    assert project.kinds() == AFTER_TWO


# --- where it is restored


@follows("restore in another folder: a copy of the project's files, with a `warehouse` of its own")
def test_a_place_that_is_not_empty(lake: Moving, taken: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (lake.root / "lake").rglob("*")}
    refused(lake.do("restore", taken), "BACKUP_NOT_EMPTY", "there is a lake at")
    assert {path: path.stat().st_mtime_ns for path in (lake.root / "lake").rglob("*")} == before
    project = project_at(tmp_path / "project", lake)
    (project.root / "lake" / "topics" / "orders" / "_delta_log").mkdir(parents=True)
    refused(project.do("restore", taken), "BACKUP_NOT_EMPTY", f"there is something already at {project.root}")
    assert not (project.root / "lake" / "_headwater").exists()
    another = project_at(tmp_path / "another", lake)
    restore(another, taken)
    assert another.kinds() == AFTER_TWO


def test_a_project_whose_state_is_of_another_lake(lake: Moving, taken: Path, tmp_path: Path) -> None:
    project = project_at(tmp_path / "project", lake)
    restore(project, taken)
    settings = project.root / "headwater.yml"
    settings.write_text(settings.read_text().replace("warehouse: ./lake", "warehouse: ./second"), encoding="utf-8")
    refused(project.do("restore", taken), "BACKUP_NOT_EMPTY", "is that of the lake", str(project.root / "lake"))
    assert not (project.root / "second").exists()


def test_the_state_of_a_lake_that_was_lost_is_replaced(lake: Moving, taken: Path, tmp_path: Path) -> None:
    """Its disk is gone, and a new one is mounted there: the state is newer than the backup."""
    project = project_at(tmp_path / "project", lake)
    restore(project, taken)
    back_up(project, tmp_path / "again")
    project.land("c.json", [("6", "z", 10)])
    project.run()
    assert project.do("mv", "create", "more", "SELECT kind FROM topic('orders')", "--json").code == 0
    shutil.rmtree(project.root / "lake")
    done = restore(project, tmp_path / "again")
    assert done["copied_from"] is None
    assert [one["name"] for one in project.do("mv", "list", "--json").json] == ["kinds"]
    assert project.kinds() == AFTER_TWO
    assert project.run()[0]["topics.orders"] == (1, 1), "what came after the backup is there still"
    assert project.kinds() == [*AFTER_TWO[:2], ("z", 2, 15)]


# --- without the data files


@follows("put the data files there first; nothing was restored")
def test_metadata_alone_needs_its_data_files(lake: Moving, taken: Path, tmp_path: Path) -> None:
    told = back_up(lake, tmp_path / "metadata", "--metadata-only")
    assert told["metadata_only"] and told["files"] < len(manifest_of(taken)["files"])
    assert not list((tmp_path / "metadata").rglob("topics/orders/*.parquet"))
    project = project_at(tmp_path / "project", lake)
    refused(project.do("restore", tmp_path / "metadata"), "BACKUP_INCOMPLETE", "is not there")
    assert not (project.root / "lake").exists()
    for file in (lake.root / "lake").rglob("*.parquet"):
        target = project.root / "lake" / file.relative_to(lake.root / "lake")
        if "_delta_log" not in target.parts:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    restore(project, tmp_path / "metadata")
    assert project.kinds() == AFTER_TWO
    project.land("c.json", [("6", "z", 10)])
    assert project.run()[0]["topics.orders"] == (1, 1)
    assert project.do("mv", "verify", "kinds").code == 0


def test_what_was_told_to_flows_comes_along(lake: Moving, tmp_path: Path) -> None:
    assert lake.do("flow", "pause", "topics.orders").code == 0
    try:
        back_up(lake, tmp_path / "back")
    finally:
        assert lake.do("flow", "resume", "topics.orders").code == 0
    project = project_at(tmp_path / "project", lake)
    restore(project, tmp_path / "back")
    states: dict[str, Any] = {one["flow"]: one for one in project.do("status", "--json").json}
    assert states["topics.orders"]["state"] == "paused", json.dumps(states)
