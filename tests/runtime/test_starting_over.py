"""Runs that come to an end, paused flows, and flows that start over."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Code
from headwater.runner.reports import FlowEvent
from tests.scale import in_formats
from tests.services.postgres import postgres
from tests.support import Shop, headwater

pytestmark = pytest.mark.usefixtures("spark")


def ids(shop: Shop) -> list[str]:
    return sorted(row["event_id"] for row in shop.query("SELECT event_id FROM topic('orders')"))


def test_once_ends_where_the_sources_ended_when_it_began(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("a.json", [{"event_id": "a"}])

    def more(event: FlowEvent) -> None:
        if event.event == "step":
            shop.land("b.json", [{"event_id": "b"}])

    with Lake.open(tmp_path) as lake:
        (report,) = lake.run(once=True, on_event=more)
    assert (report.steps, report.state.value) == (1, "done")
    assert ids(shop) == ["a"]
    shop.run()
    assert ids(shop) == ["a", "b"]


def test_every_so_often(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("a.json", [{"event_id": "a"}])
    events: list[FlowEvent] = []
    stopping = threading.Event()

    def listen(event: FlowEvent) -> None:
        events.append(event)
        if event.event == "step" and len(events) == 2:
            # A little later: what is there at once still belongs to the same round.
            threading.Timer(0.5, lambda: shop.land("b.json", [{"event_id": "b"}])).start()
        elif event.event == "step":
            stopping.set()

    with Lake.open(tmp_path) as lake:
        (report,) = lake.run(every=timedelta(seconds=1), on_event=listen, stopping=stopping)
    first, second = (event.at for event in events if event.event == "step")
    assert second - first > timedelta(seconds=0.9)
    assert [event.event for event in events] == ["started", "step", "step", "stopped"]
    assert report.error is None and ids(shop) == ["a", "b"]


def test_a_paused_flow_is_not_run_even_after_a_restart_and_that_is_no_failure(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("a.json", [{"event_id": "a"}])
    assert headwater("flow", "pause", "orders", "--project", tmp_path).code == 0
    paused = shop.run()
    assert paused.code == 0 and paused.events[-1]["flows"][0]["state"] == "paused"
    assert paused.events[-1]["flows"][0]["steps"] == 0
    assert headwater("flow", "list", "--json", "--project", tmp_path).json[0]["paused"] is True
    assert "flow resume topics.orders" in headwater("run", "--once", "--project", tmp_path).err
    headwater("flow", "resume", "topics.orders", "--project", tmp_path)
    assert shop.run("--select", "topic:ord*").events[-1]["flows"][0]["rows"] == 1


@pytest.mark.parametrize("format", in_formats("delta", full=["parquet"]))
def test_reset_takes_everything_in_again_and_rebuild_only_what_is_left(tmp_path: Path, format: str) -> None:
    shop = Shop.make(tmp_path, format=format)
    shop.land("a.json", [{"event_id": "a"}])
    shop.run()
    shop.land("b.json", [{"event_id": "b"}])
    shop.run()
    for command in ("reset", "rebuild"):
        refused = headwater("flow", command, "orders", "--project", tmp_path)
        assert refused.code == 2 and "--yes" in refused.err
    assert ids(shop) == ["a", "b"]
    (kept,) = headwater("status", "--json", "--project", tmp_path).json
    assert (kept["rows"], kept["steps"]) == (2, 2), "of both runs"

    answer = headwater("flow", "reset", "orders", "--yes", "--json", "--project", tmp_path)
    assert answer.json == {"flow": "orders", "epoch": 2, "empty": False}
    assert {e["epoch"] for e in shop.run().events if e["event"] == "step"} == {2}
    assert ids(shop) == ["a", "a", "b", "b"]

    (tmp_path / "landing" / "a.json").unlink()
    assert headwater("flow", "rebuild", "orders", "--yes", "--project", tmp_path).code == 0
    rebuilt = shop.run()
    assert rebuilt.code == 0, rebuilt.err
    assert ids(shop) == ["b"]
    (anew,) = headwater("status", "--json", "--project", tmp_path).json
    assert (anew["rows"], anew["epoch"]) == (1, 3), "since it was rebuilt"
    assert shop.run().events[-1]["flows"][0]["steps"] == 0, "it is emptied once"
    shop.land("c.json", [{"event_id": "c"}])
    shop.run()
    assert ids(shop) == ["b", "c"]


def test_an_unknown_flow_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    Shop.make(tmp_path)
    for command in (["flow", "pause", "ordres"], ["run", "ordres"]):
        answer = headwater(*command, "--project", tmp_path)
        assert answer.code == 2 and "did you mean 'orders'?" in answer.err.replace("topics.", "")


def test_a_shared_state_database_runs_fenced_formats_and_refuses_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop.make(tmp_path)
    text = (tmp_path / "headwater.yml").read_text()
    (tmp_path / "headwater.yml").write_text(
        text.replace("format: delta", "state: ${STATE}") + "  plain: {from: landing, format: parquet}\n"
    )
    shop.land("a.json", [{"event_id": "a"}])
    with postgres() as address:
        monkeypatch.setenv("STATE", address)
        answer = shop.run()
        flows = {flow["flow"]: flow for flow in answer.events[-1]["flows"]}
        assert answer.code == 1 and flows["topics.orders"]["rows"] == 1
        assert (
            str(Code.UNSUPPORTED) in flows["topics.plain"]["error"] and "Delta Lake" in flows["topics.plain"]["error"]
        )
        assert ids(shop) == ["a"]
        told = json.dumps(headwater("status", "--json", "--project", tmp_path).json)
        assert "done" in told and "hidden" not in told + answer.out + answer.err
    assert not (tmp_path / ".headwater" / "state.db").exists()
