"""From an event store into the lake, by the command: in every format, through restarts, at once when called."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import yaml
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.runner.reports import FlowEvent
from tests.docs.test_examples import ROOT, blocks
from tests.services.postgres import Server
from tests.sources.events_lab import Project, Store

PAGE = "docs/sources/postgres_events.md"
IN_FULL = ["delta", "iceberg"]
BRIEFLY = ["hudi", "paimon", "parquet"]
MIXED = """
CREATE TABLE journal (
  seq int PRIMARY KEY, body text, at timestamp, kind text, meta json, "Who is it" text);
INSERT INTO journal VALUES
  (1, '{"n": 1, "event_type": "inner"}', '2026-01-02 03:04:05.123456', 'A', '{"a": {"b": {"c": "deep"}}}', 'x'),
  (2, '{"n": 2}', NULL, 'B', '{"a": 1}', 'y'),
  (3, '{broken', '2026-01-02 03:04:05', 'C', NULL, 'z'),
  (4, NULL, '2026-01-02 03:04:05', 'D', NULL, 'z')
"""


@pytest.fixture(scope="module")
def store(postgres_server: Server) -> Store:
    made = Store.make(postgres_server)
    made.run(
        "INSERT INTO events (event_id, event_type, stream_id, version, data, metadata, created_at) VALUES"
        " ('00000000-0000-0000-0000-000000000001', 'OrderPlaced', 'o-1', 3,"
        ' \'{"event_id": "inner", "amount": 12.5, "lines": [{"sku": "a", "qty": 2}], "note": null}\','
        ' \'{"tenant_id": "acme", "trace": {"id": 7}}\', \'2026-03-04 05:06:07.123456+02\'),'
        " ('00000000-0000-0000-0000-000000000002', 'OrderShipped', 'o-1', 4, '{\"city\": \"Zürich\"}', NULL,"
        " '2026-03-05 00:00:00+00')"
    )
    return made


@pytest.fixture(scope="module")
def project(spark: SparkSession, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run twice: the second time after more came."""
    made = Project.make(tmp_path_factory.mktemp("shop"), store, (*IN_FULL, *BRIEFLY))
    ran = made.run()
    assert ran.code == 0, ran.err
    store.add(3, since=10)
    ran = made.run()
    assert ran.code == 0, ran.err
    return made


@pytest.mark.parametrize("name", [*IN_FULL, *BRIEFLY])
def test_every_event_is_a_row(project: Project, store: Store, name: str) -> None:
    rows = project.query(
        "SELECT event_id, event_type, event_timestamp, aggregate_id, tenant_id, event_version, event_date, amount,"
        f" city, n, payload_event_id, _source, _position, _metadata FROM topic('as_{name}') ORDER BY _position"
    )
    assert [row["_position"] for row in rows] == store.positions()
    first = rows[0]
    assert first["_metadata"] == '{"trace": {"id": 7}, "tenant_id": "acme"}'
    assert {key: first[key] for key in ("event_id", "event_type", "aggregate_id", "tenant_id", "event_version")} == {
        "event_id": "00000000-0000-0000-0000-000000000001",
        "event_type": "OrderPlaced",
        "aggregate_id": "o-1",
        "tenant_id": "acme",
        "event_version": 3,
    }
    assert first["event_timestamp"] == "2026-03-04T03:06:07.123456Z"
    assert (first["event_date"], first["payload_event_id"], first["_source"]) == ("2026-03-04", "inner", "store")
    assert (rows[1]["city"], rows[1]["tenant_id"], rows[1]["_metadata"]) == ("Zürich", None, None)
    assert [row["n"] for row in rows] == [None, None, 11, 12, 13]


@pytest.mark.parametrize("name", IN_FULL)
def test_the_payload_stays_as_it_came(project: Project, name: str) -> None:
    [row] = project.query(
        "SELECT CAST(_raw AS string) AS raw, lines[0].sku AS sku, _version"
        f" FROM topic('as_{name}') WHERE event_type = 'OrderPlaced'"
    )
    assert row == {
        "raw": '{"note": null, "lines": [{"qty": 2, "sku": "a"}], "amount": 12.5, "event_id": "inner"}',
        "sku": "a",
        "_version": "3",
    }
    standard = "event_id, event_type, event_timestamp, aggregate_id, tenant_id, event_version, amount"
    before = project.query(f"SELECT {standard} FROM topic('as_{name}') ORDER BY 1")
    answer = project.command("topic", "remap", f"as_{name}")
    assert answer.code == 0, answer.err
    after = project.query(f"SELECT {standard} FROM topic('as_{name}') ORDER BY 1")
    assert before == after


def test_nothing_shows_the_password(project: Project) -> None:
    told = [project.command(*words) for words in (("status", "--json"), ("source", "list", "--json"), ("check",))]
    logs = "".join(path.read_text() for path in (project.root / ".headwater").rglob("*.log*") if path.is_file())
    assert "hidden" not in "".join(one.out + one.err for one in told) + logs


