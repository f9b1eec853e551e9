"""Which records a topic ingests."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.errors import UsageError
from headwater.ingest.selection import select
from tests.hints.followed import follows
from tests.ingest.lab import functions_of, interpreted, positions, records, topic

PAYLOAD = "event_type string, tenant_id string, amount decimal(12,2), customer struct<tier: string>, `unit price` int"
EVENTS: list[dict[str, Any] | str] = [
    {"event_type": "OrderPlaced", "tenant_id": "a", "amount": 5, "customer": {"tier": "gold"}, "unit price": 1},
    {"event_type": "OrderShipped", "tenant_id": "test-b", "amount": 50},
    {"event_type": "PaymentTaken", "tenant_id": "a", "amount": 500, "customer": {"tier": "basic"}},
    "no json",
    {"amount": 7},
]
BAD = "0003"


CASES: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3, 4]),
    ({"include_events": ["OrderPlaced", "PaymentTaken"]}, [0, 2, 3]),
    ({"exclude_events": ["OrderPlaced"]}, [1, 2, 3, 4]),
    ({"filter": "NOT startswith(tenant_id, 'test-')"}, [0, 2, 3]),
    ({"filter": "Amount > 10 AND EVENT_TYPE LIKE 'Order%'"}, [1, 3]),
    ({"filter": "customer.tier = 'gold'"}, [0, 3]),
    ({"filter": "payload.customer.tier = 'basic' AND _headers['trace'] = 't2'"}, [2, 3]),
    ({"filter": "`unit price` = 1"}, [0, 3]),
    ({"filter": "not_yet IS NULL AND customer.not_yet.deeper IS NULL AND payload.never.seen IS NULL"}, [0, 1, 2, 3, 4]),
    ({"filter": "not_yet = 3 OR new.deep.key = 'x' OR amount = 5"}, [0, 3]),
    ({"filter": "exists(array(amount), x -> x > 100)", "exclude_events": ["OrderPlaced"]}, [2, 3]),
    ({"filter": "large"}, [1, 2, 3]),
    ({"filter": "traced"}, [0, 3]),
]
CODE = """\
from headwater import Event, filter

@filter
def large(event: Event):
    return event["amount"] > 10

@filter("traced")
def by_trace(event):
    return event.headers["trace"].isin("t0", "t3")
"""


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    return interpreted(spark)


def test_what_is_kept(quick: SparkSession, tmp_path: Path) -> None:
    functions = functions_of(tmp_path, CODE)
    df, payload = records(quick, PAYLOAD, EVENTS)
    frames = [select(df, topic(**keys), functions, payload) for keys, _ in CASES]
    assert {tuple(frame.columns) for frame in frames} == {tuple(df.columns)}
    numbered = [frame.select(F.lit(n).alias("n"), "_position") for n, frame in enumerate(frames)]
    kept: dict[int, list[int]] = {n: [] for n in range(len(CASES))}
    for row in reduce(DataFrame.unionAll, numbered).orderBy("n", "_position").collect():
        kept[row["n"]].append(int(row["_position"]))
    assert kept == {n: wanted for n, (_, wanted) in enumerate(CASES)}


def test_names_in_a_session_that_minds_case(spark: SparkSession) -> None:
    session = interpreted(spark)
    session.conf.set("spark.sql.caseSensitive", "true")
    df, payload = records(session, "event_type string, a int, A int", [{"event_type": "X", "a": 1, "A": 2}])
    taken = [select(df, topic(filter=c), (), payload) for c in ("a = 1 AND A = 2", "EVENT_TYPE = 'X'", "A = 1")]
    assert [positions(one) for one in taken] == [["0000"], ["0000"], []]


def test_a_misfit_of_a_type_that_is_left_out_is_left_out(quick: SparkSession) -> None:
    """Else every topic of a source would get the dead letters of all the others."""
    df, payload = records(quick, PAYLOAD, EVENTS)
    cast_failure = F.struct(F.lit("schema").alias("reason"), F.lit("x").alias("message"))
    df = df.withColumn("_problem", F.coalesce("_problem", cast_failure))
    assert positions(select(df, topic(include_events=["OrderPlaced"]), (), payload)) == ["0000", BAD, "0004"]
    assert positions(select(df, topic(filter="amount > 100"), (), payload)) == ["0000", "0001", "0002", BAD, "0004"]


def test_events_without_a_type(quick: SparkSession) -> None:
    df, payload = records(quick, "amount int", [{"amount": 1}, "no json"])
    with pytest.raises(UsageError) as caught:
        select(df, topic(include_events=["A"]), (), payload)
    assert "columns: {type: kind}" in str(caught.value)
    assert positions(select(df, topic(exclude_events=["A"]), (), payload)) == ["0000", "0001"]


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("tenant_idd = 'a'", "did you mean 'tenant_id'? A key of the payload is payload.tenant_idd"),
        ("_header['x'] = 'a'", "did you mean '_headers'?"),
        ("event_date = '2026-01-01'", "write date(event_timestamp)"),
        ("amount >", "INVALID_SQL"),
        ("upper(amount)", "INVALID_SQL"),
        ("nothing_like_it(amount)", "nothing_like_it"),
    ],
)
def test_a_filter_that_can_not_be(quick: SparkSession, condition: str, says: str) -> None:
    df, payload = records(quick, "amount int", [{"amount": 1}])
    with pytest.raises(UsageError) as caught:
        select(df, topic(filter=condition), (), payload)
    assert str(caught.value.code) == "INVALID_SQL"
    assert says in str(caught.value)


@follows('a key of the payload is event["{}"]; {}', here=False)
def test_filter_functions_that_can_not_be(quick: SparkSession, tmp_path: Path) -> None:
    code = (
        "from headwater import filter\n"
        "@filter\ndef raises(event):\n    return event.amnt > 1\n"
        "@filter\ndef no_column(event):\n    return True\n"
        '@filter\ndef no_condition(event):\n    return event["amount"] + 1\n'
        '@filter\ndef in_python(event: dict):\n    return event["amount"] > 1\n'
        '@filter\ndef right(event):\n    return event["amount"] >= 1\n'
    )
    df, payload = records(quick, "amount int", [{"amount": 1}])
    functions = functions_of(tmp_path, code)
    for name, line, says in [
        ("raises", 4, 'a key of the payload is event["amnt"]'),
        ("no_column", 5, "returned bool"),
        ("no_condition", 8, "boolean"),
        ("in_python", 11, "Column expressions"),
    ]:
        with pytest.raises(UsageError) as caught:
            select(df, topic(filter=name), functions, payload)
        assert says in str(caught.value).replace("BOOLEAN", "boolean")
        assert caught.value.problem.where is not None
        assert str(caught.value.problem.where).endswith(f"shop.py:{line}")
    assert select(df, topic(filter="right"), functions, payload).count() == 1
