"""From events to rows: by Column expressions, one event at a time, and by batches."""

from __future__ import annotations

import sys
import textwrap
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from headwater import Lake
from headwater.core.errors import ProjectError, UsageError
from headwater.ingest.code import failing_records
from headwater.ingest.mappers import mapping_for
from headwater.spark.errors import as_headwater_error
from tests.ingest.lab import functions_of, interpreted, records, topic
from tests.scale import in_formats
from tests.support import Shop

PAYLOAD = (
    "event_type string, event_timestamp string, price decimal(10,2), quantity bigint, "
    "tags array<string>, customer struct<id: bigint, `full name`: string>, notes map<string,string>"
)
BIG = 2**53 + 1
AT = "2026-03-01T12:30:00.123456Z"
EVENTS: list[dict[str, Any] | str] = [
    {"event_type": "Placed", "event_timestamp": AT, "price": 2.10, "quantity": 3, "customer": {"id": BIG}},
    {"event_type": "Shipped", "tags": ["a", None], "customer": {"id": 2, "full name": "Ann"}},
    {"event_type": "Placed", "price": 1.05, "quantity": None},
    "no json",
    {"event_type": "Gone", "notes": {"k": "v"}},
    {"quantity": 0},
]
COLUMNS = """\
from pyspark.sql import functions as F
from headwater import Event, mapper

@mapper("Placed", "Gone")
def placed(event: Event):
    return {
        "customer_id": event["customer"]["id"],
        "total": event["price"] * event["quantity"],
        "name": event.payload.customer["full name"],
        "unseen": event["unseen"]["deeper"],
        "happened": event.event_timestamp,
    }

@mapper
def rest(event):
    return {"customer_id": event["customer"]["id"], "trace": event.headers["trace"], "tags": event["tags"], "one": 1}
"""
DICT = """\
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Optional, TypedDict
from headwater import mapper
import prices

CENT = Decimal("0.01")

class Row(TypedDict, total=False):
    customer_id: int
    total: Annotated[Decimal, (21, 2)]
    name: "str | None"
    happened: Optional[datetime]

def money(value: Decimal) -> Decimal:
    return value.quantize(CENT)

@mapper("Placed", "Gone")
def placed(event: dict) -> Row:
    total = event["price"] and event["quantity"] and money(prices.total(event["price"], event["quantity"]))
    assert event["unseen"] is None and event.get("unseen", 1) == 1 and event["_source"] == "landing"
    return {"customer_id": event.get("customer", {}).get("id"), "total": total, "happened": event["event_timestamp"]}

@dataclass
class Rest:
    customer_id: int | None
    trace: str
    tags: list[str]
    one: Annotated[int, "int"]

@mapper
def rest(event: dict) -> Rest:
    customer = event["customer"]
    return Rest(customer and customer["id"], event["_headers"]["trace"], event["tags"], 1)
"""
PRICES = "def total(price, quantity):\n    return price * quantity\n"
ARROW = """\
import pyarrow as pa
import pyarrow.compute as pc
from headwater import mapper

@mapper("Placed", "Gone", schema="customer_id bigint, total decimal(21,2), name string, happened timestamp")
def placed(events: pa.RecordBatch) -> pa.RecordBatch:
    ids = events["customer"].field("id")
    total = pc.multiply(events["price"], events["quantity"].cast(pa.decimal128(19, 0)))
    return pa.record_batch({"total": total, "customer_id": ids, "happened": events["event_timestamp"]})

@mapper(schema="customer_id bigint, trace string, tags array<string>, one int")
def rest(events: pa.Table) -> pa.Table:
    ids = pc.struct_field(events["customer"], "id")
    trace = [dict(headers)["trace"] for headers in events["_headers"].to_pylist()]
    return pa.table({"customer_id": ids, "trace": trace, "tags": events["tags"], "one": [1] * len(events)})
"""
PANDAS = """\
from __future__ import annotations
from typing import TYPE_CHECKING
from headwater import mapper

if TYPE_CHECKING:
    import pandas as pd

@mapper("Placed", "Gone", schema="customer_id bigint, total decimal(21,2), name string, happened timestamp")
def placed(events: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    assert str(events["quantity"].dtype) == "Int64"
    pairs = zip(events["price"], events["quantity"])
    total = [None if price is None or pd.isna(n) else price * int(n) for price, n in pairs]
    ids = pd.Series([c and c["id"] for c in events["customer"]], dtype="Int64")
    return pd.DataFrame({"total": total, "customer_id": ids, "happened": events["event_timestamp"].values})

@mapper(schema="customer_id bigint, trace string, tags array<string>, one int")
def rest(events: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    ids = [c and c["id"] for c in events["customer"]]
    trace = [dict(headers)["trace"] for headers in events["_headers"]]
    return pd.DataFrame({"customer_id": ids, "trace": trace, "tags": events["tags"], "one": 1})
"""


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    return interpreted(spark)


