"""Time travel, signed changes, streams of both."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import Version
from headwater.formats.base import Capability
from headwater.formats.spark_table import SparkTable
from tests.conformance.lab import PEOPLE, Lab, difference, rows, weighed

ANN = (1, "Ann", Decimal("10.50"))
BOB = (2, "Bob", Decimal("-3.25"))


@pytest.mark.capability(Capability.TIME_TRAVEL, given=[Capability.APPEND])
def test_any_version_can_be_read_again(lab: Lab) -> None:
    table = lab.table()
    first = table.append(lab.frame([ANN]))
    between = _now_is_past(table)
    second = table.append(lab.frame([BOB]))
    assert rows(table.read(first)) == rows(lab.frame([ANN]))
    assert rows(table.read(second)) == rows(lab.frame([ANN, BOB]))
    assert rows(table.read(between)) == rows(lab.frame([ANN]))
    assert table.version_at(between) == first and table.version_at(datetime.now(timezone.utc)) == second
    for missing in (987_654_321, datetime(2001, 1, 1, tzinfo=timezone.utc)):
        with pytest.raises(HeadwaterError) as caught:
            table.read(missing)
        assert caught.value.code is Code.NO_SUCH_VERSION


@pytest.mark.capability(Capability.TIME_TRAVEL, given=[Capability.APPEND])
def test_a_frame_stays_at_the_version_it_was_read_at(lab: Lab) -> None:
    table = lab.table()
    table.append(lab.frame([ANN]))
    before = table.read()
    table.append(lab.frame([BOB]))
    assert rows(before.select("*")) == rows(lab.frame([ANN]))


@pytest.mark.capability(Capability.CHANGES, given=[Capability.APPEND])
def test_changes_of_appends_between_any_two_versions(lab: Lab) -> None:
    table = lab.table()
    made = [table.append(lab.frame([ANN] * n + [(n, "x", None)])) for n in range(1, 4)]
    _all_pairs_exact(table, made)


@pytest.mark.capability(Capability.CHANGES, given=[Capability.UPSERT])
def test_changes_of_upserts_and_deletes_between_any_two_versions(lab: Lab, seed: int) -> None:
    table = lab.table(keys=["id"])
    _all_pairs_exact(table, _random_upserts(lab, table, seed, 4))


@pytest.mark.capability(Capability.CHANGES, given=[Capability.UPSERT, Capability.REPLACE])
def test_changes_over_a_replace(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    made = [table.upsert(lab.frame([ANN, BOB])), table.replace(lab.frame([BOB, (3, "Cyd", None)]))]
    made.append(table.upsert(lab.deletes([(2, None, None, True), (4, "Dee", None, False)])))
    _all_pairs_exact(table, made)


@pytest.mark.capability(Capability.CHANGES_MERGE_ON_READ, given=[Capability.CHANGES, Capability.UPSERT])
def test_changes_of_a_merge_on_read_table(lab: Lab, seed: int) -> None:
    assert lab.fmt.merge_on_read, "no options make such a table"
    table = lab.table(keys=["id"], options=dict(lab.fmt.merge_on_read))
    _all_pairs_exact(table, _random_upserts(lab, table, seed, 3))


@pytest.mark.capability(Capability.CHANGES, given=[Capability.ADD_COLUMNS])
def test_changes_over_an_added_column(lab: Lab) -> None:
    table = lab.table()
    first = table.append(lab.frame([ANN]))
    table.evolve(lab.frame([], f"{PEOPLE}, extra string").schema)
    second = table.append(lab.frame([(*BOB, "e")], f"{PEOPLE}, extra string"))
    assert weighed(table.changes(first, second)) == {repr((*BOB, "e")): 1}
    assert weighed(table.changes(None, second)) == {repr((*ANN, None)): 1, repr((*BOB, "e")): 1}


def _random_upserts(lab: Lab, table: SparkTable, seed: int, commits: int) -> list[Version]:
    """Keys that come, change, go and come back, in every commit of a few rows."""
    rng = random.Random(seed)
    made = [table.upsert(lab.frame([(i, f"n{i}", Decimal(i)) for i in range(6)]))]
    for n in range(commits - 1):
        chosen = rng.sample(range(9), 5)
        batch = [
            (i, f"c{n}" if rng.random() < 0.8 else None, Decimal(rng.randint(0, 9)), rng.random() < 0.4) for i in chosen
        ]
        made.append(table.upsert(lab.deletes(batch)))
    return made


def _all_pairs_exact(table: SparkTable, versions: list[Version]) -> None:
    states = {version: rows(table.read(version)) for version in versions}
    for i, start in enumerate(versions):
        for end in versions[i:]:
            expected = difference(states[start], states[end])
            assert weighed(table.changes(start, end)) == expected, f"changes({start}, {end})"
    last = versions[-1]
    assert weighed(table.changes(None, last)) == states[last]


def _now_is_past(table: SparkTable) -> datetime:
    """A moment after the latest commit and before any to come."""
    return table.history(limit=1)[0].committed_at + timedelta(microseconds=500)
