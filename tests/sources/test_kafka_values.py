"""What values and keys of Kafka records become, encoding by encoding, against a real registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.core.errors import Code, HeadwaterError, TransientError
from tests.services.kafka import Broker
from tests.services.processes import free_port
from tests.services.schema_registry import Registry
from tests.sources.kafka_lab import Flow, framed, new_offsets, rows_of

Open = Callable[..., Flow]
Send = Callable[..., None]

ORDER_1: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
ORDER_2: dict[str, Any] = {
    **ORDER_1,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";

// A comment; with { signs } in it.
message Order {
  string id = 1;
  int64 amount = 2 [json_name = "Amount"];
  optional int32 discount = 3;
  repeated Line lines = 4;
  map<string, double> rates = 5;
  google.protobuf.Timestamp at = 6;
  State state = 7;
  oneof paid_by { string card = 8; bool cash = 9; }
  bytes blob = 10;
  uint64 large = 11;
  Order parent = 12;
  message Line { string sku = 1; sint32 count = 2; }
  enum State { NEW = 0; SENT = 1; }
  reserved 20 to 30;
}
message Cancelled { string id = 1; string why = 2; }
"""


@pytest.fixture
def topic(kafka: Broker, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", ".").replace("]", "")
    kafka.create(name)
    return name


@pytest.fixture
def open_flow(spark: SparkSession, kafka: Broker, topic: str, tmp_path: Path) -> Open:
    return lambda **settings: Flow(spark, tmp_path, {"brokers": kafka.address, "topic": topic, **settings})


@pytest.fixture
def send(kafka: Broker, topic: str) -> Send:
    return lambda *records: kafka.send(topic, [r if isinstance(r, dict) else {"value": r} for r in records])


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


# --- text


def test_json_with_and_without_a_registry_in_front(send: Send, open_flow: Open) -> None:
    send(
        rows_of(id=1, tags=["a"]), framed(7, b'{"id": 2, "at": {"x": 1.5}}'), b"[1]", b"{", {"value": None, "key": b"k"}
    )
    found = open_flow(schema_registry="http://127.0.0.1:1").decoded()
    assert found.events == [
        {"id": 1, "tags": ["a"], "at": None},
        {"id": 2, "tags": None, "at": {"x": 1.5}},
        None,
        None,
        None,
    ]
    assert [told and told[0] for told in found.problems] == [None, None, "decode", "decode", None]
    assert found.unknown == 0


def test_an_unknown_key_is_noticed(send: Send, open_flow: Open) -> None:
    flow = open_flow(schema_registry="http://127.0.0.1:1")
    send(rows_of(id=1))
    flow.decoded()
    send(framed(7, b'{"id": 2, "more": 3}'), rows_of(id=3), {"value": None})
    records = flow.step()
    assert records is not None
    known = flow.reader.decoder.detect(records.where("_offset = 2"))
    assert new_offsets(flow, records, known) == [1]


def test_csv(send: Send, open_flow: Open) -> None:
    send(b'1,"a ""b"""', b"2,x,y")
    found = open_flow(value="csv", schema="id bigint, name string").decoded()
    assert found.events == [{"id": 1, "name": 'a "b"'}, None]
    assert [told and told[0] for told in found.problems] == [None, "decode"]
    assert open_flow(value="csv", csv={"sep": ";"}).decoded().events[0] == {"_c0": '1,"a ""b"""'}


def test_csv_with_a_pattern_for_times(send: Send, open_flow: Open) -> None:
    """A text that does not fit ends no step, though Spark 2 would have read it."""
    flow = open_flow(value="csv", csv={"timestampFormat": "dd.MM.yyyy HH:mm"}, schema="id bigint, at timestamp")
    send(b"1,02.01.2026 03:04")
    assert [event["at"].isoformat() for event in flow.decoded().events] == ["2026-01-02T03:04:00"]
    send(b"2,2.1.2026 3:04")
    found = flow.decoded()
    assert (found.fields, found.events) == (["id:bigint", "at:string"], [{"id": 2, "at": "2.1.2026 3:04"}])


