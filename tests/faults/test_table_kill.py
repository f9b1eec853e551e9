"""The runner of tables is killed around and inside their commits, while Kafka and Postgres are written to: no change is
lost, none is doubled, in tables by SQL and in tables of applied changes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import psycopg
import pytest

from headwater.api.lake import Lake
from tests.faults.crashing import KILLS, ended, killed, kills
from tests.services.kafka import Broker, broker
from tests.services.postgres import server
from tests.sources.cdc_workload import SETUP, Writers, expected
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

FILES = KILLS + 1
CLICKS = 30
PROJECT = f"""\
name: applying
spark: {{master: 'local[2]', conf: {COLD}}}
sources:
  landing: {{type: files, path: ./landing, max_files: 1, schema: "id bigint, n bigint, v string, gone boolean"}}
  clicks: {{type: kafka, brokers: 'BROKERS', topic: clicks, max_rows: 15}}
  crm: {{type: postgres_cdc, dsn: 'DSN', tables: [public.customers]}}
topics:
  log: {{from: landing}}
  clicks: {{from: clicks}}
  customers_log: {{from: crm, table: public.customers}}
tables:
  latest: {{from: topic('log'), apply: {{keys: [id], sequence_by: n, delete_when: gone}}}}
  history: {{from: topic('log'), apply: {{keys: [id], sequence_by: n, delete_when: gone, history: all}}}}
  customers: {{from: topic('customers_log'), apply: {{keys: [id]}}}}
  odd: {{sql: "SELECT n, n * 2 AS twice FROM stream(topic('clicks')) WHERE n % 2 = 1"}}
  per_digit: {{sql: "SELECT n % 10 AS digit, count(*) AS k, sum(n) AS total FROM stream(topic('clicks')) GROUP BY 1"}}
"""
TABLES = "/tables/"
"""In the address of what is kept from the topics."""


@pytest.mark.timeout(600)
def test_kills_lose_and_double_no_change(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows = [(rng.randint(1, 5), n, f"v{n}", rng.random() < 0.2) for n in range(1, 25)]
    _land(tmp_path, rng.sample(rows, len(rows)))
    chosen = kills(rng, inside=(500, 4000), before=(2, 6), after=(2, 6))
    with broker(tmp_path) as kafka, server() as postgres:
        dsn = postgres.database()
        with psycopg.connect(dsn) as connection:
            connection.execute(SETUP)
        project = PROJECT.replace("BROKERS", kafka.address).replace("DSN", dsn)
        (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
        kafka.create("clicks")
        writers = Writers(dsn, seed, number=1, pause=0.05)
        try:
            for n, (when, number) in enumerate(chosen):
                _click(kafka, n)
                killed(tmp_path, when, number, TABLES)
        finally:
            writers.stop()
        _click(kafka, len(chosen))
        ended(tmp_path)
        wanted = expected(dsn)["customers"]
    with Lake.open(tmp_path) as lake:
        _check_applied(lake, rows)
        columns = ("id", "name", "balance", "note", "unix_micros(at)")
        found = sorted(map(tuple, lake.table("customers").df().selectExpr(*columns).collect()))
        assert found == wanted, f"seed {seed}, {chosen}"
        clicks = range(CLICKS * (len(chosen) + 1))
        odd = sorted(map(tuple, lake.table("odd").df().collect()))
        assert odd == [(n, n * 2) for n in clicks if n % 2 == 1], f"seed {seed}, {chosen}"
        digits = {row["digit"]: (row["k"], row["total"]) for row in lake.table("per_digit").df().collect()}
        assert digits == {d: (len(clicks) // 10, sum(n for n in clicks if n % 10 == d)) for d in range(10)}


def _land(root: Path, rows: list[tuple[int, int, str, bool]]) -> None:
    (root / "landing").mkdir()
    for file in range(FILES):
        lines = [dict(zip(("id", "n", "v", "gone"), row, strict=True)) for row in rows[file::FILES]]
        (root / "landing" / f"{file}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _click(kafka: Broker, batch: int) -> None:
    numbers = range(batch * CLICKS, (batch + 1) * CLICKS)
    kafka.send("clicks", ({"value": b'{"n": %d}' % n} for n in numbers))


def _check_applied(lake: Lake, rows: list[tuple[int, int, str, bool]]) -> None:
    last = {row[0]: row for row in rows}
    states = [(row[0], row[1]) for row in rows if not row[3]]
    found = [tuple(row) for row in lake.table("latest").df().select("id", "n", "v", "gone").collect()]
    assert sorted(found) == sorted(row for row in last.values() if not row[3])
    assert len(lake.table("history").df().where("is_current").collect()) == len(found)
    stored = lake._warehouse.table(lake.table("history").kind, "history").read().where("NOT _hw_gone")
    assert sorted((row["id"], row["n"]) for row in stored.collect()) == sorted(states)
    for name in ("latest", "history"):
        steps = [commit.commit_tag.step for commit in lake.table(name).history() if commit.commit_tag is not None]
        assert sorted(steps) == list(range(FILES)), f"{name}: {steps}"
