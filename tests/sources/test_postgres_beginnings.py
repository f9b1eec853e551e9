"""Projects on Postgres to begin with, run against a real server as their README says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.firstlight.test_beginnings import run_readme
from tests.hints.followed import follows
from tests.sources.cdc_lab import Crm
from tests.support import headwater


def test_the_template(crm: Crm, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "crm"
    assert headwater("init", "--template", "cdc", root).code == 0
    crm.run((root / "sample" / "customers.sql").read_text(encoding="utf-8"))
    monkeypatch.setenv("DATABASE_URL", crm.dsn)
    run_readme(root)
    query = "SELECT * FROM mv('customers_per_city') ORDER BY city"
    rows = headwater("query", query, "--output", "json", "--project", root).json
    found = [(row["city"], row["customers"]) for row in rows]
    assert found == [("Berlin", 3), ("Erlangen", 1), ("London", 1), ("Paris", 1)]


EVENTS = """
CREATE TABLE public.happened (
  id bigserial PRIMARY KEY, event_id uuid DEFAULT gen_random_uuid(), event_type text, stream_id text, version int,
  data jsonb, occurred_at timestamptz DEFAULT now());
INSERT INTO public.happened (event_type, stream_id, version, data)
  SELECT 'Counted', 's' || n % 2, n, jsonb_build_object('n', n, 'city', 'ab') FROM generate_series(1, 6) n
"""


@follows(
    "{}; name it behind the address: ?table=public.events", "ALTER TABLE {} ADD PRIMARY KEY (…), or name another table"
)
def test_tables_that_are_there(crm: Crm, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crm.run(EVENTS, "CREATE TABLE loose (n int)", "CREATE TABLE people (id int PRIMARY KEY, name text, since date)")
    crm.run("INSERT INTO people VALUES (1, 'Ada', '2025-03-01'), (2, 'Carl', NULL)")
    nothing = headwater("init", "--from", crm.dsn, tmp_path / "x")
    assert nothing.code == 2 and "public.happened, public.loose, public.people" in nothing.err
    loose = headwater("init", "--from", f"{crm.dsn}?table=loose", tmp_path / "x")
    assert loose.code == 2 and "public.loose has no primary key" in loose.err and not (tmp_path / "x").exists()
    store = headwater("init", "--from", f"{crm.dsn}?table=happened", tmp_path / "store")
    assert store.code == 0, store.err
    people = headwater("init", "--from", f"{crm.dsn}?table=public.people", tmp_path / "people", "--json")
    assert people.code == 0, people.err
    assert people.json["variables"] == ["DATABASE_URL"]
    assert [(one["name"], one["type"]) for one in people.json["columns"]] == [
        ("id", "integer"),
        ("name", "text"),
        ("since", "date"),
    ]
    said = "".join([nothing.err, loose.err, store.out, store.err, people.out, people.err])
    written = [file.read_text(encoding="utf-8") for file in tmp_path.rglob("*") if file.is_file()]
    assert not any("hidden" in text for text in (said, *written)), "the address has a password"
    monkeypatch.setenv("DATABASE_URL", crm.dsn)
    run_readme(tmp_path / "store")
    query = "SELECT aggregate_id, count(*) AS n, sum(n) AS total FROM topic('happened') GROUP BY 1 ORDER BY 1"
    rows = headwater("query", query, "--json", "--project", tmp_path / "store").json
    assert rows == [{"aggregate_id": "s0", "n": 3, "total": 12}, {"aggregate_id": "s1", "n": 3, "total": 9}]
    run_readme(tmp_path / "people")
    rows = headwater("query", "SELECT * FROM mv('people_counted')", "--json", "--project", tmp_path / "people").json
    assert rows == [{"rows_now": 2}]