def mapped(quick: SparkSession, folder: Path, code: str, events: Any = EVENTS, **more: str) -> tuple[DataFrame, Any]:
    df, payload = records(quick, PAYLOAD, events)
    functions = functions_of(folder, code, **more)
    mapping = mapping_for(topic(mappers=["shop"]), functions, quick, payload, df.select("_headers").schema)
    assert mapping is not None
    return mapping.apply(df), mapping


def rows(df: DataFrame) -> list[Row]:
    return df.orderBy("_position").collect()


@pytest.mark.parametrize("code", [COLUMNS, DICT, ARROW, PANDAS], ids=["columns", "dict", "arrow", "pandas"])
def test_the_same_rows_in_every_mode(quick: SparkSession, tmp_path: Path, code: str) -> None:
    sys.modules.pop("prices", None)
    df, mapping = mapped(quick, tmp_path, code, prices=PRICES)
    assert df.schema["_row"].dataType == mapping.schema
    types = {f.name: f.dataType.simpleString() for f in mapping.schema.fields}
    assert types == {
        "customer_id": "bigint",
        "total": "decimal(21,2)" if code is not COLUMNS else "decimal(31,2)",
        "name": "string",
        "happened": "timestamp",
        "trace": "string",
        "tags": "array<string>",
        "one": "int",
    }
    found = rows(df)
    assert [r["_problem"] and r["_problem"]["reason"] for r in found] == [None, None, None, "decode", None, None]
    made = [r["_row"] for r in found]
    assert made[3] is None
    seen = [r and (r["customer_id"], r["total"], r["happened"], r["trace"], r["tags"], r["one"]) for r in made]
    happened = datetime(2026, 3, 1, 12, 30, 0, 123456, tzinfo=timezone.utc).astimezone().replace(tzinfo=None)
    assert seen == [
        (BIG, Decimal("6.30"), happened, None, None, None),
        (2, None, None, "t1", ["a", None], 1),
        (None, None, None, None, None, None),
        None,
        (None, None, None, None, None, None),
        (None, None, None, "t5", None, 1),
    ]
    assert set(df.columns) == {*records(quick, PAYLOAD, EVENTS)[0].columns, "_row"}


RAISING = {
    "dict": """\
from headwater import mapper

@mapper(schema="n bigint")
def checked(event: dict):
    if event["quantity"] == 13:
        raise ValueError("unlucky")
    if event["quantity"] == 14:
        return {"n": "many"}
    if event["quantity"] == 15:
        return None
    if event["quantity"] == 16:
        return {"n": 1, "m": 2}
    return {"n": event["quantity"]}
""",
    "arrow": """\
import pyarrow as pa
from headwater import mapper

@mapper(schema="n bigint")
def checked(events: pa.RecordBatch):
    if any(13 <= n <= 16 for n in events["quantity"].to_pylist()):
        raise ValueError("unlucky")
    return pa.record_batch({"n": events["quantity"]})
""",
}