def test_string_and_bytes(send: Send, open_flow: Open) -> None:
    send({"value": "ä".encode(), "key": b"\xff"}, {"value": b"\xff\x00", "key": b"k"})
    text = open_flow(value="string").decoded()
    assert text.events == [{"value": "ä"}, None]
    assert text.problems == [None, ("decode", "not valid UTF-8")]
    assert text.keys == ["\\xff", "k"]
    raw = open_flow(value="bytes", key="bytes").decoded()
    assert raw.events == [{"value": bytearray("ä".encode())}, {"value": bytearray(b"\xff\x00")}]
    assert raw.keys == [bytearray(b"\xff"), bytearray(b"k")]


# --- Avro


def test_avro_schemas_that_change_from_record_to_record(send: Send, registry: Registry, open_flow: Open) -> None:
    first, second = (registry.register(f"orders-{n}", json.dumps(s)) for n, s in enumerate((ORDER_1, ORDER_2)))
    at = 1_700_000_000_000
    send(
        framed(first, avro(ORDER_1, {"id": 1, "note": "x"})),
        framed(second, avro(ORDER_2, {"id": 2**40, "total": Decimal("12.50"), "at": at})),
        framed(first, b"\x02"),
        framed(999_999, b"\x02"),
        b"plain",
        {"value": None},
    )
    flow = open_flow(value="avro", schema_registry=registry.address)
    found = flow.decoded()
    assert sorted(found.fields) == ["at:timestamp", "id:bigint", "note:string", "total:decimal(12,2)"]
    assert found.events[0] == {"id": 1, "note": "x", "total": None, "at": None}
    assert found.events[1] is not None and found.events[1]["total"] == Decimal("12.50")
    assert found.events[2:] == [None] * 4
    assert found.problems == [
        None,
        None,
        ("decode", f"the bytes do not fit schema id {first}"),
        ("decode", f"schema id 999999 is not in the registry {registry.address}"),
        ("decode", "no registry framing: the first byte is not 0"),
        None,
    ]
    assert found.unknown == 1, "an id that the registry lacks is asked for again"


def test_a_known_schema_is_not_asked_for_again(send: Send, registry: Registry, open_flow: Open) -> None:
    id = registry.register("known", json.dumps(ORDER_1))
    flow = open_flow(value="avro", schema_registry=registry.address)
    send(framed(id, avro(ORDER_1, {"id": 1, "note": None})))
    flow.decoded()
    flow.restart()  # the flow's notes have it
    send(framed(id, avro(ORDER_1, {"id": 2, "note": None})))
    records = flow.step()
    assert records is not None
    schema = StructType().add("id", "integer").add("note", "string")
    assert new_offsets(flow, records, schema) == []
    new = registry.register("new", json.dumps({**ORDER_2, "name": "Newer"}))
    send(framed(new, avro(ORDER_2, {"id": 2, "total": Decimal("1.00"), "at": 0})))
    records = flow.step()
    assert records is not None
    assert new_offsets(flow, records, schema) == [2]


def test_avro_with_references_and_keys(send: Send, registry: Registry, open_flow: Open) -> None:
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
    registry.register("money", json.dumps(money))
    order = {
        "type": "record",
        "name": "Priced",
        "namespace": "shop",
        "fields": [{"name": "price", "type": "shop.Money"}, {"name": "tax", "type": ["null", "shop.Money"]}],
    }
    references = [{"name": "shop.Money", "subject": "money", "version": 1}]
    id = registry.register("priced", json.dumps(order), references=references)
    key = registry.register("priced-key", '"string"')
    pair = registry.register("pair-key", json.dumps({**money, "name": "PairKey"}))
    whole = json.loads(json.dumps(order))
    whole["fields"][0]["type"] = money
    value = framed(id, avro(whole, {"price": {"cents": 5}, "tax": None}))
    send(
        {"value": value, "key": framed(key, avro("string", "k1"))},
        {"value": value, "key": framed(pair, avro(money, {"cents": 7}))},
        {"value": value, "key": b"?"},
        {"value": value},
    )
    found = open_flow(value="avro", key="avro", schema_registry=registry.address).decoded()
    assert found.events == [{"price": {"cents": 5}, "tax": None}] * 4
    assert found.keys == ["k1", '{"cents":7}', None, None]
    assert [told and told[0] for told in found.problems] == [None, None, "decode", None]


