"""Events of old versions, lifted."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import UsageError
from headwater.ingest.upcast import upcast
from tests.ingest.lab import functions_of, interpreted, records, topic

PAYLOAD = "event_type string, event_version bigint, price decimal(10,2), quantity int, total decimal(20,2)"
EVENTS: list[dict[str, Any] | str] = [
    {"event_type": "OrderPlaced", "price": 2.50, "quantity": 4},
    {"event_type": "OrderPlaced", "event_version": 1, "price": 1.25, "quantity": 2},
    {"event_type": "OrderPlaced", "event_version": 2, "total": 7},
    {"event_type": "OrderPlaced", "event_version": 3, "total": 8},
    {"event_type": "Other", "price": 9},
    "no json",
]
COLUMNS = """\
from pyspark.sql import functions as F
from headwater import Event, upcaster

@upcaster("OrderPlaced", from_version=1)
def with_total(event):
    return {**event, "total": event["price"] * event["quantity"], "price": None}

@upcaster("OrderPlaced", from_version=2)
def with_currency(event: Event):
    return {"currency": F.lit("EUR"), "buyer": F.struct(event["customer"]["name"].alias("name"), F.lit(1).alias("n"))}
"""
PYTHON = """\
from typing import TypedDict
from headwater import upcaster

class Buyer(TypedDict):
    n: int

class Changes(TypedDict, total=False):
    currency: str
    buyer: Buyer

@upcaster("OrderPlaced", from_version=1)
def with_total(payload: dict) -> dict:
    payload["total"] = payload.pop("price") * payload["quantity"]
    return payload

@upcaster("OrderPlaced", from_version=2)
def with_currency(payload: dict) -> Changes:
    assert payload["never_seen"] is None
    return {"currency": "EUR", "buyer": {"n": 1}}
"""
MIXED = PYTHON.split("@upcaster")[0] + "@upcaster" + PYTHON.split("@upcaster")[1] + COLUMNS.split("\n\n")[0] + "\n\n"
MIXED += "@upcaster" + COLUMNS.split("@upcaster")[2]


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    return interpreted(spark)


@pytest.mark.parametrize("code", [COLUMNS, PYTHON, MIXED], ids=["columns", "python", "mixed"])
def test_a_chain(quick: SparkSession, tmp_path: Path, code: str) -> None:
    df, payload = records(quick, PAYLOAD, EVENTS)
    lifted, schema = upcast(df, functions_of(tmp_path, code), payload, topic())
    assert schema == lifted.schema["_event"].dataType
    rows = lifted.orderBy("_position").select("event_type", "event_version", "_problem", "_event.*").collect()
    seen = [(r["event_version"], r["total"], r["price"], r["currency"], r["buyer"] and r["buyer"]["n"]) for r in rows]
    assert seen == [
        (3, Decimal("10.00"), None, "EUR", 1),
        (3, Decimal("2.50"), None, "EUR", 1),
        (3, Decimal("7.00"), None, "EUR", 1),
        (3, Decimal("8.00"), None, None, None),
        (None, None, Decimal("9.00"), None, None),
        (None, None, None, None, None),
    ]
    assert [r["_problem"] and r["_problem"]["reason"] for r in rows] == [None] * 5 + ["decode"]
    assert [r["quantity"] for r in rows[:2]] == [4, 2]


def test_only_where_its_events_can_be(quick: SparkSession, tmp_path: Path) -> None:
    """A topic gets no columns from upcasters of events that it does not ingest."""
    df, payload = records(quick, PAYLOAD, EVENTS)
    functions = functions_of(tmp_path, COLUMNS)
    for keys in ({"include_events": ["Other"]}, {"exclude_events": ["OrderPlaced"]}):
        assert upcast(df, functions, payload, topic(**keys)) == (df, payload)
    untyped, payload = records(quick, "amount int", [{"amount": 1}])
    assert upcast(untyped, functions, payload, topic()) == (untyped, payload)


def test_an_upcaster_that_raises(quick: SparkSession, tmp_path: Path) -> None:
    code = (
        "from headwater import upcaster\n\n"
        '@upcaster("OrderPlaced", from_version=1, schema="label string")\n'
        "def labelled(payload: dict) -> dict:\n"
        '    if payload["quantity"] == 4:\n'
        '        return {"label": 17}\n'
        '    if payload["quantity"] == 2:\n'
        '        return {"nowhere": 1}\n'
        '    return {"label": str(payload["price"] / 0)}\n'
    )
    events = [*EVENTS[:2], {"event_type": "OrderPlaced", "price": 1}, EVENTS[2]]
    df, payload = records(quick, PAYLOAD, events)
    lifted, _ = upcast(df, functions_of(tmp_path, code), payload, topic())
    told = [r["_problem"] for r in lifted.orderBy("_position").collect()]
    assert [one and one["reason"] for one in told] == ["mapper"] * 3 + [None]
    assert "'label' does not fit string" in told[0]["message"]
    assert told[1]["message"] == "ValueError: 'nowhere' is not in the schema: declare it (upcaster labelled)"
    assert told[2]["message"].endswith("(upcaster labelled, shop.py:9)")
    assert "DivisionByZero" in told[2]["message"]


def test_a_field_of_another_type(quick: SparkSession, tmp_path: Path) -> None:
    code = (
        "from headwater import upcaster\n\n"
        '@upcaster("OrderPlaced", from_version=1)\n'
        'def f(event):\n    return {"quantity": event["price"].cast("date")}\n'
    )
    df, payload = records(quick, PAYLOAD.replace("price decimal(10,2)", "price string"), EVENTS)
    with pytest.raises(UsageError) as caught:
        upcast(df, functions_of(tmp_path, code), payload, topic())
    assert "gives 'quantity' as date, and events have it as int" in str(caught.value)
    assert "shop.py:3" in str(caught.value)