def test_columns_of_ones_own(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    """Other names, no metadata as such, paths into JSON, text that is no JSON, and an event without a payload."""
    store = Store(postgres_server, postgres_server.database())
    store.run(MIXED)
    columns = {
        "position": "seq",
        "id": "Who is it",
        "type": "kind",
        "stream": None,
        "version": None,
        "payload": "body",
        "metadata": None,
        "timestamp": "at",
        "tenant": "meta.a.b.c",
    }
    project = Project.make(tmp_path / "shop", store, table="journal", columns=columns)
    ran = project.run()
    [flow] = ran.events[-1]["flows"]
    assert (flow["rows"], flow["rejected"]) == (3, 1), ran.out
    rows = project.query("SELECT * FROM topic('as_delta') ORDER BY _position")
    assert [(row["event_type"], row["n"], row["tenant_id"], row["event_id"]) for row in rows] == [
        ("A", 1, "deep", "x"),
        ("B", 2, None, "y"),
        ("D", None, None, "z"),
    ]
    assert rows[0]["event_timestamp"] == "2026-01-02T03:04:05.123456Z"
    assert rows[0]["payload_event_type"] == "inner"
    assert not {"_metadata", "aggregate_id", "event_version"} & set(rows[0])
    [letter] = project.command("dlq", "list", "--json").json
    assert (letter["reason"], letter["position"]) == ("decode", f"{3:020d}")
    store.run('INSERT INTO journal VALUES (5, \'{"n": 5, "later" : 1}\')')  # text is in anybody's style
    assert project.run().code == 0
    assert project.query("SELECT n, later FROM topic('as_delta') WHERE n = 5") == [{"n": 5, "later": 1}]


def test_a_dead_letter_keeps_its_envelope(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    store = Store.make(postgres_server)
    store.add(1)
    project = Project.make(tmp_path / "shop", store)
    assert project.run().code == 0
    store.run('INSERT INTO events (event_type, version, data) VALUES (\'Odd\', 9, \'{"n": {"no": "number"}}\')')
    [flow] = project.run().events[-1]["flows"]
    assert (flow["rows"], flow["rejected"]) == (0, 1)
    told = yaml.safe_load((project.root / "headwater.yml").read_text())
    told["topics"]["as_delta"]["schema"] = {"mismatch": "discard_value"}
    (project.root / "headwater.yml").write_text(yaml.safe_dump(told))
    assert project.command("dlq", "replay", "as_delta").code == 0
    [row] = project.query("SELECT event_type, event_version, n FROM topic('as_delta') WHERE n IS NULL")
    assert row == {"event_type": "Odd", "event_version": 9, "n": None}


def test_prepare(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    """Shown first, run when asked, and nothing is left to do then."""
    store = Store.make(postgres_server)
    store.add(2)
    project = Project.make(tmp_path / "shop", store)
    shown = project.command("source", "prepare", "store")
    assert shown.code == 0, shown.err
    assert "ADD COLUMN IF NOT EXISTS" in shown.out and "columns: {transaction: tx}" in shown.err
    assert store.run("SELECT count(*) FROM pg_attribute WHERE attname = 'tx'") == [(0,)]
    ran = project.command("source", "prepare", "store", "--run", "--json")
    assert [one["done"] for one in ran.json["statements"]] == [False] * 4
    again = project.command("source", "prepare", "store", "--run", "--json")
    assert [one["done"] for one in again.json["statements"]] == [True] * 4
    assert store.run("SELECT count(*) FROM events WHERE tx IS NULL") == [(2,)]
    for statement in again.json["statements"]:
        store.run(statement["sql"])
    project.write(store.dsn, columns={"transaction": "tx"})
    store.add(2)
    assert project.run().code == 0
    assert project.positions() == store.positions()
    listed = project.command("source", "list", "--json").json
    assert listed == [{"source": "store", "type": "postgres_events", "topics": ["as_delta"], "description": ""}]
    assert project.command("source", "prepare", "stor").code == 2


def test_the_page(
    spark: SparkSession, postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example of docs/sources/postgres_events.md, its commands and its look into the metadata."""
    store = Store.make(postgres_server)
    store.run("""INSERT INTO events (data, metadata) VALUES ('{}', '{"tenant": {"id": "acme"}, "trace": {"id": 7}}')""")
    monkeypatch.setenv("ORDERS_DSN", store.dsn)
    (tmp_path / "headwater.yml").write_text(blocks(PAGE, "yaml")[0], encoding="utf-8")
    project = Project(tmp_path)
    commands = re.findall(r"^headwater (source prepare .*)$", (ROOT / PAGE).read_text(encoding="utf-8"), re.M)
    assert len(commands) == 2
    for line in commands:
        answer = project.command(*line.split())
        assert answer.code == 0, answer.err
    ran = project.run()
    assert ran.code == 0, ran.out
    [row] = project.query("SELECT tenant_id, get_json_object(_metadata, '$.trace.id') AS trace FROM topic('orders')")
    assert row == {"tenant_id": "acme", "trace": "7"}


class Running:
    """A run in this process that goes on."""

    def __init__(self, lake: Lake) -> None:
        self.events: list[FlowEvent] = []
        self.stopping = threading.Event()
        self._thread = threading.Thread(
            target=lambda: lake.run(stopping=self.stopping, on_event=self.events.append), daemon=True
        )

    def rows(self) -> int:
        return sum(event.details["rows"] for event in list(self.events) if event.event == "step")

    def rows_are(self, count: int) -> Callable[[], bool]:
        return lambda: self.rows() == count

    def retries_after(self, count: int) -> Callable[[], bool]:
        return lambda: len([event for event in list(self.events) if event.event == "retry"]) > count

    def until(self, met: Callable[[], object], seconds: float = 60) -> float:
        begun = time.monotonic()
        while not met():
            assert time.monotonic() - begun < seconds, self.events
            time.sleep(0.02)
        return time.monotonic() - begun

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._thread.join()


@contextmanager
def running(project: Project) -> Iterator[Running]:
    with Lake.open(project.root) as lake, Running(lake) as going:
        yield going


def test_called_at_once(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    """Without the trigger a few events wait for others to share a step with; with it they come when they come."""
    store = Store.make(postgres_server)
    store.add(1000)
    project = Project.make(tmp_path / "shop", store)
    with running(project) as going:
        going.until(lambda: going.rows() == 1000)
        store.add(1)
        time.sleep(2)
        assert going.rows() == 1000
        assert project.command("source", "prepare", "store", "--run").code == 0
        store.add(1)
        took = going.until(lambda: going.rows() == 1002, seconds=15)
        time.sleep(1.1)
        store.add(1)
        again = going.until(lambda: going.rows() == 1003, seconds=15)
    print(f"in the topic after {took:.2f} s and {again:.2f} s")
    assert again < 10


def test_a_restart_of_the_database(spark: SparkSession, tmp_path: Path) -> None:
    """Told to go, killed, and full: the flow tries again by itself."""
    from tests.services.postgres import server

    with server({"max_connections": "8"}) as own:
        store = Store.make(own)
        store.add(5)
        project = Project.make(tmp_path / "shop", store)
        told = yaml.safe_load((project.root / "headwater.yml").read_text())
        told["topics"]["as_delta"]["flush_interval"] = "100ms"
        (project.root / "headwater.yml").write_text(yaml.safe_dump(told))
        with running(project) as going:
            going.until(lambda: going.rows() == 5)
            for number, mode in enumerate(("fast", "immediate")):
                own.stop(mode)
                going.until(going.retries_after(number))
                own.start()
                store.add(5)
                going.until(going.rows_are(10 + 5 * number))
            failures = [event for event in going.events if event.event == "retry"]
        assert {event.details["code"] for event in failures} == {"SOURCE_UNAVAILABLE"}
        assert project.positions() == store.positions()


def test_connections_are_few_and_only_read(spark: SparkSession, postgres_server: Server, tmp_path: Path) -> None:
    """While a backlog is read in parts, those that read are counted, and none of them could write."""
    store = Store.make(postgres_server)
    store.add(60_000)
    # Each row is slow to give, so that there is time to look.
    store.run(
        "CREATE FUNCTION slow(jsonb) RETURNS jsonb LANGUAGE plpgsql AS"
        " $$ BEGIN IF random() < 0.001 THEN PERFORM pg_sleep(0.02); END IF; RETURN $1; END $$;"
        "ALTER TABLE events RENAME TO plain;"
        "ALTER TABLE plain ADD COLUMN tx xid8, ALTER COLUMN tx SET DEFAULT pg_current_xact_id();"
        "CREATE VIEW events AS SELECT global_position, event_id, event_type, stream_id, version, slow(data) AS data,"
        " metadata, created_at, tx FROM plain"
    )
    columns = {"transaction": "tx"}
    project = Project.make(tmp_path / "shop", store, max_connections=3, columns=columns)
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        with psycopg.connect(store.dsn, autocommit=True) as connection:
            while not done.wait(0.02):
                row = connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'headwater'"
                    " AND datname = current_database()"
                ).fetchone()
                seen.append(row[0] if row else 0)

    watching = threading.Thread(target=watch)
    watching.start()
    ran = project.run()
    done.set()
    watching.join()
    assert ran.code == 0, ran.err
    [count] = project.query("SELECT count(*) AS n FROM topic('as_delta')")
    assert count == {"n": 60_000}
    assert 2 <= max(seen) <= 3, max(seen)