@pytest.mark.parametrize("mode", RAISING)
def test_exactly_the_events_that_a_mapper_raises_on(quick: SparkSession, tmp_path: Path, mode: str) -> None:
    events = [{"quantity": n} for n in range(40)]
    df, _ = mapped(quick, tmp_path, RAISING[mode], events)
    found = rows(df)
    bad = [13, 14, 15, 16]
    assert [r["_row"] and r["_row"]["n"] for r in found] == [None if n in bad else n for n in range(40)]
    told = {n: r["_problem"]["message"] for n, r in enumerate(found) if r["_problem"]}
    assert list(told) == bad
    assert {r["_problem"]["reason"] for r in found if r["_problem"]} == {"mapper"}
    line = 6 if mode == "dict" else 7
    assert told[13] == f"ValueError: unlucky (mapper checked, shop.py:{line})"
    if mode == "dict":
        assert "'n' does not fit int64" in told[14]
        assert "returned NoneType" in told[15]
        assert "'m' is not in the schema" in told[16]


def test_an_event_type_without_a_mapper(quick: SparkSession, tmp_path: Path) -> None:
    code = COLUMNS.split("@mapper\n")[0]
    code += '\n@mapper("Shipped", schema="tags int")\ndef shipped(event: dict):\n'
    code += '    return {"tags": len(event["tags"])}\n'
    df, mapping = mapped(quick, tmp_path, code)
    assert mapping.schema["tags"].dataType.simpleString() == "int"
    found = rows(df)
    assert [r["_row"] is not None for r in found] == [True, True, True, False, True, False]
    assert [r["_row"] and (r["_row"]["tags"], r["_row"]["customer_id"]) for r in found[:2]] == [(None, BIG), (2, None)]
    assert found[3]["_problem"]["reason"] == "decode"
    assert found[5]["_problem"]["reason"] == "mapper"
    assert "no mapper for an event without a type" in found[5]["_problem"]["message"]
    assert "exclude_events" in found[5]["_problem"]["message"]


def test_a_declared_schema_casts_columns(quick: SparkSession, tmp_path: Path) -> None:
    code = (
        'from headwater import mapper\n\n@mapper(schema="total decimal(12,2), unseen array<int>, left_out date")\n'
        'def f(event):\n    return {"total": event["price"], "unseen": event["unseen"]}\n'
    )
    _, mapping = mapped(quick, tmp_path, code)
    assert mapping.schema.simpleString() == "struct<total:decimal(12,2),unseen:array<int>,left_out:date>"


def test_no_mappers_asked_for(quick: SparkSession, tmp_path: Path) -> None:
    assert mapping_for(topic(), functions_of(tmp_path, COLUMNS), quick, records(quick, PAYLOAD, EVENTS)[1]) is None


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('    return {"a": event["price"].cast("string")}\n\n'
         '@mapper("B")\ndef g(event):\n    return {"a": event["price"]}\n',
         ["mapper 'g' gives 'a' as decimal(10,2), and mapper 'f' (", "shop.py:4) as string"]),
        ('    return {"_raw": event["price"]}\n', ["a column of the topic's own"]),
        ('    return [event["price"]]\n', ["returned list", "dict of Column expressions"]),
        ('    return {"a": event["tags"] + 1}\n', ["mapper 'f'", "shop.py:4"]),
        ('    return {"a": event.prize}\n', ["AttributeError", "shop.py:6"]),
    ],
)  # fmt: skip
def test_column_mappers_that_can_not_be(quick: SparkSession, tmp_path: Path, body: str, says: list[str]) -> None:
    code = 'from headwater import mapper\n\n\n@mapper("A")\ndef f(event):\n' + body
    with pytest.raises((ProjectError, UsageError)) as caught:
        mapped(quick, tmp_path, code)
    for part in says:
        assert part in str(caught.value)
    assert str(caught.value.code) == "INVALID_FUNCTION"


