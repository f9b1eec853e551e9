"""`headwater demo`: a day of a small shop, from its events and its database to views, and what it says of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.commands.standalone import demo
from headwater.cli.shop import database
from headwater.cli.shop.events import Sent, ShopEvents
from headwater.core.errors import Code, UsageError
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")


def test_a_day_of_the_shop(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    shown = headwater("demo", root, "--json")
    assert shown.code == 0, shown.err
    told = shown.json
    morning, afternoon = told["rounds"]
    landed = [line for file in root.glob("landing/*.json") for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(landed) == morning["events"] + afternoon["events"]
    assert afternoon["late"] > 0 and afternoon["twice"] > 0 and afternoon["broken"] == 1
    events = {event["event_id"]: event for event in map(json.loads, (line for line in landed if line.endswith("}")))}
    rows = {one["relation"]: one["rows"] for one in told["relations"]}
    kept = [one for one in events.values() if one["event_type"] != "PaymentProcessed" and one.get("amount", 1) > 0]
    assert rows["topic('raw_events')"] == len(events) == len(landed) - afternoon["twice"] - 1
    assert rows["table('processed_events')"] == len(kept)
    assert rows["topic('customers_log')"] == 15 and rows["table('customers')"] == 12
    dead_letters = {(one["topic"], one["reason"]) for one in told["dead_letters"]}
    assert dead_letters == {("raw_events", "decode"), ("tables.processed_events", "expectation")}
    assert len(told["dead_letters"]) == 2 and len(told["checks"]) == 2
    refreshes = [(one["view"], one["refresh_type"]) for one in told["refreshes"]]
    views = ("best_customers", "orders_by_city")
    assert refreshes == [(name, how) for name in views for how in ("full", "incremental")]
    counted = "SELECT sum(events) AS events, count(*) AS groups FROM table('event_metrics')"
    groups = {(one["event_timestamp"][:13], int(one["event_timestamp"][14]) // 3, one["event_type"]) for one in kept}
    (found,) = headwater("query", counted, "--json", "--project", root).json
    assert found == {"events": len(kept), "groups": len(groups)}
    assert headwater("mv", "verify", "orders_by_city", "--json", "--project", root).json["equal"]


def test_without_a_database_the_rest_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "programs", lambda: None)
    monkeypatch.setattr(demo.ShopEvents, "morning", _ended)
    shown = headwater("demo", tmp_path / "shop")
    assert "customers are left out: this needs PostgreSQL" in shown.err
    assert {path.name for path in (tmp_path / "shop").glob("*.yml")} == {"headwater.yml"}
    checked = headwater("check", "--json", "--project", tmp_path / "shop")
    assert checked.code == 0, checked.out
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    refused = headwater("demo", tmp_path / "mine")
    assert refused.code == 2 and "ALREADY_EXISTS" in refused.err


def test_what_to_try_next_can_be_pasted_in_folders_with_blanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bin = tmp_path / "a venv" / "bin"
    bin.mkdir(parents=True)
    (bin / "headwater").write_text("#!/bin/sh\npwd\n", encoding="utf-8")
    (bin / "headwater").chmod(0o755)
    (tmp_path / "my demo").mkdir()
    monkeypatch.setattr(sys, "executable", str(bin / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    pasted = "\n".join([*demo._next(Path("my demo"), crm=False)[2:4], "headwater"])
    done = subprocess.run(["bash", "-e", "-c", pasted], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "my demo")), done.stderr


def test_a_database_that_does_not_start_is_said_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "initdb").write_text("#!/bin/sh\necho 'error: no libpq.so.5' >&2\nexit 127\n", encoding="utf-8")
    (broken / "initdb").chmod(0o755)
    monkeypatch.setattr(database, "programs", lambda: broken)
    monkeypatch.setattr(demo.ShopEvents, "morning", _ended)
    shown = headwater("demo", tmp_path / "shop")
    assert "customers are left out: PostgreSQL's initdb failed: error: no libpq.so.5" in shown.err
    assert {path.name for path in (tmp_path / "shop").glob("*.yml")} == {"headwater.yml"}


def test_ports_that_are_taken_are_said_and_the_database_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.ShopEvents, "morning", _ended)
    with socket.create_server(("127.0.0.1", 0)) as held:
        monkeypatch.setattr(database, "free_port", lambda: held.getsockname()[1])
        shown = headwater("demo", tmp_path / "shop")
    assert "customers are left out: PostgreSQL's pg_ctl failed: " in shown.err and "could not" in shown.err
    assert {path.name for path in (tmp_path / "shop").glob("*.yml")} == {"headwater.yml"}


def test_a_database_that_does_not_answer_is_said_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.ShopEvents, "morning", _ended)
    started: list[database.PostgresServer] = []
    start = database.PostgresServer.start
    monkeypatch.setattr(database.PostgresServer, "start", lambda self: (started.append(self), start(self)))
    with socket.create_server(("127.0.0.1", 0)) as held:
        nobody = f"postgresql://headwater@127.0.0.1:{held.getsockname()[1]}/postgres?connect_timeout=2"
        monkeypatch.setattr(database.PostgresServer, "dsn", nobody)
        shown = headwater("demo", tmp_path / "shop")
    assert "customers are left out: PostgreSQL does not answer: " in shown.err and "INTERNAL" not in shown.err
    assert {path.name for path in (tmp_path / "shop").glob("*.yml")} == {"headwater.yml"}
    assert started and not any(server.folder.exists() for server in started)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_on_a_machine_without_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.ShopEvents, "morning", _ended)
    monkeypatch.setattr(database.pwd, "getpwall", list)
    shown = headwater("demo", tmp_path / "shop")
    assert "customers are left out: PostgreSQL does not run as root" in shown.err and "INTERNAL" not in shown.err


def _ended(shop: ShopEvents) -> Sent:
    raise UsageError(Code.USAGE, "the shop is closed")
