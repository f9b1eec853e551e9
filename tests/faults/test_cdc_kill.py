"""A runner that follows a database is killed before, inside and after commits, while the database is written to and
restarted: its topics tell the tables exactly."""

from __future__ import annotations

import random
from pathlib import Path

import psycopg
import pytest

from headwater.api.lake import Lake
from tests.faults.crashing import ended, killed, kills
from tests.services.postgres import server
from tests.sources.cdc_workload import SETUP, TABLES, Writers, expected, found
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")

TOPICS = {"customers_delta": ("customers", "delta"), "visits_delta": ("visits", "delta")}
TOPICS |= {"lines_iceberg": ("lines", "iceberg")}


@pytest.mark.timeout(900)
def test_kills_lose_and_double_no_change(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    chosen = kills(rng, before=(1, 3), after=(1, 3), inside=(100, 2500))
    with server() as postgres:
        dsn = postgres.database()
        with psycopg.connect(dsn) as connection:
            connection.execute(SETUP)
        topics = ", ".join(
            f"{name}: {{from: crm, table: public.{table}, format: {format}}}"
            for name, (table, format) in TOPICS.items()
        )
        (tmp_path / "headwater.yml").write_text(
            f"name: crashing\nspark: {{master: 'local[2]', conf: {COLD}}}\n"
            f"sources: {{crm: {{type: postgres_cdc, dsn: '{dsn}', tables: [{', '.join(TABLES)}]}}}}\n"
            f"topics: {{{topics}}}\n"
        )
        writers = Writers(dsn, seed, number=2, pause=0.05)
        try:
            for when, number in chosen:
                killed(tmp_path, when, number)
                postgres.stop(rng.choice(["fast", "immediate"]))
                postgres.start()
        finally:
            writers.stop()
        ended(tmp_path)
        wanted = expected(dsn)
        with Lake.open(tmp_path) as lake:
            for topic, (table, _) in TOPICS.items():
                assert found(lake, topic, table) == wanted[table], f"seed {seed}, {chosen}: {topic}"
