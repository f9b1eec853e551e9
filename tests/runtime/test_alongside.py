"""What happens alongside a runner: views come and go by statements, flows start over, the project is reloaded; and what
can't go on because of another flow says so."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater import Lake
from headwater.runner.holds import alone
from tests.hints.followed import follows
from tests.runtime.alongside import running, until
from tests.scale import in_formats
from tests.support import Shop, headwater

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(600)]


def write(root: Path, text: str, *changes: tuple[str, str]) -> None:
    """The project file, whole at once."""
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    aside = root / "headwater.yml.part"
    aside.write_text(text, encoding="utf-8")
    aside.replace(root / "headwater.yml")


def counted(shop: Shop, view: str) -> Any:
    answer = headwater("query", f"SELECT n FROM mv('{view}')", "--json", "--project", shop.root)
    return [row["n"] for row in answer.json] if answer.code == 0 else answer.err


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_a_runner_takes_and_lets_go_of_views_that_statements_make_replace_and_drop(tmp_path: Path, format: str) -> None:
    shop = Shop.make(tmp_path, format=format)
    shop.land("1.json", [{"event_id": "a"}])
    with running(tmp_path) as runner:
        runner.until("step", "topics.orders")
        made = (
            "CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM topic('orders') WITH (interval = '1 second')"
        )
        assert runner("query", made).code == 0
        begun = time.monotonic()
        runner.until("started", "views.totals")
        print(f"taken after {time.monotonic() - begun:.2f} s")
        query = "SELECT max(n) AS n FROM mv('totals')"
        assert runner("mv", "create", "above", query).code == 0  # immediate
        assert runner("mv", "create", "asked", "SELECT * FROM topic('orders')", "--refresh", "manual").code == 0
        runner.until("started", "views.above")
        shop.land("2.json", [{"event_id": "b"}])
        until(lambda: counted(shop, "above") == [2], runner.told)
        assert runner.status("views.totals")["state"] in ("running", "waiting")

        # Another query under the same name: the runner goes on with that one, and never again with the old one.
        replaced = made.replace("CREATE", "CREATE OR REPLACE").replace("count(*)", "10 * count(*)")
        answer = runner("query", replaced)
        assert answer.code == 0, answer.err
        runner.until("started", "views.totals", times=2)
        shop.land("3.json", [{"event_id": "c"}])
        until(lambda: counted(shop, "above") == [30], runner.told)

        # Dropped: it stays away, whatever comes.
        for view in ("above", "totals"):
            answer = runner("mv", "drop", view, "--yes")
            assert answer.code == 0, answer.err
        steps = len(runner.of("step", "views.totals"))
        shop.land("4.json", [{"event_id": "d"}])
        runner.until("step", "topics.orders", times=4)
        time.sleep(2.5)  # more than its interval
        assert len(runner.of("step", "views.totals")) == steps
        assert [one["name"] for one in runner("mv", "list", "--json").json] == ["asked"]
        assert not runner.of("started", "views.asked") and not runner.of("failed")
        assert {one["flow"] for one in runner("status", "--json").json} == {"topics.orders", "views.asked"}
    assert [report.flow for report in runner.reports] == ["topics.orders"]


def test_a_flow_that_a_command_has_when_the_runner_starts_is_taken_when_it_comes_back(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("1.json", [{"event_id": "a"}])
    with Lake.open(tmp_path) as lake, ExitStack() as command:
        command.enter_context(alone(lake._warehouse, "topics.orders"))
        with running(tmp_path) as runner:
            until(lambda: runner.reports, runner.told)
            assert not runner.of("started") and not runner.of("failed")
            command.close()
            assert runner.until("step", "topics.orders").details["rows"] == 1


BLOCKED = """\
name: shop
sources: {landing: {type: files, path: ./landing}, other: {type: files, path: ./other}}
topics:
  orders: {from: landing, schema: {mismatch: fail}}
  clicks: {from: other}
