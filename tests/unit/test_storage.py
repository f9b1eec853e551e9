"""The small files of the lake: whole or not at all, one winner, clear errors."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headwater.core.errors import Code, HeadwaterError
from headwater.core.secret import Secret
from headwater.core.spec.settings import S3Spec
from headwater.core.storage import Files, to_spark_uri


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path / "odd name [1] %20"))


def test_written_is_read_and_replaced_whole(files: Files) -> None:
    files.write_atomic("a/b/one.json", "eins")
    files.write_atomic("a/b/one.json", b"zwei")
    assert files.read_text("a/b/one.json") == "zwei"
    assert [entry.path for entry in files.list("a/b")] == ["a/b/one.json"]
    assert files.find("a/b/two.json") is None and not files.exists("a/c")


def test_reading_what_is_not_there_names_it(files: Files) -> None:
    with pytest.raises(HeadwaterError, match=r"a/none\.json") as caught:
        files.read_bytes("a/none.json")
    assert caught.value.code is Code.STORAGE_FAILED


def test_a_crash_while_writing_leaves_the_old_content(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write_atomic("x.json", "old")

    def crash(*_: object) -> None:
        raise SystemExit("killed")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(SystemExit):
        files.write_atomic("x.json", "new")
    assert files.read_text("x.json") == "old"
    assert [entry.name for entry in files.list()] == ["x.json"]


def test_of_many_writers_of_a_new_file_one_wins(files: Files) -> None:
    won: list[int] = []
    gate = threading.Barrier(8)

    def write(number: int) -> None:
        gate.wait()
        if files.write_new("log/0001.json", str(number)):
            won.append(number)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1 and files.read_text("log/0001.json") == str(won[0])
    assert [entry.name for entry in files.list("log")] == ["0001.json"]


def test_listing_is_by_name_with_sizes_and_can_go_down(files: Files) -> None:
    for path in ("b.txt", "a/x=1/c.txt", "a/d.txt"):
        files.write_atomic(path, "123")
    assert [(e.path, e.is_folder) for e in files.list()] == [("a", True), ("b.txt", False)]
    found = [e for e in files.list(recursive=True) if not e.is_folder]
    assert [(e.path, e.bytes) for e in found] == [("a/d.txt", 3), ("a/x=1/c.txt", 3), ("b.txt", 3)]
    assert files.list("nowhere") == []


def test_moving_and_deleting(files: Files) -> None:
    files.write_atomic("_tmp/one/x.txt", "x")
    files.move("_tmp/one/x.txt", "day=1/y.txt")
    files.move("day=1", "day=2")
    assert files.read_text("day=2/y.txt") == "x"
    files.delete("day=2")
    files.delete("day=2")
    assert not files.exists("day=2")
    files.delete()
    assert not files.exists()


def test_a_warehouse_that_can_not_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(HeadwaterError, match="warehouse") as caught:
        Files(str(tmp_path / "file" / "lake")).write_atomic("x", "y")
    assert caught.value.code is Code.WAREHOUSE_UNWRITABLE and caught.value.exit_code == 1


def test_local_paths_have_three_spellings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.txt").write_text("here")
    monkeypatch.chdir(tmp_path)
    for root in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}", ".", f"{tmp_path}/"):
        assert Files(root).read_text("x.txt") == "here", root
        assert Files(root).is_local
        assert Files(f"{tmp_path}/elsewhere").read_text(f"{Files(root).inside()}/x.txt") == "here"
    assert Files(".").read_text(f"file:{tmp_path}/x.txt") == "here"
    assert Files(".").read_text(f"file://{tmp_path}/x.txt") == "here"


def test_names_for_spark() -> None:
    assert to_spark_uri("s3://bucket/lake") == "s3a://bucket/lake"
    assert to_spark_uri("abfss://c@a.dfs.core.windows.net/lake") == "abfss://c@a.dfs.core.windows.net/lake"
    assert to_spark_uri("/lake/a b") == "file:///lake/a b"
    assert Files("s3://bucket/lake/", {"s3": {"region": "eu-west-1"}}).spark_uri("t/x") == "s3a://bucket/lake/t/x"


def test_an_unknown_storage_lists_the_known_ones() -> None:
    with pytest.raises(HeadwaterError, match="s3://") as caught:
        Files("ftp://host/lake")
    assert caught.value.code is Code.INVALID_VALUE


def test_an_unreachable_store_is_a_passing_failure_that_shows_no_secret() -> None:
    keys = S3Spec(
        endpoint="http://127.0.0.1:1",
        access_key=Secret("AK-visible"),
        secret_key=Secret("very-secret"),
        region="eu-west-1",
        path_style=True,
    )
    with pytest.raises(HeadwaterError) as caught:
        Files("s3a://bucket/lake", {"s3": keys}).read_text("x")
    assert caught.value.code is Code.STORAGE_FAILED and type(caught.value).__name__ == "TransientError"
    assert "secret" not in str(caught.value) and "AK-visible" not in str(caught.value)
