"""Which files are ingested and when; what happens to files that change, vanish, are broken, or are done with."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.storage import Files
from headwater.sources.files import log as file_log
from headwater.sources.files.log import FileBatch, FileLog, InputFile
from headwater.spark.session import fork
from tests.hints.followed import follows
from tests.sources.landing import Landing, put


def line(n: int) -> str:
    return f'{{"n": {n}}}\n'


def numbers(landing: Landing) -> list[int]:
    return sorted(row["_event"]["n"] for row in landing.take() if row["_event"] is not None)


def test_steps_are_bounded_and_frozen_ends_stay(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"max_files": 3, "max_bytes": "20B"})
    for n in range(4):
        landing.put(**{f"{n}_json": line(n)})
        os.utime(landing.folder / f"{n}.json", (1000 - n, 1000 - n))
    landing.put(large_json=line(9) * 5)
    first = landing.reader.next(None)
    assert first is not None and (first.bytes, first.full) == (18, True)
    lag = landing.reader.lag(None)
    assert lag is not None and (lag.bytes, lag.detail["files"]) == (36 + 45, 5)
    landing.reader.freeze()
    landing.put(late_json=line(7))
    assert [numbers(landing) for _ in range(3)] == [[2, 3], [0, 1], [9] * 5]
    assert landing.fix_range() is None
    landing.reader = landing.restarted()
    assert numbers(landing) == [7]


def test_globs_patterns_depth_and_single_files(tmp_path: Path, spark: SparkSession) -> None:
    put(
        tmp_path / "landing",
        {f"{name}": line(n) for n, name in enumerate(["a1/x.json", "a2/deep/y.json", "b1/x.json", "z.json", "z.txt"])},
    )
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({"path": "landing/a*"}, [0, 1]),
        ({"path": "landing/a*", "recursive": False}, [0]),
        ({"path": "landing/{a1,b1}/*.json"}, [0, 2]),
        ({"path": "landing/**/[xy].json"}, [0, 1, 2]),
        ({"path": "landing", "recursive": False, "pattern": "*.json"}, [3]),
        ({"path": "landing/z.txt"}, [4]),
    ]
    for options, expected in cases:
        landing = Landing(tmp_path, spark, options)
        found = sorted(file.path for file in landing.reader._folder.look())
        names = [["a1/x.json", "a2/deep/y.json", "b1/x.json", "z.json", "z.txt"][n] for n in expected]
        assert found == names, options
    assert numbers(landing) == [4]


def test_young_files_wait(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"min_age": "1h"})
    landing.put(old_json=line(1), young_json=line(2))
    os.utime(landing.folder / "old.json", (1000, 1000))
    assert numbers(landing) == [1]
    assert landing.fix_range() is None
    os.utime(landing.folder / "young.json", (2000, 2000))
    assert numbers(landing) == [2]


def test_a_look_passes_by_what_has_not_changed(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    put(landing.folder, {"a/1.json": line(1), "b/2.json": line(2)})
    for folder in ("a", "b", "."):
        os.utime(landing.folder / folder, (1000, 1000))
    assert numbers(landing) == [1, 2]
    assert [file.path for file in landing.reader._folder.look(everywhere=False)] == []
    put(landing.folder, {"b/3.json": line(3)})
    assert numbers(landing) == [3]


FAILING = pytest.param(
    "fail",
    marks=follows("put it back as it was, or set `on_change: reload` to take it in again, or `warn` to leave it"),
)


@pytest.mark.parametrize("policy", ["warn", "reload", FAILING])
def test_a_file_that_changed(policy: str, tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"on_change": policy})
    landing.put(a_json=line(1))
    assert numbers(landing) == [1]
    landing.put(a_json=line(1) + line(2))
    landing.reader = landing.restarted()
    if policy == "fail":
        with pytest.raises(HeadwaterError, match=r"landing/a.json has changed .*on_change") as caught:
            landing.fix_range()
        assert caught.value.code is Code.SOURCE_FILE_CHANGED
        landing.options["on_change"] = "reload"
        landing.reader = landing.restarted()
        assert numbers(landing) == [1, 2]
    elif policy == "warn":
        assert landing.fix_range() is None
        lag = landing.reader.lag(landing.position)
        assert lag is not None and lag.detail["changed"] == 1
    else:
        assert numbers(landing) == [1, 2]
        assert landing.fix_range() is None


@follows("put it back, or set `on_missing: skip` to keep a dead letter and go on")
def test_a_file_that_vanished(tmp_path: Path, spark: SparkSession) -> None:
    for policy in ("fail", "skip"):
        landing = Landing(tmp_path / policy, spark, {"on_missing": policy})
        landing.put(a_json=line(1), b_json=line(2))
        end = landing.fix_range()
        (landing.folder / "a.json").unlink()
        if policy == "fail":
            with pytest.raises(HeadwaterError, match=r"a.json vanished .*on_missing") as caught:
                landing.records(end)
            assert caught.value.code is Code.SOURCE_FILE_MISSING
            landing.put(a_json=line(1))
            assert landing.records(end).count() == 2
        else:
            rows = landing.take()
            assert [(row["_file_path"], row["_problem"] and row["_problem"]["reason"]) for row in rows] == [
                ("a.json", "decode"),
                ("b.json", None),
            ]


def test_a_broken_file_does_not_stop_the_others(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"after": "delete"})
    landing.put(a_json=line(1), b_json_gz=b"", c_json=line(3))
    broken = gzip.compress(os.urandom(20_000))[:5_000]
    put(landing.folder, {"b.json.gz": broken})
    rows = landing.take()
    assert [(row["_file_path"], row["_event"] and row["_event"]["n"]) for row in rows] == [
        ("a.json", 1), ("b.json.gz", None), ("c.json", 3)
    ]  # fmt: skip
    letter = rows[1]
    assert (letter["_position"], bytes(letter["_raw"])) == ("000000000001/b.json.gz#", b"")
    assert letter["_problem"]["message"] == "the file can't be read: Truncated compressed stream"
    assert [file.name for file in landing.folder.iterdir()] == ["b.json.gz"], "what is nowhere else is kept"
    landing.reader = landing.restarted()
    assert landing.fix_range() is None


def test_positions_do_not_depend_on_the_machine(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    put(landing.folder, {f"{n}.json": line(n) * (3 + n) for n in range(8)})
    put(landing.folder, {"large.json": ('{"pad": "' + "x" * 1000 + '"}\n') * 9_000})
    end = landing.fix_range()
    first = landing.records(end).select("_position", "_raw").collect()
    assert len({row[0] for row in first}) == len(first) == sum(range(3, 11)) + 9_000
    other = fork(spark)
    other.conf.set("spark.sql.files.maxPartitionBytes", str(5 << 20))
    other.conf.set("spark.sql.files.minPartitionNum", "7")
    landing.spark = other
    again = landing.restarted().read(None, end).select("_position", "_raw").collect()
    assert sorted(again) == sorted(first)


@pytest.mark.parametrize("after", ["archive", "delete"])
def test_cleaning_up_after_the_commit(after: str, tmp_path: Path, spark: SparkSession) -> None:
    options = {"after": after} | ({"archive_to": "done"} if after == "archive" else {})
    landing = Landing(tmp_path, spark, options)
    for round in (1, 2):
        put(landing.folder, {"sub/a.json": line(round)})
        end = landing.fix_range()
        assert landing.records(end).count() == 1 and (landing.folder / "sub/a.json").exists()
        landing.reader = landing.restarted()  # the commit landed, and then the process died
        landing.reader.committed(end)
        landing.reader.committed(end)
        landing.position = end
        assert not (landing.folder / "sub/a.json").exists()
    archived = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("done/**/*.json*"))
    assert archived == (["done/sub/a.json", "done/sub/a.json.000000000002"] if after == "archive" else [])


@follows("name a folder next to it, or one whose name begins with `_`")
def test_what_cannot_be_cleaned_up_is_a_warning(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "done").write_text("not a folder")
    landing = Landing(tmp_path, spark, {"after": "archive", "archive_to": "done"})
    landing.put(a_json=line(1))
    assert numbers(landing) == [1]
    assert (landing.folder / "a.json").exists() and landing.fix_range() is None
    with pytest.raises(HeadwaterError, match="lies in the folder that is ingested"):
        Landing(tmp_path, spark, {"after": "archive", "archive_to": "landing/done"})
    for number, archive in enumerate(("landing/_done", "beside")):
        other = Landing(tmp_path / str(number), spark, {"after": "archive", "archive_to": archive})
        other.put(a_json=line(1))
        assert numbers(other) == [1]


@follows("make it, or correct `path`")
def test_a_missing_folder_may_come(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"path": "nowhere"})
    with pytest.raises(TransientError, match=r"headwater.yml:3.* there is no folder .*nowhere"):
        landing.fix_range()
    put(tmp_path / "nowhere", {"a.json": line(1)})
    assert numbers(landing) == [1]


def test_the_log_of_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "TIERS", (3, 9))
    notes = Files(str(tmp_path))
    log = FileLog(notes)
    for n in range(1, 12):
        assert log.add(FileBatch((InputFile(f"{n}.json", n, n),), 100)) == n
    assert sorted(entry.name for entry in notes.list("files")) == [
        "000000000001-000000000009.json",
        "000000000010-000000000010.json",
        "000000000011-000000000011.json",
    ]
    log.tell(4, {"4.json": "broken"})
    again = FileLog(notes)
    assert (again.last, len(again), "7.json" in again, "12.json" in again) == (11, 11, True, False)
    assert again.batch(4) == FileBatch((InputFile("4.json", 4, 4),), 100, {"4.json": "broken"})
    assert again.is_same(InputFile("5.json", 5, 5)) and not again.is_same(InputFile("5.json", 5, 6))
    assert [batch.files[0].path for batch in again.after(9)] == ["10.json", "11.json"]
    notes.write_atomic("files/000000000010-000000000010.json", "{broken")
    with pytest.raises(HeadwaterError, match="can't be read") as caught:
        FileLog(notes)
    assert caught.value.code is Code.LEDGER_CORRUPT


def test_looking_gets_slower_as_looking_takes_longer(tmp_path: Path, spark: SparkSession) -> None:
    import threading

    landing = Landing(tmp_path, spark)
    landing.reader._look_took = 0.1
    begun = time.monotonic()
    landing.reader.wait(threading.Event(), 0.0)
    assert time.monotonic() - begun >= 0.4
