"""A lake that an earlier Headwater made, whose process was killed in the middle of a step of every kind of flow, opens
and goes on: the step that was begun is done once, and the next one follows it. It was made in another folder."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from tests.recovery.older_lakes import KILLED, ROWS, copy, land, rows_of

pytestmark = pytest.mark.usefixtures("spark")

OLDER = Path(__file__).parent / "older"
"""Made by `tests/recovery/older_lakes.py` with the code of c571b53."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lake_that_was_killed_in_the_middle_of_every_flow_goes_on(when: str, tmp_path: Path) -> None:
    with tarfile.open(OLDER / f"{when}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    with Lake.open(tmp_path) as lake:
        run(lake, tmp_path)
        check(lake, files=2)
        land(tmp_path, 2)
        run(lake, tmp_path)
        check(lake, files=3)


def run(lake: Lake, root: Path) -> None:
    reports = lake.run(once=True)
    failed = {report.flow: report.error for report in reports if report.error}
    assert not failed, failed
    copy(lake, root)


def check(lake: Lake, files: int) -> None:
    rows = [row for file in range(files) for row in rows_of(file)]
    numbers = [row["n"] for row in rows]
    late = [file * ROWS for file in range(2, files)]
    found = {
        "more": _column(lake.topic("more"), "n"),
        "copied": _column(lake.topic("copied"), "n"),
        "odd": _column(lake.table("odd"), "n"),
        "timely": _column(lake.table("timely"), "n"),
        "shouted": _column(lake.table("shouted"), "v"),
        "first": _column(lake.view("first"), "n"),
    }
    assert found == {
        "more": Counter(numbers),
        "copied": Counter(numbers),
        "odd": Counter(n for n in numbers if n % 2),
        "timely": Counter(n for n in numbers if n != 7 and n not in late),
        "shouted": Counter(f"V{n}" for n in numbers),
        "first": Counter(n for n in numbers if n > 2),
    }
    assert {row.id: row.n for row in lake.table("latest").df().collect()} == {n % 3: n for n in numbers}
    of = {id: [n for n in numbers if n % 3 == id] for id in range(3)}
    for relation in (lake.table("totals"), lake.view("sums")):
        sums = {row[0]: tuple(row[1:]) for row in relation.df().collect()}
        assert sums == {id: (len(values), sum(values)) for id, values in of.items()}, relation.name
    assert [tuple(row) for row in lake.table("colours").df().collect()] == [("red", files - 1)]
    assert lake.view("sums").verify().equal and lake.view("first").verify().equal
    assert len(lake.dead_letters("tables.timely", limit=100)) == len(late)
    for flow in (*KILLED, "topics.copied"):
        kind, name = flow.split(".")
        relation = {"topics": lake.topic, "tables": lake.table, "views": lake.view}[kind](name)
        tags = [commit.commit_tag for commit in relation.history() if commit.commit_tag is not None]
        steps = sorted((tag.epoch, tag.step) for tag in tags)
        first = 1 if flow == "views.first" else 0  # which was not built by the first run
        assert steps == [(1, step) for step in range(files - first)], f"{flow}: {steps}"


def _column(relation: object, name: str) -> Counter[object]:
    return Counter(row[name] for row in relation.df().select(name).collect())  # type: ignore[attr-defined]
