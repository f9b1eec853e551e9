"""What a project file says of maintenance: windows, thresholds, what is kept; and what it can't say."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from headwater.core.units import parse_share, parse_window
from headwater.project.fingerprint import fingerprint
from headwater.project.load.loader import load_project
from tests.project.conftest import BASE, Find, Write, places


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("01:00-05:00", (time(1), time(5))),
        ("22:30-4:15", (time(22, 30), time(4, 15))),
        ("20:00 - 24:00", (time(20), time(0))),
    ],
)
def test_a_window(text: str, window: tuple[time, time]) -> None:
    assert parse_window(text) == window


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("1 to 5", "'1 to 5' is not a window; write two times of the day, in UTC: 01:00-05:00"),
        ("'01:00'", "'01:00' is not a window; write two times of the day"),
        ("01:00-25:00", "25:00 is no time of the day"),
        ("01:60-05:00", "01:60 is no time of the day"),
        ("01:00-24:30", "24:30 is no time of the day"),
        ("'05:00-05:00'", "'05:00-05:00' begins when it ends; leave `window` out for any time"),
        ("5", "should be two times of the day, in UTC: 01:00-05:00"),
        ("[1, 5]", "should be two times of the day, in UTC: 01:00-05:00"),
    ],
)
def test_a_window_that_is_none(find: Find, given: str, says: str) -> None:
    problems = find(BASE + f"maintenance:\n  window: {given}\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:4 maintenance.window")]
    assert says in problems[0].message


@pytest.mark.parametrize(("text", "parallel"), [("false", None), ("true", 1), ("{max_parallel: 3}", 3)])
def test_it_can_be_turned_off(write: Write, text: str, parallel: int | None) -> None:
    spec = load_project(write(BASE + f"maintenance: {text}\n"), env={}).settings.maintenance
    assert (spec and spec.max_parallel) == parallel


@pytest.mark.parametrize(("text", "share"), [("10%", 0.1), ("0.25", 0.25), ("12.5 %", 0.125), ("0", 0.0)])
def test_a_share(text: str, share: float) -> None:
    assert parse_share(text) == share


@pytest.mark.parametrize("given", ["2", "120%", "lots", "true", "-1", "'10 percent'"])
def test_a_share_that_is_none(find: Find, given: str) -> None:
    problems = find(BASE + f"topics: {{t: {{from: landing, compact: {{deleted_rows: {given}}}}}}}\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 topics.t.compact.deleted_rows")]


PROJECT = (
    BASE
    + """
defaults:
  topics: {compact: {small_files: 20}, retain: {dead_letters: 90d}}
topics:
  plain: {from: landing}
  own: {from: landing, compact: {every: 6h, target_file_size: 64MB}, retain: {versions: null, rows: 90d}}
  none: {from: landing, retain: null, compact: null, cluster: {by: [event_type], every: 6h}}
views:
  v: {sql: "SELECT count(*) AS n FROM topic('plain')", z_order_by: [n]}
"""
)


def test_nothing_of_it_has_to_be_said(write: Write) -> None:
    project = load_project(write(PROJECT), env={})
    plain, own, none, view = (*project.topics.values(), project.views["v"])
    assert (plain.compaction.small_files, plain.compaction.every) == (20, timedelta(hours=1))
    assert (plain.compaction.small_below, plain.compaction.deleted_rows) == (0.7, 0.1)
    assert (plain.retention.versions, plain.retention.rows) == (timedelta(days=30), None)
    assert plain.retention.dead_letters == timedelta(days=90)
    assert (own.compaction.every, own.compaction.target_file_size) == (timedelta(hours=6), 64 << 20)
    assert (own.retention.versions, own.retention.rows) == (None, timedelta(days=90)), "null: for ever"
    assert (none.compaction.small_files, none.retention.versions) == (12, timedelta(days=30))
    assert none.retention.dead_letters is None, "null takes a default away"
    assert (none.clustered_by, none.clustering.every) == (("event_type",), timedelta(hours=6))
    assert (view.clustered_by, view.clustering.every) == (("n",), timedelta(days=1))


def test_it_does_not_tell_definitions_apart(write: Write) -> None:
    """A view whose files are looked after in another way is not computed again."""
    text = BASE + "topics: {a: {from: landing}, b: {from: landing, compact: {every: 2h}, retain: {versions: 1d}}}\n"
    topics = load_project(write(text), env={}).topics
    assert fingerprint(topics["a"]) == fingerprint(topics["b"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topics: {t: {from: landing, z_order_by: a, cluster: {by: b}}}", "`cluster.by` and `z_order_by` name other"),
        ("tables: {t: {keys: [id], retain: {rows: 1d}}}", "`retain.rows` is for topics"),
        ("views: {t: {sql: select 1 as a, retain: {rows: 1d}}}", "`retain.rows` is for topics"),
        ("views: {t: {sql: select 1 as a, retain: {dead_letters: 1d}}}", "a view has none"),
    ],
)
def test_what_does_not_go_together(find: Find, text: str, says: str) -> None:
    problems = find(BASE + text + "\n")
    assert len(problems) == 1
    assert says in problems[0].message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("compact: 6h", "write `compact: {every: 6h}`"),
        ("retain: 30d", "write `retain: {versions: 30d}`"),
        ("cluster: customer_id", "write `cluster: {by: customer_id}`"),
    ],
)
def test_what_was_meant(find: Find, text: str, hint: str) -> None:
    (problem,) = find(BASE + f"topics: {{t: {{from: landing, {text}}}}}\n")
    assert problem.hint == hint
