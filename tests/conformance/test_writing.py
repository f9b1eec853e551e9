"""Create, append, upsert, replace; and steps that are repeated."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import CommitTag
from headwater.core.spec import Layout
from headwater.formats.base import Capability
from tests.conformance.lab import PEOPLE, Lab, rows, schema
from tests.hints.followed import follows

ANN = (1, "Ann", Decimal("10.50"))
BOB = (2, "Bob", Decimal("-3.25"))
CYD = (3, None, None)

TYPES = (
    "t boolean, i1 tinyint, i2 smallint, i4 int, i8 bigint, f4 float, f8 double, n decimal(38,9), s string, "
    "b binary, d date, ts timestamp, a array<string>, m map<string,int>, st struct<x:int,y:struct<z:string>>"
)


def full_rows() -> list[tuple[Any, ...]]:
    """A row of values at their limits, a row of empty ones, a row of nulls."""
    full = (
        True, 127, -32768, 2**31 - 1, -(2**63), 1.5, float("nan"), Decimal("12345678901234567890.123456789"),
        "naïve \u0001 '\"` \U0001f600", b"\x00\xff", date(1969, 12, 31), datetime(2026, 3, 29, 1, 30, 0, 123456),
        ["", None, "x"], {"k": 1, "n": None}, (1, ("z",)),
    )  # fmt: skip
    empty = (
        False,
        0,
        0,
        0,
        0,
        0.0,
        -0.0,
        Decimal(0),
        "",
        b"",
        date(1, 1, 1),
        datetime(1970, 1, 1),
        [],
        {},
        (None, None),
    )
    nulls = (None,) * len(full)
    return [full, empty, nulls]


@pytest.mark.capability(Capability.APPEND)
def test_appended_rows_are_there(lab: Lab) -> None:
    table = lab.table()
    assert table.exists() and table.schema().names == ["id", "name", "amount"]
    assert rows(table.read()) == rows(lab.frame([]))
    table.append(lab.frame([ANN, BOB]))
    table.append(lab.frame([ANN, CYD]))
    assert rows(lab.open(table.address).read()) == rows(lab.frame([ANN, BOB, ANN, CYD]))


@pytest.mark.capability(Capability.APPEND)
def test_columns_go_by_name_and_missing_ones_are_null(lab: Lab) -> None:
    table = lab.table()
    table.append(lab.frame([("Ann", 1)], "name string, id int"))
    assert rows(table.read()) == rows(lab.frame([(1, "Ann", None)]))


@pytest.mark.capability(Capability.APPEND)
@follows("{} (evolve the table first)")
def test_an_unknown_column_is_refused_and_nothing_written(lab: Lab) -> None:
    table = lab.table()
    with pytest.raises(HeadwaterError) as caught:
        table.append(lab.frame([(1, "x")], "id int, nam string"))
    assert caught.value.code is Code.SCHEMA_MISMATCH and "did you mean 'name'" in str(caught.value)
    assert table.read().count() == 0
    if lab.fmt.can(Capability.ADD_COLUMNS):
        table.evolve(schema("id int, name string, amount decimal(12,2), nam string"))
        table.append(lab.frame([(1, "x")], "id int, nam string"))
        assert table.read().select("nam").collect()[0][0] == "x"


@pytest.mark.capability(Capability.APPEND)
def test_every_type_comes_back_as_it_went_in(lab: Lab) -> None:
    table = lab.table(TYPES)
    frame = lab.frame(full_rows(), TYPES)
    table.append(frame)
    assert rows(table.read()) == rows(frame)


@pytest.mark.capability(Capability.APPEND)
def test_names_with_dots_and_reserved_words(lab: Lab) -> None:
    ddl = "`a.b` int, `select` string, `Größe` double"
    table = lab.table(ddl)
    table.append(lab.frame([(1, "x", 2.0)], ddl))
    found = table.read()
    assert found.columns == ["a.b", "select", "Größe"] and rows(found) == rows(lab.frame([(1, "x", 2.0)], ddl))


@pytest.mark.capability(Capability.APPEND)
def test_creating_twice_is_refused(lab: Lab) -> None:
    table = lab.table()
    with pytest.raises(HeadwaterError) as caught:
        table.create(table.schema())
    assert caught.value.code is Code.ALREADY_EXISTS


@pytest.mark.capability(Capability.COMMIT_TAGS, given=[Capability.APPEND])
@pytest.mark.parametrize(
    "ddl", ["id int, name string, c double, day date", "id int, `a b` string, `c.d` double, day date"]
)
def test_a_table_that_is_made_with_its_first_rows(lab: Lab, ddl: str) -> None:
    first = lab.frame([(1, "x", 2.0, date(2026, 1, 1)), (2, None, None, None)], ddl)
    table, layout, commit_tag = lab.open(lab.address()), Layout(partition_by=("day",)), CommitTag("flow", 1, 0)
    lab.made.append(table)
    version = table.create_with(first, layout, commit_tag)
    assert rows(table.read()) == rows(first) and table.layout() == layout and table.version() == version
    assert table.schema().simpleString() == first.schema.simpleString()
    assert table.landed(commit_tag) == version == table.append(first, commit_tag)
    assert next(commit for commit in table.history() if commit.version == version).rows_added == 2
    with pytest.raises(HeadwaterError) as caught:
        table.create_with(first)
    assert caught.value.code is Code.ALREADY_EXISTS
    table.append(lab.frame([(3, "y", 1.0, None)], ddl), CommitTag("flow", 1, 1))
    assert table.read().count() == 3


@pytest.mark.capability(Capability.APPEND)
def test_folders_of_a_creation_that_was_killed_are_no_table(lab: Lab) -> None:
    whole, address = lab.table(), lab.address()
    name, other = (re.split(r"[./]", str(each))[-1] for each in (whole.address, address))
    [made] = [folder for folder in Path(lab.context.warehouse).rglob(name) if folder.is_dir()]
    for folder in (made, *made.rglob("*")):
        if folder.is_dir():
            Path(str(folder).replace(name, other)).mkdir()
    table = lab.open(address)
    assert not table.exists()
    table.create(lab.frame([]).schema)
    table.append(lab.frame([BOB]))
    assert rows(table.read()) == rows(lab.frame([BOB]))
    table.drop()


@pytest.mark.capability(Capability.APPEND)
def test_a_dropped_table_is_gone_and_can_be_made_again(lab: Lab) -> None:
    table = lab.table()
    table.append(lab.frame([ANN]))
    table.drop()
    again = lab.open(table.address)
    assert not again.exists()
    again.create(lab.frame([]).schema)
    again.append(lab.frame([BOB]))
    assert rows(again.read()) == rows(lab.frame([BOB]))


@pytest.mark.capability(Capability.UPSERT)
def test_upsert_inserts_updates_and_deletes_by_key(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([ANN, BOB, CYD]))
    new_bob = (2, "Bobby", None)
    table.upsert(
        lab.deletes([(*new_bob, False), (1, None, None, True), (4, "Dee", None, False), (9, None, None, True)])
    )
    assert rows(table.read()) == rows(lab.frame([new_bob, CYD, (4, "Dee", None)]))


@pytest.mark.capability(Capability.UPSERT)
def test_upsert_by_two_keys(lab: Lab) -> None:
    table = lab.table("a int, b string, v int", keys=["a", "b"])
    table.upsert(lab.frame([(1, "x", 1), (1, "y", 2), (2, "x", 3)], "a int, b string, v int"))
    table.upsert(lab.frame([(1, "y", 20), (2, "y", 4)], "a int, b string, v int"))
    assert rows(table.read()) == rows(
        lab.frame([(1, "x", 1), (1, "y", 20), (2, "x", 3), (2, "y", 4)], "a int, b string, v int")
    )


@pytest.mark.capability(Capability.REPLACE)
def test_replace_leaves_only_the_new_rows_and_may_read_the_old(lab: Lab) -> None:
    table = lab.table()
    table.append(lab.frame([ANN, BOB, CYD]))
    table.replace(table.read().where("id > 1"))
    assert rows(table.read()) == rows(lab.frame([BOB, CYD]))
    table.replace(lab.frame([]))
    assert table.read().count() == 0


# --- steps


@pytest.mark.capability(Capability.COMMIT_TAGS, given=[Capability.APPEND])
def test_a_repeated_append_is_one_append(lab: Lab) -> None:
    table = lab.table()
    first = CommitTag("topics.x/odd name's", 1, 0, {"offset": 10})
    assert table.landed(first) is None
    version = table.append(lab.frame([ANN]), first)
    again = lab.open(table.address)
    assert again.landed(first) == version == again.version()
    assert again.append(lab.frame([ANN]), first) == version
    second = CommitTag(first.flow, 1, 1, {"offset": 20})
    assert again.landed(second) is None
    assert again.append(lab.frame([BOB]), second) != version
    assert again.landed(first) is not None and again.landed(second) == again.version()
    assert rows(table.read()) == rows(lab.frame([ANN, BOB]))


@pytest.mark.capability(Capability.COMMIT_TAGS, given=[Capability.APPEND])
def test_a_new_epoch_counts_from_the_start(lab: Lab) -> None:
    table = lab.table()
    for step in range(3):
        table.append(lab.frame([ANN]), CommitTag("f", 1, step))
    fresh = CommitTag("f", 2, 0)
    assert table.landed(fresh) is None and table.landed(CommitTag("g", 1, 0)) is None
    table.append(lab.frame([BOB]), fresh)
    assert rows(table.read()) == rows(lab.frame([ANN, ANN, ANN, BOB]))


@pytest.mark.capability(Capability.COMMIT_TAGS, given=[Capability.APPEND])
def test_a_step_without_rows_lands_too(lab: Lab) -> None:
    table = lab.table()
    table.append(lab.frame([]), CommitTag("f", 1, 0))
    assert table.landed(CommitTag("f", 1, 0)) is not None
    assert rows(table.read()) == rows(lab.frame([]))


@pytest.mark.capability(Capability.COMMIT_TAGS, given=[Capability.UPSERT, Capability.REPLACE])
def test_a_repeated_upsert_or_replace_is_one(lab: Lab) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([ANN]), CommitTag("f", 1, 0))
    made = table.upsert(lab.frame([BOB]), CommitTag("f", 1, 1))
    assert table.landed(CommitTag("f", 1, 1)) == made
    assert table.upsert(lab.frame([CYD]), CommitTag("f", 1, 1)) == made
    assert rows(table.read()) == rows(lab.frame([ANN, BOB]))
    replaced = table.replace(lab.frame([CYD]), CommitTag("f", 1, 2))
    assert table.replace(lab.frame([ANN]), CommitTag("f", 1, 2)) == replaced == table.landed(CommitTag("f", 1, 2))
    assert rows(table.read()) == rows(lab.frame([CYD]))


@pytest.mark.capability(Capability.POSITIONS, given=[Capability.COMMIT_TAGS])
def test_a_commit_tells_its_step_and_positions(lab: Lab) -> None:
    table = lab.table()
    positions = {"kafka": {"0": 17, "1": 4}, "note": 'it\'s "quoted" \\ – ü'}
    version = table.append(lab.frame([ANN, BOB]), CommitTag("topics.orders", 3, 7, positions))
    commit = table.history()[0]
    assert (commit.version, commit.rows_added, commit.commit_tag) == (
        version,
        2,
        CommitTag("topics.orders", 3, 7, positions),
    )


@pytest.mark.capability(Capability.COMMIT_TAGS, given=[Capability.APPEND])
def test_history_names_the_step_newest_first(lab: Lab) -> None:
    table = lab.table(PEOPLE)
    made = [table.append(lab.frame([ANN]), CommitTag("f", 1, step)) for step in range(3)]
    told = [commit for commit in table.history() if commit.commit_tag is not None]
    assert [commit.version for commit in told] == made[::-1]
    assert [commit.commit_tag.step for commit in told if commit.commit_tag] == [2, 1, 0]
    assert [commit.rows_added for commit in told] == [1, 1, 1]
    assert told[0].committed_at >= told[-1].committed_at
    assert table.history(limit=1)[0].version == table.version()
