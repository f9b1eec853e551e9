"""What topics make of records: schemas that are detected and change, policies, values that are hard to keep."""

from __future__ import annotations

import json
import time
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Code, TerminalError
from headwater.ingest import topic
from headwater.warehouse import Warehouse
from tests.scale import in_formats
from tests.support import Answer, headwater

pytestmark = pytest.mark.usefixtures("spark")

POLICIES = {
    "added": "{new_column: add}",
    "rescued": "{new_column: rescue}",
    "ignored": "{new_column: ignore}",
    "strict": "{new_column: fail}",
    "discarded": "{mismatch: discard_value}",
    "failing": "{mismatch: fail}",
}


class Desk:
    """A project with one folder of files and several topics on it."""

    def __init__(self, root: Path, topics: dict[str, str], source: str = "", format: str = "delta") -> None:
        self.root = root
        (root / "landing").mkdir(parents=True)
        lines = ["name: desk", f"format: {format}", "sources:"]
        lines += [f"  landing: {{type: files, path: ./landing{source}}}", "topics:"]
        lines += [f"  {name}: {{from: landing{', ' if rest else ''}{rest}}}" for name, rest in topics.items()]
        (root / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def land(self, name: str, *records: dict[str, Any] | str | bytes) -> None:
        lines = [
            one if isinstance(one, bytes) else (one if isinstance(one, str) else json.dumps(one)).encode()
            for one in records
        ]
        (self.root / "landing" / name).write_bytes(b"".join(line + b"\n" for line in lines))

    def run(self, *flows: str) -> dict[str, Any]:
        answer = self("run", *flows, "--once", "--json")
        done = answer.events[-1]
        return {flow["flow"].split(".", 1)[1]: flow for flow in done["flows"]}

    def rows(self, topic: str, columns: str, order: str = "1") -> list[tuple[Any, ...]]:
        with Lake.open(self.root) as lake:
            result = lake.sql(f"SELECT {columns} FROM topic('{topic}') ORDER BY {order}")
            return [tuple(row.values()) for row in result]

    def __call__(self, *arguments: str) -> Answer:
        return headwater(*arguments, "--project", self.root)


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_schema_policies(tmp_path: Path, format: str) -> None:
    desk = Desk(tmp_path, {name: f"schema: {policy}" for name, policy in POLICIES.items()}, format=format)
    desk.land("1.json", {"id": 1, "address": {"city": "Bonn"}}, {"id": 2, "address": {"city": "Köln"}})
    assert {name: flow["rows"] for name, flow in desk.run().items()} == dict.fromkeys(POLICIES, 2)

    desk.land(
        "2.json",
        {"id": 3, "address": {"city": "Ulm", "zip": "89073"}, "note": "new", "tags": [{"k": 1}]},
        {"id": 4, "address": {"city": "Jena"}, "tags": [{"k": 2, "v": "x"}]},
        {"id": 5, "note": None},
    )
    flows = desk.run()
    assert {name: flow["rows"] for name, flow in flows.items() if name != "strict"} == dict.fromkeys(
        set(POLICIES) - {"strict"}, 3
    )
    assert "note" in flows["strict"]["error"] and "address.zip" in flows["strict"]["error"]
    assert desk.rows("added", "id, address.zip, note, to_json(tags)") == [
        (1, None, None, None),
        (2, None, None, None),
        (3, "89073", "new", '[{"k":1}]'),
        (4, None, None, '[{"k":2,"v":"x"}]'),
        (5, None, None, None),
    ]
    rescued = {id: value and json.loads(value) for id, value in desk.rows("rescued", "id, _rescued")}
    assert rescued[3] == {"address": {"zip": "89073"}, "note": "new", "tags": [{"k": 1}]}
    assert rescued[4] == {"tags": [{"k": 2, "v": "x"}]}
    assert rescued[1] is rescued[5] is None
    with Lake.open(desk.root) as lake:
        assert "note" not in lake.topic("ignored").df().columns
        assert "note" not in lake.topic("rescued").df().columns
        versions = lake.topic("added").describe().schemas or ()
    assert [version.brought_by for version in versions] == ["first records", "step 1"]
    assert "address.zip string added" in versions[1].changes

    desk.land("3.json", {"id": "six", "address": {"city": "Hof"}}, {"id": 7, "address": "nowhere"}, {"id": 8})
    flows = desk.run()
    assert {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items() if not flow["error"]} == {
        "added": (1, 2),
        "ignored": (1, 2),
        "rescued": (3, 0),
        "discarded": (3, 0),
    }
    assert "six does not fit bigint" in flows["failing"]["error"]
    assert desk.rows("discarded", "id, address.city", "_position")[-3:] == [(None, "Hof"), (7, None), (8, None)]
    rescued_rows = desk.rows("rescued", "id, _rescued", "_position")[-3:]
    assert [(id, value and json.loads(value)) for id, value in rescued_rows] == [
        (None, {"id": "six"}),
        (7, {"address": "nowhere"}),
        (8, None),
    ]
    dead_letters = desk("dlq", "list", "--topic", "added", "--json").json
    assert sorted(letter["message"].partition("; hint: ")[0] for letter in dead_letters) == [
        "address: nowhere does not fit struct<city:string,zip:string>",
        "id: six does not fit bigint",
    ]


def test_unknown_keys_in_any_style(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"events": ""})
    desk.land("1.json", {"id": 1, "note": "a : b"})
    desk.run()
    styles = ['{"id"  : 2, "a": 1}', '{"id"\t:3,"b":1}', '{"id":4, "c" : 1}', '{"id": 5, "note": "\\" :", "d"\t :1}']
    styles.append('{"id": 6, "note": "{\\"x\\":null, \\"y\\": null}", "e": 1}')
    for number, line in enumerate(styles, start=2):
        desk.land(f"{number}.json", line)
        desk.run()
    assert desk.rows("events", "id, a, b, c, d, e, note") == [
        (1, None, None, None, None, None, "a : b"),
        (2, 1, None, None, None, None, None),
        (3, None, 1, None, None, None, None),
        (4, None, None, 1, None, None, None),
        (5, None, None, None, 1, None, '" :'),
        (6, None, None, None, None, 1, '{"x":null, "y": null}'),
    ]


