"""Queries that may give other rows for the same input: floating point sums, ties that ORDER BY leaves open."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater import Lake
from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import Layout, Refresh
from headwater.incremental.state import bag
from headwater.operations.views import create_view, refresh_view, verify_view
from headwater.spark.arrow_bridge import local_frame
from tests.hints.followed import follows

MANUAL = Refresh(mode="manual", policy="incremental")
SCHEMA = pa.schema({"id": pa.int64(), "g": pa.int64(), "seq": pa.int64(), "x": pa.float64()})
VIEWS = {
    "beside": "SELECT t.id, t.g, s.total, s.m FROM t JOIN "
    "(SELECT g, sum(x) AS total, avg(x) AS m FROM t GROUP BY g) s ON t.g = s.g",
    "over": "SELECT id, sum(x) OVER (PARTITION BY g) AS w FROM t",
    "latest": "SELECT g, id, x FROM "
    "(SELECT *, row_number() OVER (PARTITION BY g ORDER BY seq DESC) AS nth FROM t) WHERE nth = 1",
    "numbered": "SELECT id, row_number() OVER (PARTITION BY g ORDER BY seq) AS nth, lag(id) OVER "
    "(PARTITION BY g ORDER BY seq) AS before FROM t",
}


class Desk:
    """A table of numbers in several files."""

    def __init__(self, root: Path, seed: int) -> None:
        (root / "headwater.yml").write_text("name: desk\ntables: {t: {keys: [id]}}\n", encoding="utf-8")
        self.lake = Lake.open(root)
        self._random = random.Random(seed)
        self._next = 0
        self.table = self.lake._warehouse.table(Kind.TABLE, "t")
        self.table.create(local_frame(self.lake.spark, SCHEMA.empty_table()).schema, Layout(keys=("id",)))
        self.lake._warehouse.remember(Kind.TABLE, "t")
        for _ in range(5):
            self.add(8)

    def add(self, rows: int) -> None:
        rng = self._random
        made = []
        for _ in range(rows):
            made.append({"id": self._next, "g": rng.randrange(3), "seq": rng.randrange(2), "x": rng.uniform(-1e3, 1e3)})
            self._next += 1
        self.table.append(local_frame(self.lake.spark, pa.Table.from_pylist(made, schema=SCHEMA)))


@pytest.fixture
def desk(tmp_path: Path, spark: SparkSession, seed: int) -> Iterator[Desk]:
    print(f"seed {seed}")
    desk = Desk(tmp_path, seed)
    with desk.lake:
        yield desk


def test_rows_that_went_are_found(desk: Desk) -> None:
    warehouse = desk.lake._warehouse
    for name, sql in VIEWS.items():
        create_view(warehouse, name, sql, MANUAL)
    for _ in range(3):
        desk.add(2)
        for name in VIEWS:
            done = refresh_view(warehouse, name)
            assert done.refresh_type != "full", done
    rows = desk.lake.table("t").df().count()
    counts = {name: desk.lake.view(name).df().count() for name in VIEWS}
    assert counts == {"beside": rows, "over": rows, "latest": 3, "numbered": rows}
    assert all(verify_view(warehouse, name).equal for name in ("beside", "over"))
    found = Counter(row["g"] for row in desk.lake.view("latest").df().collect())
    assert found == Counter(range(3))


@follows("order by columns that leave no ties, or sum decimals; then recompute it")
def test_rows_that_are_not_found_lead_to_a_full_refresh(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they would be if their last digits had made a difference."""
    warehouse = desk.lake._warehouse
    create_view(warehouse, "over", VIEWS["over"], MANUAL)
    once = bag.of_row
    calls = []

    def other(df, names, *, about=False):  # type: ignore[no-untyped-def]
        calls.append(names)
        return bag.F.concat(once(df, names, about=about), bag.F.lit("?"))

    desk.add(2)
    with monkeypatch.context() as patched:
        patched.setattr(bag, "of_row", other)
        done = refresh_view(warehouse, "over")
    assert calls and (done.refresh_type, "was not found" in done.reason) == ("full", True), done
    rows = desk.lake.table("t").df().count()
    assert desk.lake.view("over").df().count() == rows

    desk.add(2)
    with pytest.raises(HeadwaterError, match="gives other rows for the same input"):
        refresh_view(warehouse, "over", "incremental_strict")
    assert desk.lake.view("over").df().count() == rows  # its last good state
    assert refresh_view(warehouse, "over").refresh_type == "full"
