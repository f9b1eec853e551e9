"""Which files one piece of maintenance takes: planned from metadata, so that no Spark is needed to tell."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import DataFile
from headwater.core.storage import Files
from headwater.formats.base import Address
from headwater.formats.delta.maintenance import vector_path
from headwater.formats.maintenance.orphans import find, inside, reading_references
from headwater.formats.maintenance.rewrite import RewriteScope

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
MB = 1024 * 1024


def file(n: int, size: float, part: str | None = "a", deleted: int = 0) -> DataFile:
    return DataFile(f"f{n}", int(size * MB), 100, {"part": part}, deleted, BEGIN + timedelta(seconds=n))


def names(groups: list[tuple[DataFile, ...]]) -> list[list[str]]:
    return [[one.path for one in group] for group in groups]


def test_small_is_under_seven_tenths_of_the_target_and_one_alone_is_left() -> None:
    scope = RewriteScope(100 * MB)
    assert names(scope.compaction([file(1, 69.9), file(2, 10), file(3, 70), file(4, 100)])) == [["f1", "f2"]]
    assert scope.compaction([file(1, 1), file(2, 1, "b"), file(3, 71)]) == []


def test_neighbours_in_time_make_a_target_and_what_comes_out_is_left_alone() -> None:
    scope = RewriteScope(100 * MB)
    files = [file(n, 30) for n in (5, 3, 1, 2, 4)]
    assert names(scope.compaction(files)) == [["f1", "f2", "f3"], ["f4", "f5"]]
    assert scope.compaction([file(6, 90), file(7, 60)]) == []


@pytest.mark.parametrize(("deleted", "due"), [(10, False), (11, True)])
def test_a_file_is_due_when_more_than_a_tenth_of_its_rows_are_deleted(deleted: int, due: bool) -> None:
    large = file(1, 500, deleted=deleted)
    assert bool(RewriteScope(100 * MB).compaction([large])) is due
    assert RewriteScope(100 * MB, deleted_share=0.05).compaction([large]) == [(large,)]


def test_only_named_partitions_are_looked_at_and_null_is_one() -> None:
    files = [file(n, 1, part) for n, part in enumerate(["a", "a", "b", "b", None, None])]
    only = RewriteScope(100 * MB, ({"part": None}, {"part": "b"}))
    assert sorted(names(only.compaction(files))) == [["f2", "f3"], ["f4", "f5"]]
    assert RewriteScope(100 * MB, ({"other": "b"},)).compaction(files) == []
    assert RewriteScope(100 * MB, ()).compaction(files) == []


def test_a_piece_is_bounded_but_never_so_small_that_nothing_is_done() -> None:
    files = [file(n, 10) for n in range(9)]
    assert names(RewriteScope(100 * MB, max_bytes=30 * MB).compaction(files)) == [["f0", "f1", "f2"]]
    assert names(RewriteScope(20 * MB, max_bytes=45 * MB).compaction(files)) == [["f0", "f1"], ["f2", "f3"]]
    assert names(RewriteScope(100 * MB, max_bytes=1).compaction(files)) == [["f0", "f1"]]
    many = [file(n, 1, str(n // 2)) for n in range(400)]
    assert len(RewriteScope(100 * MB).compaction(many)) == 50


def test_clustering_takes_a_partitions_files_that_are_not_clustered() -> None:
    files = [file(n, 40, "ab"[n % 2]) for n in range(6)]
    scope = RewriteScope(100 * MB)
    groups = scope.clustering(files, {"f0", "f1", "f2"})
    assert names(groups) == [["f4"], ["f3", "f5"]] or names(groups) == [["f3", "f5"], ["f4"]]
    assert scope.files_of(tuple(files)) == 3
    assert len(RewriteScope(100 * MB, max_bytes=50 * MB).clustering(files)) == 1


def test_the_file_of_a_deletion_vector() -> None:
    """The example of Delta's protocol."""
    told = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    assert vector_path(told) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path({"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91"}) is None, "in the log itself"


def test_paths_are_told_from_the_folder_on_however_they_are_written(tmp_path) -> None:  # type: ignore[no-untyped-def]
    files = Files(str(tmp_path))
    for path in (f"file:{tmp_path}/a/b", f"file://{tmp_path}/a/b", f"{tmp_path}/a/b"):
        assert inside(files, path) == "a/b"
    assert inside(files, f"{tmp_path}2/a/b") is None


def test_a_live_file_that_is_not_found_ends_the_search(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Were its name another one in the listing, every file would look like an orphan."""
    address, files = Address(path=str(tmp_path)), Files(str(tmp_path))
    files.write_atomic("part=a%2Fb/f1.parquet", b"rows")
    later = datetime.now(timezone.utc) + timedelta(seconds=5)
    assert [f.bytes for f in find(address, files, set(), [], later, lambda entry: True)] == [4]
    with pytest.raises(HeadwaterError) as caught:
        find(address, files, {"part=a/b/f1.parquet"}, ["part=a/b/f1.parquet"], later, lambda entry: True)
    assert caught.value.code is Code.REFERENCE_UNREADABLE


def test_whatever_fails_in_reading_what_names_files_ends_the_search() -> None:
    with pytest.raises(HeadwaterError, match="no such manifest") as caught, reading_references(Address(path="/x")):
        raise OSError("no such manifest")
    assert caught.value.code is Code.REFERENCE_UNREADABLE