def test_standard_columns_that_can_not_be_read_are_rescued(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"events": "schema: {new_column: rescue}"})
    desk.land("1.json", {"event_id": "a", "event_timestamp": "2026-01-05T10:00:00Z", "n": 1})
    desk.run()
    desk.land(
        "2.json", {"event_id": "b", "event_timestamp": "soon", "n": "x"}, {"event_id": "c", "event_timestamp": None}
    )
    desk.run()
    found = desk.rows("events", "event_id, event_timestamp IS NULL, n, _rescued")
    assert found[0] == ("a", False, 1, None) and found[2] == ("c", True, None, None)
    assert found[1][:3] == ("b", True, None) and json.loads(found[1][3]) == {"event_timestamp": "soon", "n": "x"}


def test_values_are_kept_as_they_are(tmp_path: Path) -> None:
    hints = ', schema_hints: "price decimal(20,6), at timestamp, day date, small int"'
    desk = Desk(tmp_path, {"kept": "keep_raw: true"}, source=hints)
    desk.land(
        "1.json",
        '{"n": 1, "price": 12345678901234.123456, "at": "2026-03-29T02:30:00+02:00", "day": "2026-03-29", "small": 7}',
        '{"n": 2, "price": "0.000001", "at": "2026-01-01T00:00:00.123456Z", "big": 12345678901234567890}',
        '{"n": 3, "text": "", "nothing": null, "list": [], "object": {}}',
        '{"n": 4, "text": "nul\\u0000 and \\ud83d\\ude00", "list": [1, null, 3], "nested": [[{"a": [1.5]}]]}',
        '{"n": 5, "a.b": 1, "with space": "x", "select": true, "ünïcode": "ß", "back`tick": 2, "quo\\"te": 3}',
        '{"n": 6, "Id": "upper", "id": "lower", "in": {"X": 1, "x": 2}}',
    )
    assert desk.run()["kept"]["rows"] == 6
    assert desk.rows("kept", "n, price, at, day, small, big") == [
        (1, Decimal("12345678901234.123456"), _utc(2026, 3, 29, 0, 30), datetime(2026, 3, 29).date(), 7, None),
        (2, Decimal("0.000001"), _utc(2026, 1, 1, 0, 0, 0, 123456), None, None, Decimal("12345678901234567890")),
        *((n, None, None, None, None, None) for n in (3, 4, 5, 6)),
    ]
    assert desk.rows("kept", "n, text, list", "n")[2:4] == [
        (3, "", []),
        (4, "nul\x00 and 😀", [1, None, 3]),
    ]
    odd = 'n, `a.b`, `with space`, `select`, `ünïcode`, `back``tick`, `quo"te`'
    assert desk.rows("kept", odd)[4] == (5, 1, "x", True, "ß", 2, 3)
    with Lake.open(desk.root) as lake:
        columns = lake.topic("kept").df().columns
    assert {"Id", "payload_id"} <= set(columns) or {"id", "payload_Id"} <= set(columns)
    assert "nothing" not in columns
    twin = "payload_id" if "payload_id" in columns else "payload_Id"
    plain = "Id" if twin == "payload_id" else "id"
    assert sorted(desk.rows("kept", f"{plain}, {twin}", "n")[5]) == ["lower", "upper"]
    assert sorted(desk.rows("kept", "`in`.*", "1")[-1]) == [1, 2]
    raw = desk.rows("kept", "n, _raw")[0][1]
    assert b"12345678901234.123456" in bytes(raw)


