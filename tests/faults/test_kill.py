"""The process is killed before, inside and after commits, in all five formats at once: no loss, no double.

Files are ingested in every format, a Kafka topic in Iceberg and, by the light commit, in Delta; an event store and a
table of somebody else in one; each flow takes several steps.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.api.lake import Lake
from headwater.formats.registry import FORMATS
from tests.faults.crashing import KILLS, ended, killed, kills
from tests.services.kafka import broker
from tests.services.postgres import server
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

FILES = KILLS + 1
CLICKS = 15 * KILLS
STORED = 4 * KILLS
STORE = (
    "CREATE TABLE events (global_position bigserial PRIMARY KEY, data jsonb, tx xid8 DEFAULT pg_current_xact_id());"
    "CREATE INDEX ON events (tx, global_position)"
)


@pytest.mark.timeout(900)
def test_kills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    with broker(tmp_path) as kafka, server() as postgres, psycopg.connect(postgres.dsn) as late:
        kafka.create("clicks", partitions=2)
        kafka.send("clicks", ({"value": b'{"event_id": "k%d"}' % n, "partition": n % 2} for n in range(CLICKS)))
        late.execute(STORE)
        late.commit()
        late.execute("INSERT INTO events (data) VALUES ('{}')")  # committed in the middle of it all
        with psycopg.connect(postgres.dsn) as writer:
            writer.execute(f"INSERT INTO events (data) SELECT '{{}}' FROM generate_series(2, {STORED})")
        _project(tmp_path, kafka.address, postgres.dsn)
        _through_kills(tmp_path, rng, late)


def _through_kills(tmp_path: Path, rng: random.Random, late: psycopg.Connection[Any]) -> None:
    for when, number in kills(rng, before=(2, 4), inside=(300, 2500), after=(2, 4), least=3):
        killed(tmp_path, when, number)
        late.commit()
    ended(tmp_path)
    expected = Counter({f"{file}-{n}": 1 for file in range(FILES) for n in range(3)})
    with Lake.open(tmp_path) as lake:
        for name in FORMATS.names():
            topic = lake.topic(f"as_{name}")
            found = Counter(row["event_id"] for row in topic.df().select("event_id").collect())
            assert found == expected, f"{name}: {found - expected} too many, {expected - found} missing"
            steps = [commit.commit_tag.step for commit in topic.history() if commit.commit_tag is not None]
            assert sorted(set(steps)) == sorted(steps) == list(range(FILES)), f"{name}: {steps}"
            assert len(lake.dead_letters(f"as_{name}", limit=1000)) == FILES
        for name in ("clicks", "clicks_light"):
            rows = lake.topic(name).df().select("event_id").collect()
            assert Counter(row["event_id"] for row in rows) == Counter(f"k{n}" for n in range(CLICKS)), name
        log = (tmp_path / "lake/topics/clicks_light/_delta_log").glob("*.json")
        assert sum("delta-rs" in commit.read_text() for commit in log) >= 2, "no light commits"
        for name in ("stored", "stored_tx"):
            rows = lake.topic(name).df().select("_position").collect()
            assert Counter(int(row[0]) for row in rows) == Counter(range(1, STORED + 1)), name
        rows = lake.topic("followed").df().select("id", "_weight").collect()
        assert Counter(map(tuple, rows)) == Counter({**{(n, 1): 1 for n in range(1, FILES)}, (0, -1): 1})


def _project(root: Path, brokers: str, dsn: str) -> None:
    landing = root / "landing"
    landing.mkdir()
    for file in range(FILES):
        lines = [json.dumps({"event_id": f"{file}-{n}", "n": n}) for n in range(3)]
        (landing / f"{file}.json").write_text("\n".join([*lines, "{broken"]) + "\n")
    topics = "\n".join(f"  as_{name}: {{from: landing, format: {name}}}" for name in FORMATS.names())
    theirs = str(root / "theirs")
    for n in range(FILES):
        write_deltalake(theirs, pa.table({"id": pa.array([n], pa.int64())}), mode="append")
    DeltaTable(theirs).delete("id = 0")
    topics += "\n  followed: {from: theirs, format: paimon}"
    topics += "\n  clicks: {from: clicks, format: iceberg}\n  clicks_light: {from: clicks, format: delta}"
    lines = ["name: crashing", f"spark: {{master: 'local[2]', conf: {COLD}}}", "sources:"]
    lines += ["  landing: {type: files, path: ./landing, max_files: 1}"]
    lines += ["  theirs: {type: table, format: delta, path: ./theirs, read: changes, start: 0, max_versions: 1}"]
    topics += "\n  stored: {from: store}\n  stored_tx: {from: store_tx, format: iceberg}"
    store = f"type: postgres_events, dsn: '{dsn}', table: events, max_rows: 4"
    plain = "id: null, type: null, stream: null, version: null, metadata: null, timestamp: null, tenant: null"
    lines += [f"  store: {{{store}, columns: {{{plain}}}}}"]
    lines += [f"  store_tx: {{{store}, columns: {{{plain}, transaction: tx}}}}"]
    lines += [f"  clicks: {{type: kafka, brokers: '{brokers}', topic: clicks, max_rows: 10}}", "topics:", topics]
    (root / "headwater.yml").write_text("\n".join(lines) + "\n")
