"""What gathered statistics and our broadcasts bring to Spark's joins: TPC-H, and a skewed star.

    .venv/bin/python bench/joins.py                           # scale 0.3, a star of 3 million facts
    .venv/bin/python bench/joins.py --scale 0.05 --facts 200000 --only q05 --only star

Each query runs on Spark in three ways, in turns: as Spark alone does it; with the broadcasts that partitions and bounds
speak for; and with those of gathered statistics too, which is what Headwater does. Tables are Delta's. The figures are
medians, and their ratios to Spark alone: of CPU time of this process and its Java, which other work on the machine
hardly changes, or of the clock with `--wall`. Decision 38 has those of the join orderer, which is gone.
"""

from __future__ import annotations

import argparse
import math
import shutil
import statistics as stats
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import psutil
import pyarrow.parquet as pq
from deltalake import write_deltalake

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.query.gathered import Statistics

QUERIES = Path(__file__).parents[1] / "tests" / "views" / "tpch" / "queries"
TPCH = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
STAR = {
    "shops": "SELECT i AS shop, 'city ' || (i % 500) AS city, i % 40 AS country FROM range(20000) t(i)",
    "articles": "SELECT i AS article, 'kind ' || (i % 2000) AS kind, i % 50 AS maker FROM range(200000) t(i)",
    "buyers": "SELECT i AS buyer, i % 1000 AS zip, i % 7 AS class FROM range(500000) t(i)",
    # Half of all sales are of ten shops, a third of a hundred articles.
    "sales": """
        SELECT i AS sale, CASE WHEN i % 2 = 0 THEN i % 10 ELSE (i * 7919) % 20000 END AS shop,
               CASE WHEN i % 3 = 0 THEN i % 100 ELSE (i * 104729) % 200000 END AS article,
               (i * 15485863) % 500000 AS buyer, (i % 1000) / 10.0 AS amount
        FROM range({facts}) t(i)""",
}
STARS = {
    "star, best last": """
        SELECT s.city, count(*) AS n, sum(f.amount) AS total
        FROM sales f JOIN buyers b ON f.buyer = b.buyer JOIN articles a ON f.article = a.article
        JOIN shops s ON f.shop = s.shop
        WHERE s.city = 'city 77' AND a.kind = 'kind 5' GROUP BY s.city""",
    "star, dimensions first": """
        SELECT b.class, count(*) AS n, sum(f.amount) AS total
        FROM buyers b, articles a, shops s, sales f
        WHERE f.buyer = b.buyer AND f.article = a.article AND f.shop = s.shop AND a.maker = 7 AND s.country = 3
        GROUP BY b.class""",
    "star, the frequent shop": """
        SELECT a.maker, count(*) AS n, sum(f.amount) AS total
        FROM sales f JOIN articles a ON f.article = a.article JOIN buyers b ON f.buyer = b.buyer
        JOIN shops s ON f.shop = s.shop
        WHERE s.city = 'city 3' AND b.zip = 12 GROUP BY a.maker""",
    "star, well written": """
        SELECT s.country, count(*) AS n FROM sales f JOIN shops s ON f.shop = s.shop
        JOIN articles a ON f.article = a.article JOIN buyers b ON f.buyer = b.buyer
        WHERE s.city = 'city 77' GROUP BY s.country""",
}


def lake_of(root: Path, scale: float, facts: int) -> Lake:
    """Both workloads as tables of one lake."""
    keys = TPCH | dict.fromkeys(STAR, "") | {"shops": "shop", "articles": "article", "buyers": "buyer", "sales": "sale"}
    told = "".join(f"  {name}: {{keys: [{columns}]}}\n" for name, columns in keys.items())
    (root / "headwater.yml").write_text(f"name: joins\nformat: delta\ntables:\n{told}", encoding="utf-8")
    lake = Lake.open(root)
    tool = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run([tool, "parquet", "-s", str(scale), "-o", root / "made"], check=True, capture_output=True)
    made: dict[str, Any] = {name: pq.read_table(root / "made" / f"{name}.parquet") for name in TPCH}
    with duckdb.connect() as connection:
        made |= {name: connection.sql(sql.format(facts=facts)).to_arrow_table() for name, sql in STAR.items()}
    for name, rows in made.items():
        write_deltalake(str(lake._warehouse.address(Kind.TABLE, name).path), rows)
        lake._warehouse.remember(Kind.TABLE, name)
    return lake


@contextmanager
def without(*, values: bool, broadcasts: bool) -> Iterator[None]:
    """Spark's side of a query without some of what it goes by."""
    with ExitStack() as stack:
        if not values:
            stack.enter_context(patch.object(Statistics, "of", lambda *_: None))
        if not broadcasts:
            stack.enter_context(patch("headwater.query.spark.answer.small_parts", lambda *_: {}))
        yield


WAYS = {
    "spark alone": {"values": False, "broadcasts": False},
    "by bounds": {"values": False, "broadcasts": True},
    "headwater": {"values": True, "broadcasts": True},
}


def asked(lake: Lake, sql: str, way: dict[str, bool]) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        with without(**way):
            return lake.sql(sql, engine="spark").rows()

    return run


def cpu() -> float:
    """CPU seconds that this process and its children have used."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def measured(lake: Lake, queries: dict[str, str], repeats: int, clock: Callable[[], float]) -> None:
    print(f"{'milliseconds':26}" + "".join(f"{way:>15}" for way in WAYS) + "   broadcast", flush=True)
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    totals = dict.fromkeys(WAYS, 0.0)
    for name, sql in queries.items():
        spent: dict[str, list[float]] = {way: [] for way in WAYS}
        found: dict[str, list[Any]] = {}
        for n in range(repeats + 1):
            for way, settings in WAYS.items():
                begun = clock()
                found[way] = asked(lake, sql, settings)()
                if n:  # the first round warms up
                    spent[way].append((clock() - begun) * 1000)
        sizes = {len(rows) for rows in found.values()}
        assert len(sizes) == 1, f"{name}: {sizes}"
        medians = {way: stats.median(each) for way, each in spent.items()}
        for way, median in medians.items():
            ratios[way].append(median / medians["spark alone"])
            totals[way] += median
        sent = any(str(row["plan"]).startswith("broadcast: ") for row in lake.sql(f"EXPLAIN {sql}", engine="spark"))
        print(f"{name:26}" + "".join(f"{medians[way]:15,.0f}" for way in WAYS) + f"   {'yes' if sent else '-'}",
              flush=True)  # fmt: skip
    means = {way: math.exp(stats.fmean(map(math.log, each))) for way, each in ratios.items()}
    print(f"{'all':26}" + "".join(f"{totals[way]:15,.0f}" for way in WAYS))
    print(f"{'geometric mean, ratio':26}" + "".join(f"{means[way]:15.2f}" for way in WAYS), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.3)
    parser.add_argument("--facts", type=int, default=3_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--wall", action="store_true", help="the clock instead of CPU time")
    parser.add_argument("--only", action="append", default=[], help="queries whose name begins with this")
    given = parser.parse_args()
    queries = {file.stem: file.read_text(encoding="utf-8") for file in sorted(QUERIES.glob("q*.sql"))} | STARS
    if given.only:
        queries = {name: sql for name, sql in queries.items() if name.startswith(tuple(given.only))}
    root = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        with lake_of(root, given.scale, given.facts) as lake:
            for name in (*TPCH, *STAR):
                lake.relation(name).files.stats()
            measured(lake, queries, given.repeats, time.perf_counter if given.wall else cpu)
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
