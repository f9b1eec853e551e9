"""Types come from the records that are ingested: not from those that are rejected, nor from a few that disagree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headwater.api.lake import Lake
from headwater.ingest import topic
from tests.hints.followed import follows
from tests.ingest.test_ingest import Desk

pytestmark = pytest.mark.usefixtures("spark")

CLICKS: list[dict[str, Any] | str] = [
    {"id": n, "user": {"name": f"u{n}", "age": n}, "items": [{"sku": "a"}], "at": {"geo": {"lat": 1.5}}, "n": n}
    for n in range(200)
]


def types(desk: Desk, name: str) -> dict[str, str]:
    with Lake.open(desk.root) as lake:
        return {f.name: f.dataType.simpleString() for f in lake.topic(name).df().schema.fields}


@pytest.mark.parametrize("native_rows", [topic.NATIVE_ROWS, 0])
def test_one_that_disagrees_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_rows: int) -> None:
    monkeypatch.setattr(topic, "NATIVE_ROWS", native_rows)
    topics = {"kept": "", "lenient": "schema: {mismatch: discard_value}"}
    desk = Desk(tmp_path, topics)
    few = [
        {"id": 500, "user": "c1"},
        {"id": 501, "items": ["b"], "extra": 1},
        {"id": 502, "at": {"geo": "here"}},
        {"id": 503, "n": "many"},
    ]
    desk.land("1.json", few[0], *CLICKS[:100], *few[1:], *CLICKS[100:])
    flows = desk.run()
    found = {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items()}
    assert found == {"kept": (200, 4), "lenient": (204, 0)}
    kept = types(desk, "kept")
    assert kept["user"] == "struct<age:bigint,name:string>" and kept["items"] == "array<struct<sku:string>>"
    assert kept["at"] == "struct<geo:struct<lat:double>>" and kept["n"] == "bigint"
    assert "extra" not in kept  # a rejected record brings no column
    messages = [letter["message"] for letter in desk("dlq", "list", "--topic", "kept", "--json").json]
    assert any("user: c1 does not fit struct<age:bigint,name:string>" in message for message in messages)
    # A column that comes later is decided alike.
    later = [{"id": n, "later": {"a": n}} for n in range(600, 630)]
    desk.land("2.json", {"id": 599, "later": "x"}, *later)
    flows = desk.run()
    assert (flows["kept"]["rows"], flows["kept"]["rejected"]) == (30, 1)
    assert types(desk, "kept")["later"] == "struct<a:bigint>"


def test_rejected_records_decide_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": ""}, source=', schema_hints: "id bigint"')
    bad = {"event_timestamp": "soon", "user": "c1", "n": "x", "more": 1}
    desk.land(
        "1.json", bad, {"id": 1, "user": {"name": "a"}, "n": 1}, {"id": "one", "user": "c2", "other": 1}, "{broken"
    )
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (1, 3)
    found = types(desk, "kept")
    assert found["user"] == "struct<name:string>" and found["n"] == "bigint"
    assert not {"more", "other"} & set(found)
    desk.land("2.json", {**bad, "new": "x"}, {"id": 2, "new": {"a": 1}})
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (1, 1) and types(desk, "kept")["new"] == "struct<a:bigint>"


@follows("tell the type in the source's schema_hints", here=False)
def test_without_a_majority_the_column_is_text_and_a_warning_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": ""})
    desk.land("1.json", {"id": 1, "user": {"name": "a"}}, {"id": 2, "user": "c1"}, {"id": 3, "user": {"name": "b"}})
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (3, 0)
    assert [json.loads(text) if id != 2 else text for id, text in desk.rows("kept", "id, user")] == [
        {"name": "a"},
        "c1",
        {"name": "b"},
    ]
    note = 'user is kept as text, since records disagree: 2 × object ({"name": "a"}), 1 × text ("c1")'
    with Lake.open(desk.root) as lake:
        assert note in lake.topic("kept").schemas()[0].changes
    logged = [json.loads(line) for line in (desk.root / ".headwater/logs/headwater.log").read_text().splitlines()]
    (line,) = (line for line in logged if line["event"] == note)
    assert (line["level"], line["hint"]) == ("warning", "tell the type in the source's schema_hints")
    file = desk.root / "headwater.yml"
    file.write_text(file.read_text().replace("./landing", './landing, schema_hints: "user struct<name:string>"'))
    assert desk("flow", "rebuild", "kept", "--yes").code == 0
    assert desk.run()["kept"]["rejected"] == 1
    assert types(desk, "kept")["user"] == "struct<name:string>" and desk.rows("kept", "id") == [(1,), (3,)]
