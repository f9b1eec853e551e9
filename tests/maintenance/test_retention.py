"""`retain`: rows and dead letters go by their age; what tables have made of the rows stays, views follow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from headwater.core.errors import Code, UsageError
from headwater.core.model import CommitTag, Kind
from headwater.flows.ledger import Ledger
from headwater.maintenance import jobs
from headwater.maintenance.retention import old_rows
from headwater.query import gathered
from tests.hints.followed import follows
from tests.maintenance.lab import ROWS, Lab
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")

FORMATS = ["delta", *(pytest.param(format, marks=pytest.mark.full) for format in ("iceberg", "hudi", "paimon"))]
SECOND = "retain: {rows: 1s}"
TABLES = """\
tables:
  latest: {from: topic('events'), apply: {keys: [g], sequence_by: n}}
  doubled: {sql: "SELECT n, n * 2 AS d FROM stream(topic('events'))"}
  totals: {sql: "SELECT g, count(*) AS k FROM topic('events') GROUP BY g"}
"""


@pytest.fixture
def labs(tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    made: list[Lab] = []

    def make(format: str = "delta", topic: str = SECOND, more: str = TABLES) -> Lab:
        made.append(Lab.make(tmp_path / f"lake{len(made)}", format, topic, more))
        return made[-1]

    yield make
    for lab in made:
        lab.lake.close()


def numbers(lab: Lab, name: str) -> list[int]:
    return sorted(row["n"] for row in lab.lake.table(name).df().select("n").collect())


def of_age() -> None:
    time.sleep(1.2)


@follows("confirm with --yes")
@pytest.mark.parametrize("format", FORMATS)
def test_rows_go_by_age_and_tables_keep_what_they_have_made(labs: Callable[..., Lab], format: str) -> None:
    lab = labs(format)
    lab.feed(2)
    of_age()
    (due,) = lab.acted(lab.lake.maintain(["events"], dry_run=True), "rows")
    assert (due["outcome"], due["rule"], due["rows"]) == ("due", "rows older than 1s", 2 * ROWS)
    assert f"{2 * ROWS} rows" in headwater("maintain", "events", "--dry-run", "--project", lab.root).out
    assert lab.rows() == list(range(2 * ROWS)), "a dry run removes nothing"
    (done,) = lab.acted(lab.lake.maintain(["events"]), "rows")
    assert (done["outcome"], done["rows"]) == ("done", 2 * ROWS)
    newest = lab.lake.topic("events").history()[0].commit_tag
    assert newest is not None and newest.flow == "retention.topics.events"
    assert lab.rows() == []

    lab.feed(1)
    assert lab.rows() == list(range(2 * ROWS, 3 * ROWS))
    assert numbers(lab, "doubled") == list(range(3 * ROWS))
    assert {row["g"]: row["n"] for row in lab.lake.table("latest").df().collect()} == {"g0": 9, "g1": 10, "g2": 11}
    assert sum(row["k"] for row in lab.lake.table("totals").df().collect()) == 3 * ROWS
    assert lab.lake.view("sums").verify().equal
    files = lab.lake._warehouse.files
    epochs = {name: Ledger(files, f"tables.{name}").epoch().number for name in ("latest", "doubled", "totals")}
    assert set(epochs.values()) == {1}, "none of them has begun again"

    # A table that was behind gets rows that came and went meanwhile.
    lab.feed(1, views=False)
    of_age()
    assert lab.acted(lab.lake.maintain(["events"]), "rows")[0]["rows"] == 2 * ROWS
    lab.feed(1)
    assert numbers(lab, "doubled") == list(range(5 * ROWS))
    assert sum(row["k"] for row in lab.lake.table("totals").df().collect()) == 5 * ROWS
    assert lab.lake.view("sums").verify().equal

    # To rebuild one loses what the topic does not have any more.
    with pytest.raises(UsageError, match=r"removed by `retain.rows`") as caught:
        lab.lake.topic("events").replay("doubled")
    assert caught.value.code is Code.USAGE and caught.value.problem.hint == "confirm with --yes"
    assert numbers(lab, "doubled") == list(range(5 * ROWS))
    answer = headwater("topic", "replay", "events", "--into", "doubled", "--yes", "--project", lab.root)
    assert answer.code == 0, answer.err
    assert numbers(lab, "doubled") == list(range(4 * ROWS, 5 * ROWS))


@follows("rebuild it from what is left: `headwater flow rebuild {} --yes`")
def test_a_table_is_not_emptied_by_itself_when_the_topic_has_lost_rows(labs: Callable[..., Lab]) -> None:
    lab = labs(more=TABLES[: TABLES.index("  doubled")])
    lab.feed(2)
    of_age()
    assert lab.acted(lab.lake.maintain(["events"]), "rows")[0]["rows"] == 2 * ROWS
    lab.feed(1)
    for file in (lab.root / "landing").glob("[01].json"):
        file.unlink()  # the source has lost them too
    lab.lake.start_over("topics.events", empty=True)
    failed = {one.flow: one.error for one in lab.lake.run(once=True) if one.error is not None}
    assert failed.keys() == {"tables.latest"}, failed
    assert failed["tables.latest"].code is Code.SOURCE_CHANGED
    assert "`retain.rows` has removed from topics.events" in str(failed["tables.latest"])
    assert {row["g"]: row["n"] for row in lab.lake.table("latest").df().collect()} == {"g0": 9, "g1": 10, "g2": 11}
    lab.lake.start_over("tables.latest", empty=True)
    assert [one.error for one in lab.lake.run(once=True) if one.error is not None] == []
    assert numbers(lab, "latest") == [9, 10, 11]


@pytest.mark.parametrize("format", FORMATS)
def test_a_partition_goes_when_the_last_of_it_is_old(labs: Callable[..., Lab], format: str) -> None:
    lab = labs(format, "partition_by: [g], retain: {rows: 90d}", "")
    lab.feed(1, views=False)
    between = datetime.now(timezone.utc)
    (lab.root / "landing" / "more.json").write_text('{"n": 1000, "g": "g0"}\n', encoding="utf-8")
    lab.lake.run(["topics.events"], once=True)
    assert lab.acted(lab.lake.maintain(["events"]), "rows") == [], "nothing is so old"
    table = lab.lake._warehouse.existing(Kind.TOPIC, "events")
    assert old_rows(table, datetime(2020, 1, 1, tzinfo=timezone.utc)) is None
    old = old_rows(table, between)
    assert old is not None and old.rows == 2, "g0 got a row later, and stays whole"
    table.remove(old.where, CommitTag("retention.topics.events", 1, 1))
    assert lab.rows() == [0, 3, 1000]


def test_dead_letters_go_by_age(labs: Callable[..., Lab]) -> None:
    lab = labs("delta", "retain: {dead_letters: 1s}", "")
    lab.feed(1)
    (lab.root / "landing" / "bad.json").write_text('{"n": "x"\n{"n": 100, "g": "a"}\n', encoding="utf-8")
    lab.lake.run(once=True)
    assert len(lab.lake.dead_letters("events")) == 1
    of_age()
    assert [one["rows"] for one in lab.acted(lab.lake.maintain(["events"], dry_run=True), "dead_letters")] == [1]
    (done,) = lab.acted(lab.lake.maintain(["events"]), "dead_letters")
    assert (done["outcome"], done["rows"]) == ("done", 1)
    assert list(lab.lake.dead_letters("events")) == []
    assert lab.rows() == [*range(ROWS), 100], "rows stay"


def test_statistics_are_gathered_again_where_they_fit_no_more(
    labs: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "DAILY", timedelta(seconds=1))
    lab = labs("delta", "compact: {small_files: 100}", "")
    lab.feed(4, views=False)
    of_age()
    assert lab.acted(lab.lake.maintain(["events"]), "statistics") == [], "nobody has asked for any"
    lab.lake.topic("events").files.stats()
    lab.feed(1, views=False)
    assert lab.acted(lab.lake.maintain(["events"]), "statistics") == [], "they still fit"
    lab.feed(2, views=False)
    (done,) = lab.acted(lab.lake.maintain(["events"]), "statistics")
    assert (done["rule"], done["rows"]) == (f"statistics are of {4 * ROWS} rows, and it has {7 * ROWS}", 7 * ROWS)
    known = gathered.gathered(lab.lake._warehouse, Kind.TOPIC, "events")
    assert known is not None and known.rows == 7 * ROWS
    of_age()
    assert lab.acted(lab.lake.maintain(["events"]), "statistics") == []


def test_the_table_of_dead_letters_is_looked_after_too(labs: Callable[..., Lab]) -> None:
    lab = labs("delta", "compact: {small_files: 100}", "")
    for number in range(12):
        (lab.root / "landing" / f"bad{number}.json").write_text('{"n": "x"\n', encoding="utf-8")
        lab.lake.run(["topics.events"], once=True)
    found = {one.id for one in lab.lake.dead_letters("events")}
    assert len(found) == 12
    (pruned,) = lab.acted(lab.lake.maintain(), "prune")
    assert pruned["relation"] == "lake" and (pruned["files_before"], pruned["files_after"]) == (12, 1)
    assert {one.id for one in lab.lake.dead_letters("events")} == found