def test_avro_from_a_file(send: Send, open_flow: Open, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER_1))
    send(avro(ORDER_1, {"id": 1, "note": "x"}), b"")
    found = open_flow(value="avro", schema_file="order.avsc").decoded()
    assert found.events == [{"id": 1, "note": "x"}, None]
    assert found.problems == [None, ("decode", "the bytes do not fit the Avro schema")]
    (tmp_path / "order.avsc").write_text('{"type": "recrd"}')
    with pytest.raises(HeadwaterError, match=r"order\.avsc is no Avro schema") as caught:
        open_flow(value="avro", schema_file="order.avsc")
    assert caught.value.code is Code.INVALID_VALUE


def test_a_registry_that_is_down(send: Send, open_flow: Open) -> None:
    send(framed(1, b"\x02"))
    flow = open_flow(value="avro", schema_registry=f"http://me:hidden@127.0.0.1:{free_port()}")
    with pytest.raises(TransientError, match=r"registry http://127\.0\.0\.1:\d+ can't be reached") as caught:
        flow.decoded()
    assert "hidden" not in str(caught.value)


# --- Protobuf


def order_of(**fields: Any) -> bytes:
    from headwater.sources.kafka.proto import file_set
    from headwater.sources.kafka.protobuf import MessageType, message_class

    made = message_class(MessageType(file_set([("m.proto", PROTO)]), "shop.Order"))
    whole: bytes = made(**fields).SerializeToString()
    return whole


FULL = {
    "id": "o1",
    "amount": -5,
    "discount": 0,
    "lines": [{"sku": "a", "count": -1}],
    "rates": {"EUR": 1.5},
    "state": 1,
    "cash": False,
    "blob": b"\x00\xff",
    "large": 2**64 - 1,
    "parent": {"id": "o0"},
}


def test_protobuf_with_a_registry(send: Send, registry: Registry, open_flow: Open) -> None:
    id = registry.register("proto", PROTO, "PROTOBUF")
    other = registry.register(
        "proto-2", 'syntax = "proto3"; message Order { string id = 1; bool more = 2; }', "PROTOBUF"
    )
    send(
        framed(id, b"\x00" + order_of(**FULL, at={"seconds": 1_700_000_000})),
        framed(id, b"\x00"),
        framed(id, b"\x02\x02" + b"\x0a\x02o1\x12\x04late"),  # the second message of the file
        framed(other, b"\x00" + b"\x0a\x02o9\x10\x01"),
        framed(id, b"\x00\x0a\xff"),
        framed(999_999, b"\x00"),
    )
    flow = open_flow(value="protobuf", schema_registry=registry.address)
    found = flow.decoded()
    first, empty, cancelled, changed = found.events[:4]
    assert first is not None and empty is not None and cancelled is not None and changed is not None
    expected = {**FULL, "lines": [{"sku": "a", "count": -1}], "state": "SENT", "blob": bytearray(b"\x00\xff")}
    expected |= {"large": Decimal(2**64 - 1), "card": None, "why": None, "more": None}
    assert {name: first[name] for name in expected if name != "parent"} == {
        name: value for name, value in expected.items() if name != "parent"
    }
    assert json.loads(first["parent"])["id"] == "o0"
    assert first["at"].timestamp() == 1_700_000_000
    assert (empty["id"], empty["amount"], empty["discount"], empty["lines"]) == ("", 0, None, [])
    assert (cancelled["id"], cancelled["why"], cancelled["amount"]) == ("o1", "late", None)
    assert (changed["id"], changed["more"]) == ("o9", True)
    assert [told and told[0] for told in found.problems] == [None] * 4 + ["decode"] * 2
    assert found.unknown == 1
    send(framed(id, b"\x02\x02" + b"\x0a\x02o2"))
    assert flow.decoded().unknown == 0


