"""Views over doubles: kept, and proved, though their sums depend on the order of the rows."""

from __future__ import annotations

import random
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.operations.views import create_view, refresh_view, verify_view
from tests.views.test_sources import FOLLOWED, Source

COLUMNS = "id bigint, g string, x double"
SUMS = "SELECT g, count(*) AS n, sum(x) AS total, avg(x) AS middle, sum(x) - sum(x * 2) AS less FROM t GROUP BY g"
JOINED = "SELECT t.id, s.total FROM t JOIN (SELECT g, sum(x) AS total FROM t GROUP BY g) s ON t.g = s.g"
WINDOW = "SELECT id, x, sum(x) OVER (PARTITION BY g) AS w FROM t"


def of_doubles(root: Path) -> Source:
    source = Source(root)
    source.table.drop()
    source.make(COLUMNS, [(1, "q", 0.3), (2, "w", 4e3)])
    return source


def test_sums_that_are_zero_but_for_rounding(tmp_path: Path, spark: SparkSession, seed: int) -> None:
    source, rng = of_doubles(tmp_path), random.Random(seed)
    views = {"sums": SUMS, "joined": JOINED, "windowed": WINDOW}
    for name, sql in views.items():
        create_view(source.warehouse, name, sql, FOLLOWED)
    noise = [(20 + n, "w", rng.random() * 10 ** rng.randint(-3, 3)) for n in range(12)]
    for commits in (([(3, "q", 0.1)], [(4, "q", 0.2), *noise[:6]]), ([(5, "q", -0.6)], [(2, "w", -0.0), *noise[6:]])):
        for rows in commits:
            source.add(COLUMNS, *rows)
        for name in views:
            assert refresh_view(source.warehouse, name).refresh_type == "incremental"
    for name in views:
        found = verify_view(source.warehouse, name)
        assert found.equal, (name, found)
    source.lake.close()


def test_the_zeros_are_one_and_what_is_wrong_is_told(tmp_path: Path, spark: SparkSession) -> None:
    source = of_doubles(tmp_path)
    source.add(COLUMNS, (3, "q", -0.3), (4, "z", -0.0))
    create_view(source.warehouse, "plain", "SELECT id, x FROM t", FOLLOWED)
    create_view(source.warehouse, "sums", "SELECT g, sum(x) AS total FROM t GROUP BY g", FOLLOWED)
    source.add(COLUMNS, (4, "z", 0.0))
    for name in ("plain", "sums"):
        refresh_view(source.warehouse, name)
        assert verify_view(source.warehouse, name).equal
    path = source.warehouse.table(source.lake.view("sums").kind, "sums").address.path
    assert path is not None
    for wrong, group in ((5e-17, "q"), (1e-12, "q"), (4000.0001, "w")):
        source.lake.spark.sql(f"UPDATE delta.`{path}` SET total = {wrong}D WHERE g = '{group}'")
        found = verify_view(source.warehouse, "sums")
        assert found.equal is (wrong == 5e-17), (wrong, found)
    assert (found.missing, found.unexpected) == (2, 2)
    assert {"_difference": "unexpected", "g": "w", "total": 4000.0001} in found.examples
    source.lake.close()
