"""Every rule of *when*: from metadata alone, with no table and no Java."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from headwater.core.model import DataFile
from headwater.core.spec.layout import Clustering, Compaction
from headwater.maintenance import rules
from headwater.maintenance.rules import Partition, clustering_due, compaction_due, is_in_window

NOW = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
TARGET = 1000
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def file(
    size: int, age: timedelta = MINUTE, *, day: str | None = None, rows: int | None = None, deleted: int | None = None
) -> DataFile:
    file.count = getattr(file, "count", 0) + 1  # type: ignore[attr-defined]
    partition = {} if day is None else {"day": day}
    return DataFile(f"{file.count}.parquet", size, rows, partition, deleted, NOW - age)  # type: ignore[attr-defined]


def fired(files: list[DataFile], compaction: Compaction | None = None) -> list[tuple[Partition, str]]:
    return [(due.partition, due.rule) for due in compaction_due(files, TARGET, compaction or Compaction(), NOW)]


# --- a partition is due at so many small files


def test_twelve_small_files() -> None:
    assert fired([file(10) for _ in range(11)]) == []
    assert fired([file(10) for _ in range(12)]) == [((), "12 small files")]


def test_how_many_can_be_set() -> None:
    few = Compaction(small_files=3)
    assert fired([file(10), file(10)], few) == []
    assert fired([file(10), file(10), file(10)], few) == [((), "3 small files")]
    assert fired([file(10)], Compaction(small_files=1)) == [], "one file alone can't be joined with anything"


def test_a_file_is_small_under_seven_tenths_of_the_target() -> None:
    """So what a compaction makes, which may be a little under the target, is not compacted again."""
    assert fired([file(699) for _ in range(12)]) == [((), "12 small files")]
    assert fired([file(700) for _ in range(50)]) == []
    assert fired([file(699) for _ in range(50)], Compaction(small_below=0.5)) == []


def test_partitions_are_due_by_themselves() -> None:
    files = [file(10, day="mon") for _ in range(12)] + [file(10, day="tue") for _ in range(11)]
    assert fired(files) == [((("day", "mon"),), "12 small files")]
    (due,) = compaction_due(files, TARGET, Compaction(), NOW)
    assert (due.files, due.bytes) == (12, 120)


def test_a_large_rest_is_not_written_again_for_every_few_small_files() -> None:
    """What is left of the last compaction is small too: joined with each dozen, a stream would write it for ever."""
    rest = file(600)
    assert fired([rest, *(file(10) for _ in range(14))]) == []
    assert fired([rest, *(file(10) for _ in range(15))]) == [((), "16 small files")], "a quarter of it has come"
    assert fired([file(690), *(file(1) for _ in range(94))]) == []
    assert fired([file(690), *(file(1) for _ in range(95))]) == [((), "96 small files")], "too many to wait for that"


def test_files_that_compaction_has_left_do_not_count() -> None:
    """A table with buckets has a small file in each."""
    buckets = [file(10) for _ in range(16)]
    left = {each.path for each in buckets}
    assert compaction_due(buckets, TARGET, Compaction(), NOW, done_with=left) == []
    new = [file(10) for _ in range(12)]
    assert [due.rule for due in compaction_due([*buckets, *new], TARGET, Compaction(), NOW, done_with=left)] == [
        "12 small files"
    ]


# --- or so long after its first small file


def test_an_hour_after_the_first_small_file() -> None:
    assert fired([file(10, 59 * MINUTE), file(10)]) == []
    assert fired([file(10, HOUR), file(10)]) == [((), "2 small files, the first older than 1h")]


def test_how_long_can_be_set() -> None:
    assert fired([file(10, 5 * HOUR), file(10)], Compaction(every=6 * HOUR)) == []
    assert fired([file(10, 6 * HOUR), file(10)], Compaction(every=6 * HOUR)) == [
        ((), "2 small files, the first older than 6h")
    ]


def test_one_small_file_is_left_alone_however_old() -> None:
    assert fired([file(10, 1000 * HOUR), file(900, 1000 * HOUR)]) == []


def test_a_file_of_unknown_age_is_waited_for() -> None:
    unknown = DataFile("a.parquet", 10)
    assert fired([unknown, file(10)]) == []
    assert fired([unknown, *(file(10) for _ in range(11))]) == [((), "12 small files")]


# --- or when rows of its files are deleted


def test_more_than_a_tenth_of_the_rows_deleted() -> None:
    assert fired([file(900, rows=100, deleted=10)]) == []
    assert fired([file(900, rows=100, deleted=11)]) == [((), "more than 10% of the rows of one file are deleted")]
    many = [file(900, rows=100, deleted=50), file(900, rows=100, deleted=90), file(900, rows=100)]
    assert fired(many) == [((), "more than 10% of the rows of 2 files are deleted")]


def test_how_many_deleted_rows_can_be_set() -> None:
    assert fired([file(900, rows=100, deleted=49)], Compaction(deleted_rows=0.5)) == []
    assert fired([file(900, rows=100, deleted=51)], Compaction(deleted_rows=0.5)) == [
        ((), "more than 50% of the rows of one file are deleted")
    ]


def test_deleted_rows_that_are_not_known_call_for_nothing() -> None:
    assert fired([file(900), file(900, rows=0, deleted=0), file(900, rows=10)]) == []


# --- clustering


def test_what_is_new_is_clustered_once_it_is_old_enough() -> None:
    day = timedelta(days=1)
    files = [file(100, 3 * day), file(100, day)]
    assert [due.files for due in clustering_due(files, Clustering(), {}, NOW)] == [2]
    since: dict[Partition, datetime] = {(): NOW - 2 * day}
    (due,) = clustering_due(files, Clustering(), since, NOW)
    assert (due.files, due.bytes, due.rule) == (1, 100, "one file, 100 B, not clustered for 1d")
    assert clustering_due(files, Clustering(every=2 * day), since, NOW) == []
    assert clustering_due(files, Clustering(), {(): NOW}, NOW) == [], "all of it is clustered"


def test_partitions_are_clustered_by_themselves() -> None:
    day = timedelta(days=1)
    files = [file(100, 2 * day, day="mon"), file(100, 2 * day, day="tue"), file(100, HOUR, day="wed")]
    since: dict[Partition, datetime] = {(("day", "mon"),): NOW - day}
    assert [due.partition for due in clustering_due(files, Clustering(), since, NOW)] == [(("day", "tue"),)]


# --- the window


@pytest.mark.parametrize(
    ("window", "hour", "inside"),
    [
        (None, 12, True),
        ("01:00-05:00", 0, False),
        ("01:00-05:00", 1, True),
        ("01:00-05:00", 4, True),
        ("01:00-05:00", 5, False),
        ("22:00-04:00", 21, False),
        ("22:00-04:00", 22, True),
        ("22:00-04:00", 3, True),
        ("22:00-04:00", 4, False),
        ("20:00-24:00", 23, True),
        ("20:00-24:00", 0, False),
    ],
)
def test_a_window(window: str | None, hour: int, inside: bool) -> None:
    assert is_in_window(window, NOW.replace(hour=hour, minute=0)) is inside


def test_a_window_ends_to_the_minute() -> None:
    assert is_in_window("01:00-05:30", NOW.replace(hour=5, minute=29))
    assert not is_in_window("01:00-05:30", NOW.replace(hour=5, minute=30))


# --- what is done every so often


def test_every_so_often() -> None:
    assert rules.is_due_again(None, HOUR, NOW)
    assert not rules.is_due_again(NOW - 59 * MINUTE, HOUR, NOW)
    assert rules.is_due_again(NOW - HOUR, HOUR, NOW)


def test_statistics_are_outgrown() -> None:
    assert [rules.is_outgrown(1000, now) for now in (0, 665, 667, 1000, 1500, 1501)] == [
        True, True, False, False, False, True,
    ]  # fmt: skip
    assert not rules.is_outgrown(0, 0) and rules.is_outgrown(0, 1)


def test_partitions_in_the_history() -> None:
    partitions: list[Partition] = [(("day", "mon"), ("tenant", None)), (("day", "tue"), ("tenant", "a=b"))]
    assert rules.partitions_of_json(rules.partitions_json(partitions)) == partitions
    assert rules.partitions_of_json(rules.partitions_json([()])) == [()]