tables:
  copies: {sql: "SELECT event_id, x FROM stream(topic('orders'))"}
views:
  totals: {sql: "SELECT count(*) AS n FROM table('copies')"}
  above: {sql: "SELECT max(n) AS n FROM mv('totals')"}
  both: {sql: "SELECT count(*) AS n FROM topic('clicks') CROSS JOIN (SELECT max(n) AS m FROM mv('above'))"}
  apart: {sql: "SELECT count(*) AS n FROM topic('clicks')"}
"""
BELOW = {"tables.copies", "views.totals", "views.above", "views.both"}


@follows("mend that; `headwater flow resume {}` tries it again")
def test_flows_below_one_that_was_given_up_are_blocked_by_it_until_it_goes_on(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    (tmp_path / "headwater.yml").write_text(BLOCKED, encoding="utf-8")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "1.json").write_text('{"event_id": "c"}\n', encoding="utf-8")
    shop.land("1.json", [{"event_id": "a", "x": 1}])
    assert shop.run().code == 0
    shop.land("2.json", [{"event_id": "b", "x": "no number"}])

    once = shop.run()
    flows = {one["flow"]: one for one in once.events[-1]["flows"]}
    assert once.code == 1
    states = {flow: one["state"] for flow, one in flows.items()}
    assert states == {
        **dict.fromkeys(BELOW, "blocked"), "topics.orders": "failed", "topics.clicks": "done", "views.apart": "done"
    }  # fmt: skip
    for flow in BELOW:
        assert flows[flow]["blocked_by"] == ["topics.orders"]
        assert "FLOW_BLOCKED" in flows[flow]["error"] and "topics.orders, which was given up" in flows[flow]["error"]
    assert {e["flow"] for e in once.events if e["event"] == "blocked"} == BELOW
    shown = {one["flow"]: one for one in headwater("status", "--json", "--project", tmp_path).json}
    assert {flow for flow, one in shown.items() if one["state"] == "blocked"} == BELOW
    text = headwater("run", "--once", "--project", tmp_path)
    assert text.code == 1 and text.out.count("blocked") == len(BELOW) and "tables.copies failed:" not in text.err

    with running(tmp_path) as runner:
        runner.until("failed", "topics.orders")
        for flow in BELOW:
            assert runner.until("blocked", flow).details == {"by": ["topics.orders"]}
        until(lambda: runner.status("views.above")["state"] == "blocked")
        assert runner.status("views.apart")["state"] in ("waiting", "running")
        # Resumed it fails again; what is below is free as long as that is not so.
        assert runner("flow", "resume", "orders").code == 0
        runner.until("unblocked", "views.above")
        runner.until("blocked", "views.above", times=2)
        # What is below goes on with what else it reads.
        (tmp_path / "other" / "2.json").write_text('{"event_id": "d"}\n', encoding="utf-8")
        until(lambda: counted(shop, "apart") == [2], runner.told)
        # Mended, and built again from the beginning, while everything runs.
        (tmp_path / "landing" / "2.json").unlink()
        shop.land("3.json", [{"event_id": "e", "x": 3}])
        answer = runner("flow", "rebuild", "orders", "--yes")
        assert answer.code == 0, answer.err
        runner.until("unblocked", "views.both", times=2)
        until(lambda: counted(shop, "above") == [2], runner.told)
        until(lambda: runner.status("views.above")["state"] == "waiting")
        assert runner.status("views.above")["error"] is None and runner.status("topics.orders")["epoch"] == 2
        # One that runs well starts over as well, without a word from the others.
        started = {flow: len(runner.of("started", flow)) for flow in BELOW}
        assert runner("flow", "reset", "orders", "--yes", "--json").json["epoch"] == 3
        until(lambda: counted(shop, "above") == [4], runner.told)
        assert {flow: len(runner.of("started", flow)) for flow in BELOW} == started
    assert all(report.error is None for report in runner.reports)


PROJECT = """\
name: shop
sources: {landing: {type: files, path: ./landing}}
topics:
  orders: {from: landing}
  events: {from: landing}