def test_records_that_are_no_json_objects(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": ""})
    good = [{"n": 1}, {"n": 2}]
    bad: list[str | bytes] = [
        b'{"n": "\xff\xfe"}',
        "[1]",
        '"text"',
        "{",
        '{"n": 3} {"n": 4}',
        '{"n": 5} and more',
        '{"n": 7}]',
        '{"n": 8}}',
        '{"n": 9} {}',
        '{"n": 10}, null]',
        '{"n": 11} 5}',
        '{"n": 12}] {"t": "}"}',
        "{'n': 6}",
        "nul",
    ]
    desk.land("1.json", *good, *bad)
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (2, len(bad))
    dead_letters = desk("dlq", "list", "--json").json
    assert {letter["reason"] for letter in dead_letters} == {"decode"}
    messages = [letter["message"] for letter in dead_letters]
    assert messages.count("not valid UTF-8") == 1 and messages.count("an array, not one JSON object") == 1
    assert messages.count("not one JSON object") == len(bad) - 2
    kept = {json.dumps(desk("dlq", "show", letter["id"], "--json").json["raw"]) for letter in dead_letters}
    assert len(kept) == len(bad)


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_selection_loses_nothing_that_cannot_be_read(tmp_path: Path, format: str) -> None:
    topics = {
        "chosen": "include_events: [Placed]",
        "filtered": "filter: n > 0",
        "rest": "exclude_events: [Noise]",
    }
    desk = Desk(tmp_path, topics, format=format)
    desk.land("1.json", {"event_type": "Placed", "n": 1}, {"event_type": "Noise", "n": 1})
    assert {name: flow["rows"] for name, flow in desk.run().items()} == {"chosen": 1, "filtered": 2, "rest": 1}
    desk.land("2.json", {"event_type": "Placed", "n": 2}, "{broken", {"event_type": "Noise", "n": 0})
    flows = desk.run()
    assert {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items()} == dict.fromkeys(topics, (1, 1))


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg", "parquet"]))
def test_types_widen_where_the_format_can(tmp_path: Path, format: str) -> None:
    desk = Desk(tmp_path, {"kept": ""}, source=', schema_hints: "n int"', format=format)
    desk.land("1.json", {"n": 1})
    desk.run()
    desk.land("2.json", {"n": 5_000_000_000}, {"n": 2})
    flow = desk.run()["kept"]
    with Lake.open(desk.root) as lake:
        widens = ("int", "bigint") in lake.topic("kept")._table().format.widenings
    assert (flow["rows"], flow["rejected"]) == ((2, 0) if widens else (1, 1))
    if not widens:
        (letter,) = desk("dlq", "list", "--json").json
        problem, _, hint = letter["message"].partition("; hint: ")
        assert problem == "n: 5000000000 does not fit int"
        assert "mismatch: discard_value" in hint and "`headwater dlq replay kept`" in hint
        # The other cure, word by word: the type in the hints, and the flow from the beginning.
        assert hint.endswith("in the source's schema_hints, then `headwater flow rebuild kept --yes`")
        file = desk.root / "headwater.yml"
        file.write_text(file.read_text().replace("n int", "n bigint"))
        assert desk("flow", "rebuild", "kept", "--yes").code == 0
        assert desk.run()["kept"]["rejected"] == 0
        assert desk.rows("kept", "n") == [(1,), (2,), (5_000_000_000,)]
        assert desk("dlq", "list", "--json").json == []


def test_declared_schemas(tmp_path: Path) -> None:
    source = ', schema: "id bigint NOT NULL, name string"'
    topics = {"plain": "", "open": "schema: {new_column: add}"}
    desk = Desk(tmp_path, topics, source=source)
    desk.land("1.json", {"id": 1, "name": "a", "more": 1}, {"name": "no id"}, {"id": 2})
    flows = desk.run()
    assert {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items()} == dict.fromkeys(topics, (2, 1))
    with Lake.open(desk.root) as lake:
        assert "more" not in lake.topic("plain").df().columns
        assert "more" in lake.topic("open").df().columns
    (letter,) = desk("dlq", "list", "--topic", "plain", "--json").json
    told, _, hint = letter["message"].partition("; hint: ")
    assert told == "id is required and has no value" and hint.startswith("take NOT NULL from it")


def test_what_is_required_stays_required(tmp_path: Path) -> None:
    source = ', schema: "id bigint NOT NULL, amount double"'
    topics = {"discarded": "schema: {mismatch: discard_value}", "rescued": "schema: {new_column: rescue}"}
    desk = Desk(tmp_path, topics, source=source)
    desk.land("1.json", {"id": 1, "amount": "much"}, {"id": "one", "amount": 2}, {"amount": "much"})
    flows = desk.run()
    assert {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items()} == dict.fromkeys(topics, (1, 2))
    file = desk.root / "headwater.yml"
    file.write_text(file.read_text().replace("amount double", "amount double, name string"))
    desk.land("2.json", {"id": 2, "amount": 3, "name": "a"})
    desk.run()
    assert desk.rows("discarded", "id, amount, name") == [(1, None, None), (2, 3.0, "a")]


def test_a_first_step_in_which_nothing_can_be_read(tmp_path: Path) -> None:
    kept = "deduplicate_by: event_id, partition_by: [country], schema: {new_column: ignore}"
    desk = Desk(tmp_path, {"kept": kept}, source=", columns: {timestamp: ts}")
    desk.land("1.json", "{broken")
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"], flow["error"]) == (0, 1, None)
    desk.land("2.json", {"event_id": "a", "country": "de", "ts": 1700000000.5}, {"event_id": "a", "country": "de"})
    assert desk.run()["kept"]["rows"] == 1
    assert desk.rows("kept", "event_id, country, event_timestamp") == [
        ("a", "de", _utc(2023, 11, 14, 22, 13, 20, 500000))
    ]


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_events_sent_twice(tmp_path: Path, format: str) -> None:
    topics = {
        "ever": "deduplicate_by: event_id",
        "lately": "deduplicate_by: [event_id, part], deduplicate_within: 1h",
        "moment": "deduplicate_by: event_id, deduplicate_within: 1s",
    }
    desk = Desk(tmp_path, topics, format=format)
    desk.land("1.json", {"event_id": "a", "part": 1}, {"event_id": "a", "part": 2}, {"event_id": "b", "part": 1})
    desk.land("1b.json", {"event_id": None, "part": None}, {"event_id": None, "part": None})
    desk.run()
    assert desk.rows("ever", "event_id, part", "1, 2") == [(None, None), (None, None), ("a", 1), ("b", 1)]
    assert len(desk.rows("lately", "event_id")) == 5
    time.sleep(1.2)
    desk.land("2.json", {"event_id": "a", "part": 1}, {"event_id": "c", "part": 1}, {"event_id": "c", "part": 1})
    desk.run()
    assert [row[0] for row in desk.rows("ever", "event_id")] == [None, None, "a", "b", "c"]
    assert [row[0] for row in desk.rows("lately", "event_id")] == [None, None, "a", "a", "b", "c"]
    assert [row[0] for row in desk.rows("moment", "event_id")] == [None, None, "a", "a", "b", "c"]


@pytest.mark.parametrize("native_rows", [topic.NATIVE_ROWS, 0])
@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg", "paimon"]))
def test_what_the_look_back_leaves_out_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, native_rows: int
) -> None:
    monkeypatch.setattr(topic, "NATIVE_ROWS", native_rows)
    desk = Desk(tmp_path, {"wide": "deduplicate_by: event_id, deduplicate_within: 1s"}, format=format)
    wide = {f"column_{n}": n for n in range(120)}
    desk.land("1.json", {"event_id": "old", **wide})
    desk.run()
    for file in (tmp_path / "lake").rglob("*.parquet"):
        if "checkpoint" not in file.name:
            file.unlink()
    time.sleep(1.1)
    desk.land("2.json", {"event_id": "new", **wide}, {"event_id": "new", **wide})
    flow = desk.run()["wide"]
    assert (flow["rows"], flow["error"]) == (1, None)


