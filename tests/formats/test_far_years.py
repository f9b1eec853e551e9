"""Tables that hold days and times of years beyond 1 to 9999, as others may write them: they can be queried."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.test_ingest import Desk

pytestmark = pytest.mark.usefixtures("spark")

CODE = """\
from pyspark.sql import functions as F

from headwater import mapper


@mapper
def row(event):
    day = F.make_date(event["n"], F.lit(2), F.lit(3))
    return {"n": event["n"], "d": day, "at": day.cast("timestamp")}
"""
DAYS = {-5: "-0005-02-03", 2026: "2026-02-03", 12026: "+12026-02-03"}
QUERIES = [
    ("SELECT count(*) AS n FROM {}", [{"n": 3}]),
    ("SELECT n, d FROM {} ORDER BY n", [{"n": n, "d": day} for n, day in DAYS.items()]),
    ("SELECT n FROM {} WHERE d > date'2026-01-01' ORDER BY n", [{"n": 2026}, {"n": 12026}]),
    ("SELECT n FROM {} WHERE d < date'2026-01-01'", [{"n": -5}]),
    ("SELECT n FROM {} WHERE d = date'2026-02-03'", [{"n": 2026}]),
    ("SELECT cast(max(d) AS string) AS d FROM {}", [{"d": "+12026-02-03"}]),
]
FULL = pytest.mark.full


@pytest.mark.parametrize("format", ["delta", "iceberg", "parquet", pytest.param("hudi", marks=FULL)])
def test_years_beyond_python_in_tables(tmp_path: Path, format: str) -> None:
    topics = {"far": "mappers: shop", "parted": "mappers: shop, partition_by: [d]"}
    desk = Desk(tmp_path, topics, ', schema_hints: "n int"', format)
    (tmp_path / "shop.py").write_text(CODE)
    file = tmp_path / "headwater.yml"
    file.write_text("code: shop.py\n" + file.read_text())
    desk.land("1.json", *({"n": n} for n in DAYS))
    ran = desk("run", "--once", "--json")
    assert ran.code == 0, ran.out + ran.err
    for name in ("far", "parted"):
        for sql, expected in QUERIES:
            for engine in ("auto", "spark"):
                answer = desk("query", sql.format(name), "--engine", engine, "--json")
                assert answer.code == 0, (name, sql, engine, answer.err)
                assert answer.json == expected, (name, sql, engine)
    looks = [("topic", "describe", "far"), ("parquet", "stats", "far"), ("topic", "history", "far"), ("status",)]
    looks += [("query", "SELECT * FROM far WHERE at > timestamp'2026-01-01'"), ("parquet", "stats", "parted")]
    for command in looks:
        answer = desk(*command, "--json")
        assert "INTERNAL" not in answer.err and "Traceback" not in answer.err, (command, answer.err)
        assert answer.code in (0, 2), (command, answer.err)
    # Later steps look at what is there.
    desk.land("2.json", {"n": 2027}, {"n": 13000})
    assert desk("run", "--once", "--json").code == 0
    assert desk("query", "SELECT count(*) AS n FROM far", "--json").json == [{"n": 5}]
