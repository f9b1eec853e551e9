"""How flows are, over the restarts of runners: from the state alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from headwater.api.lake import Lake
from headwater.cli.live import status_lines
from headwater.core.errors import Code, TransientError
from headwater.flows.ledger import Intent, Ledger
from headwater.flows.step import Landed, StepDone
from headwater.runner.reports import FlowReport, FlowState
from tests.cli.screen import on_terminal
from tests.runtime.terminal import CTRL_C, Terminal
from tests.support import Shop, headwater

FLOW = "topics.orders"
COMMAND = [str(Path(sys.executable).with_name("headwater")), "status", "--watch", "--project"]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.make(tmp_path / "shop")


def say(shop: Shop, report: FlowReport) -> None:
    """As the heartbeat of a runner does."""
    with Lake.open(shop.root) as lake:
        lake._warehouse.state.put_statuses({FLOW: report.status()})


def status(shop: Shop) -> dict[str, Any]:
    (found,) = headwater("status", "--json", "--project", shop.root).json
    assert isinstance(found, dict)
    return found


def known(shop: Shop) -> FlowReport:
    """A report of the next run."""
    with Lake.open(shop.root) as lake:
        return FlowReport.after(FLOW, lake._warehouse.state.statuses().get(FLOW))


def step(number: int, rows: int, epoch: int = 0) -> StepDone:
    return StepDone(FLOW, epoch, number, {"files": str(number)}, Landed(version=number, rows=rows, rejected=1))


def test_status_is_kept_over_a_restart(shop: Shop) -> None:
    first = known(shop)
    for number in range(3):
        first.landed(step(number, 100))
    first.state = FlowState.DONE
    say(shop, first)
    before = status(shop)
    assert (before["rows"], before["steps"], before["rejected"]) == (300, 3, 3)
    assert before["last_rows_per_second"] > 0 and before["rows_per_second"] == 0.0

    second = known(shop)
    assert second.record()["rows"] == 0, "what this run has done"
    say(shop, second)
    after = status(shop)
    same = (
        "rows",
        "steps",
        "rejected",
        "last_commit_at",
        "last_rows_per_second",
        "epoch",
        "step",
        "version",
        "positions",
    )
    assert {key: after[key] for key in same} == {key: before[key] for key in same}

    second.landed(step(3, 0))
    second.landed(step(4, 7))
    say(shop, second)
    assert (status(shop)["rows"], second.record()["rows"]) == (307, 7)
    assert status(shop)["last_commit_at"] > before["last_commit_at"]


@pytest.mark.parametrize("again", [step(0, 5, epoch=1), step(2, 5)], ids=["a new epoch", "dropped and rebuilt"])
def test_a_flow_that_starts_over_counts_from_there(again: StepDone) -> None:
    report = FlowReport(FLOW)
    for number in range(3):
        report.landed(step(number, 100))
    report.landed(again)
    assert (report.status()["rows"], report.record()["rows"]) == (5, 305)


def test_a_status_of_an_earlier_release() -> None:
    report = FlowReport.after(FLOW, {"flow": FLOW, "state": "done", "rows": 3, "positions": None})
    assert (report.status()["rows"], report.last_rate, report.last_commit_at) == (3, 0.0, None)


def reports() -> list[dict[str, Any]]:
    one = FlowReport(FLOW, state=FlowState.RETRYING)
    one.landed(step(0, 1_234_567))
    one.error = TransientError(Code.SOURCE_UNAVAILABLE, "no folder [x] " + "far/away/" * 30, hint="make it")
    other = FlowReport("tables.customers_by_country_and_year", state=FlowState.DONE)
    return [{**each.status(), "holder": "process 17 on host"} for each in (one, other)]


def test_a_flow_a_line_and_what_is_wrong_below() -> None:
    for width in (80, 120):
        shown = on_terminal(lambda: print_all(reports()), width)
        assert shown.widest <= width
        assert "\x1b[33mretrying\x1b[0m" in shown.out and "\x1b[31mno folder [x]" in shown.out
        assert shown.lines[-1] == "run by process 17 on host"
    assert shown.lines[1].split()[:2] == [FLOW, "retrying"] and "1,234,567" in shown.lines[1]
    assert not on_terminal(lambda: print_all(reports()), 120, NO_COLOR="1").has_colour


def print_all(records: list[dict[str, Any]]) -> None:
    print("\n".join(status_lines(records, sys.stdout)))


def test_the_rate_of_the_last_rows_is_shown() -> None:
    one = FlowReport.after(
        FLOW, {"last_rows_per_second": 1234.4, "last_commit_at": datetime.now(timezone.utc).isoformat()}
    )
    assert any("was 1,234" in line and "0 s ago" in line for line in status_lines([one.record()], sys.stdout))


@pytest.mark.parametrize(("rate", "shown"), [(0.2, "was 0.2"), (9.96, "was 10.0"), (12.4, "was 12"), (0.0, "0")])
def test_a_slow_rate_is_not_nothing(rate: float, shown: str) -> None:
    one = FlowReport.after(FLOW, {"last_rows_per_second": rate})
    line = status_lines([one.record()], sys.stdout)[1]
    assert shown in line and ("was" in line) == ("was" in shown)


@contextmanager
def watching(shop: Shop) -> Iterator[Terminal]:
    terminal = Terminal([*COMMAND, str(shop.root)])
    try:
        yield terminal
    finally:
        terminal.end()


def test_watch_shows_what_changes_until_ctrl_c(shop: Shop) -> None:
    say(shop, FlowReport(FLOW, state=FlowState.STOPPED))
    with watching(shop) as terminal:
        terminal.until(lambda: "stopped" in terminal.said)
        report = known(shop)
        report.landed(step(0, 4321))
        report.state = FlowState.DONE
        say(shop, report)
        terminal.until(lambda: "4,321" in terminal.said and "done" in terminal.said)
        terminal.type(CTRL_C)
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.said and "Aborted" not in terminal.said


def test_watch_for_programs_is_a_line_when_something_changes(shop: Shop) -> None:
    words = [*COMMAND, str(shop.root), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())[0]["state"] == "new"
            say(shop, FlowReport(FLOW, state=FlowState.STOPPED))
            assert json.loads(process.stdout.readline())[0]["state"] == "stopped"
        finally:
            process.kill()


def test_a_flow_that_has_run_is_not_new_where_its_last_words_are_lost(tmp_path: Path) -> None:
    text = "name: x\nsources: {l: {type: files, path: ./l}}\ntopics: {log: {from: l}, other: {from: l}}\n"
    (tmp_path / "headwater.yml").write_text(text, encoding="utf-8")
    with Lake.open(tmp_path) as lake:
        intent = Intent(1, 7, {}, {"l": 8}, "", datetime.now(timezone.utc))
        Ledger(lake._warehouse.files, "topics.log").write(intent)
    found = {one["flow"]: one for one in headwater("status", "--json", "--project", tmp_path).json}
    log = found["topics.log"]
    assert (log["state"], log["epoch"], log["step"], log["positions"]) == ("stopped", 1, 7, {"l": 8})
    assert found["topics.other"]["state"] == "new"