def test_events_without_a_type(quick: SparkSession, tmp_path: Path) -> None:
    df, payload = records(quick, "amount int", [{"amount": 1}])
    functions = functions_of(tmp_path, COLUMNS.split("@mapper\n")[0])
    mapping = mapping_for(topic(mappers=["shop"]), functions, quick, payload)
    assert mapping is not None
    with pytest.raises(UsageError) as caught:
        mapping.apply(df)
    assert "write a default @mapper" in str(caught.value)


def test_a_batch_of_another_length(quick: SparkSession, tmp_path: Path) -> None:
    code = (
        "import pyarrow as pa\nfrom headwater import mapper\n\n"
        '@mapper(schema="n bigint")\ndef shorter(events: pa.RecordBatch):\n'
        '    return pa.record_batch({"n": events["quantity"]}).slice(1)\n'
    )
    df, _ = mapped(quick, tmp_path, code)
    with pytest.raises(Exception) as caught:
        df.collect()
    told = as_headwater_error(caught.value).problem.message
    assert "mapper shorter (shop.py:4) returned" in told
    assert "it returns one per event" in told
    assert "File" not in told


def test_what_can_not_travel(quick: SparkSession, tmp_path: Path) -> None:
    code = (
        "import threading\nfrom headwater import mapper\n\nLOCK = threading.Lock()\n\n"
        '@mapper(schema="n bigint")\ndef locked(event: dict):\n    with LOCK:\n        return {"n": 1}\n'
    )
    with pytest.raises(UsageError) as caught:
        mapped(quick, tmp_path, code)
    assert "mapper 'locked' can't be sent to Spark's workers" in str(caught.value)


LATER = """\
import pandas as pd
from headwater import mapper, upcaster

@mapper("Placed")
def placed(event):
    return {"id": event["id"], "coupon": event["coupon"]["code"]}

@mapper("Paid", schema="id bigint, cents bigint")
def paid(events: pd.DataFrame) -> pd.DataFrame:
    if (events["amount"] < 0).any():
        raise ValueError("negative")
    return pd.DataFrame({"id": events["id"], "cents": (events["amount"] * 100).astype("int64")})
"""