@pytest.mark.parametrize("file", ["order.proto", "order.desc"])
def test_protobuf_from_a_file(send: Send, open_flow: Open, tmp_path: Path, file: str) -> None:
    from headwater.sources.kafka.proto import file_set

    content = PROTO.encode() if file.endswith(".proto") else file_set([("order.proto", PROTO)])
    (tmp_path / file).write_bytes(content)
    send({"value": order_of(id="o1", amount=3), "key": order_of(id="k")}, b"\xff")
    by_file = {"schema_file": file, "message": "shop.Order", "key_schema_file": file, "key_message": "shop.Order"}
    found = open_flow(value="protobuf", key="protobuf", **by_file).decoded()
    assert found.events[0] is not None and (found.events[0]["id"], found.events[0]["amount"]) == ("o1", 3)
    assert json.loads(found.keys[0])["id"] == "k"
    assert found.events[1] is None and found.problems[1] is not None and found.problems[1][0] == "decode"
    with pytest.raises(HeadwaterError, match="no usable message 'shop.Ordr'"):
        open_flow(value="protobuf", schema_file=file, message="shop.Ordr")


# --- Debezium


def change(op: str, before: Any, after: Any, **more: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "ts_ms": 5, "source": {"lsn": 7, "table": "t"}, **more}


CHANGES = [
    change("r", None, {"id": 1, "name": "a", "note": "long"}),
    change("c", None, {"id": 2, "name": "b", "note": None}),
    change("u", {"id": 1, "name": "a", "note": None}, {"id": 1, "name": "c", "note": "__debezium_unavailable_value"}),
    change("d", {"id": 2, "name": "b", "note": None}, None),
]


@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium_as_json(send: Send, open_flow: Open, wrapped: bool) -> None:
    schema = {"type": "struct", "fields": [{"field": "payload", "type": "string"}]}
    texts = [json.dumps({"schema": schema, "payload": one} if wrapped else one).encode() for one in CHANGES]
    key = json.dumps({"schema": schema, "payload": {"id": 2}} if wrapped else {"id": 2}).encode()
    send(*texts[:3], {"value": texts[3], "key": key}, {"value": None, "key": key}, rows_of(id=1))
    found = open_flow(value="debezium", key="debezium").decoded()
    check_changes(found.events)
    assert json.loads(found.keys[3]) == {"id": 2}
    assert len(found.events) == 5, "a tombstone only repeats the delete before it"
    assert found.problems[:4] == [None] * 4
    assert found.problems[4] is not None and "no Debezium envelope" in found.problems[4][1]


def test_debezium_as_avro(send: Send, registry: Registry, open_flow: Open) -> None:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [
            {"name": n, "type": ["null", t]} for n, t in (("id", "int"), ("name", "string"), ("note", "string"))
        ],
    }
    source = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": "lsn", "type": "long"}, {"name": "table", "type": "string"}],
    }
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"]},
        ],
    }
    id = registry.register("envelope", json.dumps(envelope))
    send(*(framed(id, avro(envelope, one)) for one in CHANGES))
    found = open_flow(value="debezium", schema_registry=registry.address).decoded()
    check_changes(found.events)
    assert found.problems == [None] * 4 and found.unknown == 0


def check_changes(events: list[dict[str, Any] | None]) -> None:
    found = [event for event in events[:4] if event is not None]
    assert [event["_op"] for event in found] == ["r", "i", "u", "d"]
    assert [event["_unchanged"] for event in found] == [[], [], ["note"], []]
    assert found[2]["before"] == {"id": 1, "name": "a", "note": None}
    assert found[2]["after"] == {"id": 1, "name": "c", "note": None}
    assert found[0]["after"]["note"] == "long" and found[3]["after"] is None
    assert found[3]["source"] == {"lsn": 7, "table": "t"} and found[3]["ts_ms"] == 5
