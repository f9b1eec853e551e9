"""Dead letters are listed, shown, replayed by today's pipeline, and dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.lake import Lake
from tests.ingest.test_ingest import Desk
from tests.scale import in_formats

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_replay_takes_in_what_today_can_be_taken_in(tmp_path: Path, format: str) -> None:
    desk = Desk(tmp_path, {"orders": "schema: {mismatch: quarantine}"}, format=format)
    desk.land("1.json", {"id": 1, "total": 5}, {"id": 2, "total": 6})
    desk.run()
    desk.land("2.json", {"id": 3, "total": 7}, {"id": 4, "total": "many"}, "{broken")
    flow = desk.run()["orders"]
    assert (flow["rows"], flow["rejected"]) == (1, 2)
    file = desk.root / "headwater.yml"
    (hinted,) = desk("dlq", "list", "--reason", "schema", "--json").json
    assert "`schema: {mismatch: discard_value}` takes the event in" in hinted["message"]
    file.write_text(file.read_text().replace("mismatch: quarantine", "mismatch: discard_value"))
    assert desk.run()["orders"]["state"] == "done", "what the hint says can be planned and run"
    assert desk("dlq", "replay", "--json").json == [
        {"topic": "orders", "tried": 2, "came_through": 1, "rows": 1, "still_dead": 1}
    ]
    assert desk.rows("orders", "id, total") == [(1, 5), (2, 6), (3, 7), (4, None)]
    again = desk("dlq", "replay", "orders", "--json").json
    assert again == [{"topic": "orders", "tried": 1, "came_through": 0, "rows": 0, "still_dead": 1}]
    assert len(desk.rows("orders", "id")) == 4
    if format != "delta":  # dead letters themselves are kept in Delta whatever the topic's format
        return

    (letter,) = desk("dlq", "list", "--json").json
    assert (letter["reason"], set(letter)) == ("decode", {"id", "topic", "reason", "message", "position", "at"})
    shown = desk("dlq", "show", letter["id"][:10], "--json").json
    assert (shown["raw"], shown["source"], shown["topic"]) == ("{broken", "landing", "orders")
    refused = desk("dlq", "drop", "orders")
    assert refused.code == 2 and "--yes" in refused.err
    assert desk("dlq", "drop", "--id", letter["id"][:10], "--yes", "--json").json == {"dropped": 1}
    assert desk("dlq", "list", "--json").json == []
    assert desk("dlq", "show", letter["id"]).code == 2


def test_a_replay_that_was_cut_off_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path, {"orders": ""})
    desk.land("1.json", {"id": 1}, {"id": "two"})
    file = desk.root / "headwater.yml"
    file.write_text(file.read_text().replace("./landing", './landing, schema_hints: "id bigint"'))
    assert desk.run()["orders"]["rejected"] == 1
    file.write_text(file.read_text().replace("from: landing", "from: landing, schema: {mismatch: discard_value}"))
    from headwater.ingest.dead_letters import DeadLetters

    def cut_off(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DeadLetters, "resolve", cut_off)
        assert desk("dlq", "replay", "orders").code == 130
    assert len(desk.rows("orders", "id")) == 2
    assert desk("dlq", "replay", "orders", "--json").json[0]["still_dead"] == 0
    assert len(desk.rows("orders", "id")) == 2
    assert desk("dlq", "list", "--json").json == []


def test_a_letter_that_came_back_is_not_forgotten(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"orders": "keep_raw: true, schema: {mismatch: discard_value}"})
    file = desk.root / "headwater.yml"
    lenient = file.read_text().replace("./landing", './landing, schema: "id bigint"')
    file.write_text(lenient.replace("discard_value", "quarantine"))
    desk.land("1.json", {"id": 1}, {"id": "two"})
    desk.run()
    file.write_text(lenient)
    assert desk("dlq", "replay", "--json").json[0]["came_through"] == 1
    file.write_text(lenient.replace("discard_value", "quarantine"))
    assert desk("topic", "remap", "orders", "--yes", "--json").json["rejected"] == 1
    assert desk("dlq", "replay", "--json").json == [
        {"topic": "orders", "tried": 1, "came_through": 0, "rows": 0, "still_dead": 1}
    ]
    assert len(desk("dlq", "list", "--json").json) == 1


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_remap_applies_todays_mapping_to_what_was_kept(tmp_path: Path, format: str) -> None:
    desk = Desk(tmp_path, {"orders": "keep_raw: true"}, format=format)
    desk.land("1.json", {"event_type": "Placed", "id": 1, "cents": 250}, {"event_type": "Noise", "id": 2, "cents": 1})
    desk.run()
    before = desk.rows("orders", "id, _ingested_at")
    file = desk.root / "headwater.yml"
    wanted = "from: landing, include_events: [Placed], mappers: shop,"
    file.write_text("code: shop.py\n" + file.read_text().replace("from: landing,", wanted))
    (desk.root / "shop.py").write_text(
        "from headwater import mapper\n\n\n@mapper\ndef row(event):\n"
        '    return {"id": event["id"], "euros": event["cents"] / 100}\n'
    )
    done = desk("topic", "remap", "orders", "--yes", "--json")
    assert done.code == 0, done.err
    assert (done.json["rows_before"], done.json["rows_after"], done.json["rejected"]) == (2, 1, 0)
    assert desk.rows("orders", "id, euros, event_type") == [(1, 2.5, "Placed")]
    assert desk.rows("orders", "id, _ingested_at") == before[:1]
    with Lake.open(desk.root) as lake:
        first = lake.topic("orders").history()[-1].version
        assert lake.topic("orders").df(first).count() <= 2
    desk.land("2.json", {"event_type": "Placed", "id": 3, "cents": 50})
    assert desk.run()["orders"]["rows"] == 1
    assert desk.rows("orders", "id, euros") == [(1, 2.5), (3, 0.5)]


def test_remap_needs_what_was_kept(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"orders": ""})
    desk.land("1.json", {"id": 1})
    desk.run()
    refused = desk("topic", "remap", "orders")
    assert refused.code == 2 and "keep_raw" in refused.err