@pytest.mark.usefixtures("spark")
def test_keys_that_come_later_and_events_that_raise(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path, topic="mappers: shop", source='schema_hints: "amount decimal(12,2)"')
    (tmp_path / "shop.py").write_text(LATER, encoding="utf-8")
    file = tmp_path / "headwater.yml"
    file.write_text("code: shop.py\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    shop.land("a.json", [{"event_type": "Placed", "id": 1}, {"event_type": "Paid", "id": 1, "amount": 2.50}])
    first = shop.run()
    assert first.code == 0, first.out
    assert "coupon" not in shop.query("SELECT * FROM topic('orders')")[0]
    amounts = [1, -1, 3, -2, 5]
    later = [{"event_type": "Paid", "id": 10 + n, "amount": amount} for n, amount in enumerate(amounts)]
    shop.land("b.json", [*later, {"event_type": "Placed", "id": 2, "coupon": {"code": "x"}}, {"event_type": "Lost"}])
    second = shop.run()
    assert second.code == 0, second.out
    kept = shop.query("SELECT event_type, id, coupon, cents FROM topic('orders') ORDER BY id, event_type")
    assert [tuple(row.values()) for row in kept] == [
        ("Paid", 1, None, 250),
        ("Placed", 1, None, None),
        ("Placed", 2, "x", None),
        ("Paid", 10, None, 100),
        ("Paid", 12, None, 300),
        ("Paid", 14, None, 500),
    ]
    with Lake.open(tmp_path) as lake:
        dead_letters = lake.dead_letters("orders")
    assert {letter.reason for letter in dead_letters} == {"mapper"}
    told = sorted(letter.message for letter in dead_letters)
    assert told[:2] == ["ValueError: negative (mapper paid, shop.py:11)"] * 2
    assert told[2].startswith("no mapper for Lost: write one")
    assert len(told) == 3


IN_THE_JVM = """\
from pyspark.sql import functions as F
from headwater import mapper

@mapper("Paid")
def paid(event):
    checked = F.when(event["amount"] < 0, F.raise_error(F.concat(F.lit("negative: "), event["amount"].cast("string"))))
    return {"id": event["id"], "cents": F.coalesce(checked.cast("bigint"), event["amount"] * 100)}
"""


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_a_column_expression_that_raises_makes_a_dead_letter_of_its_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    if format == "iceberg":
        monkeypatch.setattr(failing_records, "FEW", 2)  # more are halved by their hashes
    shop = Shop.make(tmp_path, format, topic="mappers: shop")
    (tmp_path / "shop.py").write_text(IN_THE_JVM, encoding="utf-8")
    file = tmp_path / "headwater.yml"
    file.write_text("code: shop.py\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    amounts = [1, -1, 3, 4, 5, -7, 8]
    shop.land("a.json", [{"event_type": "Paid", "id": n, "amount": amount} for n, amount in enumerate(amounts)])
    done = shop.run()
    assert done.code == 0, done.out
    kept = shop.query("SELECT id, cents FROM topic('orders') ORDER BY id")
    assert [tuple(row.values()) for row in kept] == [(0, 100), (2, 300), (3, 400), (4, 500), (6, 800)]
    with Lake.open(tmp_path) as lake:
        dead_letters = lake.dead_letters("orders")
    assert sorted((letter.reason, letter.message) for letter in dead_letters) == [
        ("mapper", "negative: -1"),
        ("mapper", "negative: -7"),
    ]
    (tmp_path / "shop.py").write_text(IN_THE_JVM.replace("< 0", "< -5"), encoding="utf-8")
    with Lake.open(tmp_path) as lake:
        [replayed] = lake.replay_dead_letters("orders")
    assert (replayed.tried, replayed.came_through) == (2, 1)


@pytest.mark.usefixtures("spark")
def test_a_column_expression_that_raises_on_everything_ends_the_flow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_records, "MOST", 4)
    shop = Shop.make(tmp_path, topic="mappers: shop")
    (tmp_path / "shop.py").write_text(IN_THE_JVM.replace("< 0", "> -1"), encoding="utf-8")
    file = tmp_path / "headwater.yml"
    file.write_text("code: shop.py\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    shop.land("a.json", [{"event_type": "Paid", "id": n, "amount": n} for n in range(10)])
    done = shop.run()
    assert done.code == 1
    assert "FUNCTION_FAILED" in done.out
    assert "more than 4 events" in done.out


@pytest.mark.usefixtures("spark")
def test_what_raises_no_exception_gives_its_flow_up_too(tmp_path: Path) -> None:
    """As a library in Rust does when it panics: the run says so, and does not end well."""
    code = """
    from headwater import mapper

    class PanicException(BaseException):
        pass

    @mapper
    def panicking(event):
        raise PanicException("called `unwrap` on a value")
    """
    shop = Shop.make(tmp_path, topic="mappers: shop")
    (tmp_path / "shop.py").write_text(textwrap.dedent(code), encoding="utf-8")
    config = tmp_path / "headwater.yml"
    config.write_text(config.read_text(encoding="utf-8") + "code: shop.py\n", encoding="utf-8")
    shop.land("1.json", [{"event_id": "a", "event_type": "x"}])
    ran = shop.run()
    assert ran.code == 1 and "PanicException: called `unwrap`" in ran.out + ran.err, ran
    assert "Traceback" not in ran.out + ran.err
    assert [one["state"] for one in ran.events[-1]["flows"]] == ["failed"]