views:
  totals: {sql: "SELECT count(*) AS n FROM topic('orders')"}
  other: {sql: "SELECT count(*) AS n FROM topic('events')"}
"""


@follows("`headwater run` starts one with the current project", here=False)
def test_a_reload_touches_the_flows_concerned_and_a_broken_project_none(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    write(tmp_path, PROJECT)
    shop.land("1.json", [{"event_id": "a"}])
    with running(tmp_path, watch=True) as runner:
        for flow in ("topics.orders", "topics.events", "views.totals", "views.other"):
            runner.until("step", flow)

        # Broken, or asking for what takes rows away, or for another Spark: refused, and everything goes on.
        refusals = 0
        for changes, words in (
            ([("from: landing}\n  events", "from: nowhere}\n  events")], "there is no source 'nowhere'"),
            (
                [("orders: {from: landing}", "orders: {from: landing, partition_by: [event_date]}")],
                "`headwater reload --apply` does it",
            ),
            ([("name: shop", "name: shop\nspark: {ui: true}")], "RESTART_NEEDED"),
            ([("name: shop", "name: shop\nformat: hudi\nstate: postgresql://x@localhost/y")], "`state` has changed"),
        ):
            write(tmp_path, PROJECT, *changes)
            refusals += 1
            event = runner.until("reload_refused", times=refusals)
            assert words in str(event.details["errors"]), event
            answer = runner("reload")
            assert answer.code == 2 and words in answer.err, answer.err
        shop.land("2.json", [{"event_id": "b"}])
        runner.until("step", "views.totals", times=2)
        assert not runner.of("stopped") and not runner.of("reloaded")

        # One is changed, one comes, one goes: only they begin and end.
        two = PROJECT.replace("count(*) AS n FROM topic('events')", "2 * count(*) AS n FROM topic('events')")
        two = two.replace("  totals: {", "  # totals: {") + "  more: {sql: \"SELECT n FROM mv('other')\"}\n"
        write(tmp_path, two)
        reloaded = runner.until("reloaded").details
        assert reloaded == {"added": ["views.more"], "changed": ["views.other"], "removed": ["views.totals"]}
        until(lambda: counted(shop, "more") == [4], runner.told)
        assert len(runner.of("started", "topics.orders")) == len(runner.of("started", "topics.events")) == 1
        assert len(runner.of("started", "views.other")) == 2
        assert [one.flow for one in runner.of("stopped")].count("views.totals") == 1
        assert [one["flow"] for one in runner("status", "--json").json] == [
            "topics.orders", "topics.events", "views.more", "views.other"
        ]  # fmt: skip
        assert runner("reload", "--json").json == {"added": [], "changed": [], "removed": []}

        # What takes rows away is done where that is allowed, and those who read it go on with the new table.
        three = two.replace("events: {from: landing}", "events: {from: landing, partition_by: [event_date]}")
        write(tmp_path, three)
        runner.until("reload_refused", times=refusals + 1)
        changed = runner("reload", "--apply", "--json")
        assert changed.code == 0, changed.err
        assert changed.json["changed"] == ["topics.events", "views.other"]
        shop.land("3.json", [{"event_id": "c"}])
        until(lambda: counted(shop, "more") == [6], runner.told)
        assert len(runner.of("started", "topics.orders")) == 1

        # A signal asks for the same.
        write(tmp_path, three.replace("orders: {from: landing}", "orders: {from: landing, batch_size: 7}"))
        runner.reloading.set()
        assert runner.until("reloaded", times=4).details["changed"] == ["topics.orders"]
        assert not runner.of("failed")
    answer = headwater("reload", "--project", tmp_path)
    assert answer.code == 1 and "NO_RUNNER" in answer.err
