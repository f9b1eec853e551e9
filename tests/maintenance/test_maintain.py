"""`headwater maintain` on real tables: what is due is done, nothing else, and no row changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Code, HeadwaterError, TransientError
from headwater.core.model import Kind
from headwater.core.spec import MaintenanceSpec
from headwater.core.state import HoldRecord, MaintenanceRecord
from headwater.formats.feed import close_feeds
from headwater.formats.spark_table import SparkTable
from headwater.maintenance.holds import Holds
from headwater.maintenance.run import LakeMaintenance
from headwater.maintenance.subject import MaintenanceAction
from headwater.runner.maintenance import RunnerMaintenance
from tests.faults.disks import disk
from tests.maintenance.lab import ROWS, Lab
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")

FORMATS = [
    "delta",
    *(pytest.param(format, marks=pytest.mark.full) for format in ("iceberg", "hudi", "paimon", "parquet")),
]
THREE = "compact: {small_files: 3}"


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(format: str = "delta", topic: str = THREE, more: str = "") -> Lab:
        made.append(Lab.make(tmp_path / f"lake{len(made)}", format, topic, more))
        return made[-1]

    yield make
    for lab in made:
        lab.lake.close()


@pytest.mark.parametrize("format", FORMATS)
def test_small_files_are_joined_and_views_see_nothing_of_it(labs: Callable[..., Lab], format: str) -> None:
    lab = labs(format)
    lab.feed(2)
    assert lab.acted(lab.lake.maintain(), "compact") == [], "two small files, and neither is an hour old"
    lab.feed(1)
    before = lab.files()
    assert before >= 3
    due = lab.lake.maintain(["events"], dry_run=True)
    assert [(one["outcome"], one["rule"]) for one in lab.acted(due, "compact")] == [("due", f"{before} small files")]
    assert lab.files() == before, "a dry run does nothing"
    assert {(hold.relation, hold.holder) for hold in due.holds} == {("topics.events", "flow views.sums")}

    (done,) = lab.acted(lab.lake.maintain(["events"]), "compact")
    assert (done["outcome"], done["files_before"], done["files_after"]) == ("done", before, 1)
    assert (done["rows"], bool(done["checksum"])) == (3 * ROWS, True)
    assert done["version_after"] != done["version_before"]
    assert lab.files() == 1
    assert lab.rows() == list(range(3 * ROWS))

    view = lab.lake.view("sums")
    assert view.refresh().refresh_type == "none"
    assert view.verify().equal
    lab.feed(1)
    assert view.verify().equal
    assert view.refresh().refresh_type in ("none", "incremental")
    assert lab.acted(lab.lake.maintain(["events"]), "compact") == [], "what was compacted is not compacted again"

    columns = ["relation", "action", "outcome", "rows", "files_before", "files_after"]
    history = lab.lake._warehouse.state.history(MaintenanceRecord, columns)
    assert ("topics.events", "compact", "done", 3 * ROWS, before, 1) in history


@pytest.mark.parametrize("format", FORMATS)
def test_versions_are_expired_but_for_those_that_are_needed(labs: Callable[..., Lab], format: str) -> None:
    """A label, a flow that is behind and an open query keep theirs, and are named."""
    lab = labs(format, "retain: {versions: 1s}, compact: {small_files: 1000}")
    lab.feed(1)
    lab.feed(2, views=False)
    topic = lab.lake.topic("events")
    held = {hold.version for hold in lab.lake.maintain(dry_run=True).holds}
    assert len(held) == 1, "the view has still to read from there"
    time.sleep(1.2)
    lab.lake.maintain(["events"])
    assert held <= {commit.version for commit in topic.history()}
    view = lab.lake.view("sums")
    view.refresh()
    assert view.verify().equal

    topic.tag("audit")
    state, latest = lab.lake._warehouse.state, topic.version
    assert latest is not None
    state.put_hold(HoldRecord(Kind.TOPIC, "events", latest, "a reader", time.time() + 3600, "one"))
    state.put_hold(HoldRecord(Kind.TOPIC, "events", 1, "one that was killed", time.time() - 1))
    lab.feed(2)
    holds = Holds.of(lab.lake._warehouse).on(Kind.TOPIC, "events")
    assert {hold.holder for hold in holds} == {"label audit", "a reader", "flow views.sums"}
    time.sleep(1.2)
    (done,) = lab.acted(lab.lake.maintain(["events"]), "expire") or [{"deleted_files": 0}]
    kept = {commit.version for commit in topic.history()}
    assert latest in kept and topic.df(latest).count() == 3 * ROWS
    assert lab.rows() == list(range(5 * ROWS))

    topic.untag("audit")
    state.drop_hold("one")
    lab.lake._warehouse.state.flush_history()
    time.sleep(1.2)  # it is looked for as often as versions are kept
    (done,) = lab.acted(lab.lake.maintain(["events"]), "expire")
    assert done["outcome"] == "done"
    with pytest.raises(HeadwaterError) as caught:
        topic.df(latest).count()
    assert caught.value.code is Code.NO_SUCH_VERSION
    assert lab.rows() == list(range(5 * ROWS))
    assert view.verify().equal


def test_an_open_query_holds_what_it_reads(labs: Callable[..., Lab]) -> None:
    lab = labs()
    lab.feed(1, views=False)
    state = lab.lake._warehouse.state
    for engine in ("duckdb", "spark"):
        result = lab.lake.sql("SELECT n FROM topic('events')", engine=engine)
        _until(lambda: [hold.version for hold in state.holds()] == [lab.lake.topic("events").version])
        (hold,) = state.holds()
        assert hold.holder.startswith("a query since 20")
        assert len(result.to_dicts()) == ROWS
        assert state.holds() == [], engine
    result = lab.lake.sql("SELECT n FROM topic('events')")
    _until(lambda: len(state.holds()) == 1)
    del result
    _until(lambda: state.holds() == [])


def test_a_stream_holds_what_it_goes_on_from(labs: Callable[..., Lab], tmp_path: Path) -> None:
    lab = labs("parquet", "retain: {versions: 1s}, compact: {small_files: 1000}")
    lab.feed(1, views=False)
    topic = lab.lake.topic("events")

    def streamed() -> None:
        stream = topic.read_stream(consumer="watch").writeStream.format("parquet").trigger(availableNow=True)
        stream.option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "out")).awaitTermination()

    streamed()
    close_feeds()
    read = topic.version
    lab.feed(2, views=False)
    (hold,) = lab.lake.maintain(["events"], dry_run=True).holds
    assert (hold.version, hold.holder) == (read, "stream watch")
    time.sleep(1.2)
    lab.lake.maintain(["events"])
    assert read in {commit.version for commit in topic.history()}
    streamed()
    close_feeds()
    assert sorted(row["n"] for row in lab.lake.spark.read.parquet(str(tmp_path / "out")).collect()) == lab.rows()


@pytest.mark.parametrize(
    "format", ["delta", *(pytest.param(f, marks=pytest.mark.full) for f in ("iceberg", "parquet"))]
)
def test_a_disk_that_is_full_in_the_middle(tmp_path: Path, format: str) -> None:
    with disk(tmp_path / "lake") as small:
        (tmp_path / "lake" / "warehouse").mkdir()
        lab = Lab.make(tmp_path / "project", format, THREE, "warehouse: ../lake/warehouse\n")
        with lab.lake:
            lab.feed(3, views=False)
            small.fill()
            (failed,) = lab.acted(lab.lake.maintain(["events"]), "compact")
            assert failed["outcome"] == "failed" and "No space left" in str(failed["error"])
            small.empty()
            assert lab.rows() == list(range(3 * ROWS))
            (done,) = lab.acted(lab.lake.maintain(["events"]), "compact")
            assert (done["outcome"], lab.files()) == ("done", 1)
            assert lab.rows() == list(range(3 * ROWS))


def test_a_conflict_yields_and_is_tried_again(labs: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> None:
    lab = labs()
    lab.feed(3, views=False)
    compact, tries = SparkTable.compact, []

    def conflicting(table: SparkTable, *arguments: Any, **named: Any) -> object:
        tries.append(1)
        if len(tries) < 3:
            raise TransientError(Code.COMMIT_FAILED, "another writer came first")
        return compact(table, *arguments, **named)

    monkeypatch.setattr(SparkTable, "compact", conflicting)
    (done,) = lab.acted(lab.lake.maintain(["events"]), "compact")
    assert (done["outcome"], len(tries), lab.files()) == ("done", 3, 1)


def test_what_fails_does_not_keep_the_others_from_theirs(
    labs: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = labs(more="  odd: {sql: 'SELECT n FROM events', refresh: {policy: incremental}, compact: {small_files: 3}}\n")
    lab.feed(3)
    compact = SparkTable.compact

    def failing(table: SparkTable, *arguments: Any, **named: Any) -> object:
        if "/topics/" in str(table.address):
            raise OSError(28, "No space left on device")
        return compact(table, *arguments, **named)

    monkeypatch.setattr(SparkTable, "compact", failing)
    report = lab.lake.maintain()
    outcomes = {one.relation: one.outcome for one in report.actions if one.action == "compact"}
    assert outcomes == {"topics.events": "failed", "views.odd": "done"} and report.failed
    (failed,) = [one for one in report.actions if one.outcome == "failed"]
    assert failed.error is not None and "No space left" in failed.error
    answer = headwater("maintain", "events", "--project", lab.root)
    assert answer.code == 1 and "No space left" in answer.err and "Traceback" not in answer.err
    monkeypatch.undo()
    assert lab.rows() == list(range(3 * ROWS))
    assert [one["outcome"] for one in lab.acted(lab.lake.maintain(["events"]), "compact")] == ["done"]


def test_a_relation_that_is_dropped_meanwhile_is_left_alone(
    labs: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = labs(more="  odd: {sql: 'SELECT n FROM events', refresh: {policy: incremental}, compact: {small_files: 3}}\n")
    lab.feed(3)
    files = SparkTable.files

    def dropping(table: SparkTable, *arguments: Any, **named: Any) -> object:
        if "/views/odd" in str(table.address):
            table.drop()
            lab.lake._warehouse.state.remove(Kind.VIEW, "odd")
        return files(table, *arguments, **named)

    monkeypatch.setattr(SparkTable, "files", dropping)
    report = lab.lake.maintain()
    assert not report.failed
    assert {one.relation for one in report.actions if one.action == "compact"} == {"topics.events"}


@pytest.mark.parametrize("most", [1, 2])
def test_so_many_relations_at_the_same_time(
    labs: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    often = "compact: {every: 1s}"
    lab = labs("delta", often, f"  odd: {{sql: 'SELECT n FROM events', {often}}}\n")
    lab.feed(1)
    now, seen, over, lock = [0], [0], threading.Event(), threading.Lock()

    def looking(work: LakeMaintenance, *_: object, **__: object) -> Iterator[MaintenanceAction]:
        with lock:
            now[0] += 1
            seen.append(now[0])
        over.wait(1)
        with lock:
            now[0] -= 1
        yield from ()

    monkeypatch.setattr(LakeMaintenance, "look", looking)
    settings = MaintenanceSpec(max_parallel=most)
    work = RunnerMaintenance(lab.lake._warehouse, settings, lab.lake.spark, frozenset(), lambda event: None)
    work.start()
    try:
        _until(lambda: len(seen) > 4)
    finally:
        over.set()
        work.end()
    assert max(seen) == most


def test_the_command(labs: Callable[..., Lab]) -> None:
    lab = labs()
    lab.feed(3)
    project = ("--project", lab.root)
    told = headwater("maintain", "events", "--dry-run", *project)
    assert told.code == 0 and "3 small files" in told.out and "flow views.sums" in told.out
    found = headwater("maintain", "topics.events", "--dry-run", "--json", *project).json
    assert (found["dry_run"], found["actions"][0]["rule"]) == (True, "3 small files")
    assert found["holds"][0]["relation"] == "topics.events"
    done = headwater("maintain", "--json", *project).json
    (compacted,) = [one for one in done["actions"] if one["action"] == "compact"]
    assert (compacted["relation"], compacted["files_after"], compacted["outcome"]) == ("topics.events", 1, "done")
    assert "nothing is due" in headwater("maintain", *project).err
    wrong = headwater("maintain", "evnts", *project)
    assert wrong.code == 2 and "did you mean 'events'?" in wrong.err
    assert headwater("maintain", "topics.nosuch", *project).code == 2


def test_partitions_are_compacted_by_themselves(labs: Callable[..., Lab]) -> None:
    lab = labs(topic="partition_by: [g], compact: {small_files: 3, every: 30d}")
    lab.feed(2)
    (lab.root / "landing" / "more.json").write_text('{"n": 1000, "g": "g0"}\n', encoding="utf-8")
    lab.lake.run(once=True)
    (done,) = lab.acted(lab.lake.maintain(["events"]), "compact")
    assert (done["partitions"], done["files_before"], done["files_after"]) == ([{"g": "g0"}], 3, 1)
    assert lab.files() == 1 + 2 * 2


def test_what_failed_in_the_runner_is_tried_later_and_later() -> None:
    from headwater.maintenance.subject import MaintenanceMemory

    memory, now = MaintenanceMemory(), datetime.now(timezone.utc)
    waits = []
    for _ in range(9):
        memory.failed("topics.a", "compact", now)
        wait = timedelta(0)
        while not memory.may_try("topics.a", "compact", now + wait):
            wait += timedelta(minutes=1)
        waits.append(wait // timedelta(minutes=1))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert memory.may_try("topics.a", "expire", now)
    memory.note("topics.a", "compact", now)
    assert memory.may_try("topics.a", "compact", now)


def _until(met: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.05)