@pytest.mark.parametrize("native_rows", [topic.NATIVE_ROWS, 0])
def test_a_topic_whose_process_ends_when_its_first_rows_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_rows: int
) -> None:
    monkeypatch.setattr(topic, "NATIVE_ROWS", native_rows)
    desk = Desk(tmp_path, {"kept": ""})
    desk.land("1.json", {"event_id": "a"})
    with patch.object(Warehouse, "remember", side_effect=TerminalError(Code.INTERNAL, "the end")):
        assert "the end" in desk.run()["kept"]["error"]
    assert desk.run()["kept"]["error"] is None
    assert desk.rows("kept", "event_id") == [("a",)]
    with Lake.open(tmp_path) as lake:
        assert [found.created_at is not None for found in lake.topics()] == [True]


def test_a_column_to_deduplicate_by_that_is_not_there(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": "deduplicate_by: evnt_id"})
    desk.land("1.json", {"event_id": "a"})
    error = desk.run()["kept"]["error"]
    assert "evnt_id" in error and "event_id" in error


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize("name", ["landing", "other"])
def test_a_topic_that_never_landed_may_get_another_source(tmp_path: Path, name: str) -> None:
    """Of another name or type: the step that failed was planned over positions that mean nothing there."""
    desk = Desk(tmp_path, {"orders": "include_events: [A]"})
    desk.land("1.json", {"kind": "A", "id": 1})
    assert "have no event_type" in desk.run()["orders"]["error"]
    file = desk.root / "headwater.yml"
    text = file.read_text().replace("from: landing", f"from: {name}")
    other = "{type: append, columns: {type: kind}}"
    file.write_text(text.replace("landing: {type: files, path: ./landing}", f"{name}: {other}"))
    assert desk.run()["orders"]["state"] == "done"
    (desk.root / "rows.json").write_text('{"kind": "A", "id": 2}\n{"kind": "B", "id": 3}\n')
    assert desk("topic", "append", "orders", str(desk.root / "rows.json")).code == 0
    assert desk.rows("orders", "id") == [(2,)]
