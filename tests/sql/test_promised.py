"""Statements that people will try, as they would type them: each gives the rows it should, on both engines."""

from __future__ import annotations

import json
import os
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError
from tests.support import headwater

PROJECT = """
name: shop
catalogs:
  partner: {type: rest, uri: "http://127.0.0.1:1"}
sources:
  event_files: {type: files, path: ./events}
  sale_files: {type: files, path: ./sales}
topics:
  events: {from: event_files}
  sales: {from: sale_files}
"""

VIEW = """CREATE MATERIALIZED VIEW hourly_sales AS
SELECT date_trunc('hour', timestamp) AS hour, product_id, SUM(amount) AS total_sales, COUNT(*) AS transaction_count
FROM topic('sales') GROUP BY 1, 2 WITH (refresh = 'incremental', interval = '5 minutes');"""

EXPORT = """EXPORT topic('events') TO ICEBERG 'rest://catalog/namespace/events' PARTITIONED BY (date(timestamp)) WITH (format = 'parquet', compression = 'zstd');"""  # noqa: E501

QUERIES: dict[str, int] = {
    """SELECT * FROM topic('events') WHERE timestamp > now() - interval '1 hour' AND user_id = 'user-123' AND event_type IN ('click', 'purchase') LIMIT 100;""": 1,  # noqa: E501
    """SELECT * FROM mv('hourly_sales') WHERE hour > now() - interval '24 hours' ORDER BY total_sales DESC LIMIT 10;""": 2,  # noqa: E501
    """SELECT * FROM topics.events TIMESTAMP AS OF '2026-10-17 00:00:00';""": 2,
    """SELECT * FROM topics.events VERSION AS OF 2 EXCEPT SELECT * FROM topics.events VERSION AS OF 1;""": 1,
    """SELECT date_trunc('hour', event_timestamp) AS hour, COUNT(*) AS order_count FROM topics.events WHERE event_type = 'OrderPlaced' AND event_date >= CURRENT_DATE - INTERVAL '7 days' GROUP BY hour ORDER BY hour;""": 1,  # noqa: E501
}
"""Each with the number of its rows."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    root = tmp_path_factory.mktemp("promised")
    (root / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    now = datetime.now(timezone.utc)
    for number, kind in enumerate(("click", "OrderPlaced")):
        at = (now - timedelta(minutes=5)).isoformat()
        event = {
            "event_id": f"e{number}", "event_type": kind, "event_timestamp": at, "timestamp": at,
            "user_id": "user-123", "amount": 5,
        }  # fmt: skip
        sale = {"timestamp": at, "product_id": f"p{number}", "amount": 5 + number}
        for folder, row in (("events", event), ("sales", sale)):
            (root / folder).mkdir(exist_ok=True)
            (root / folder / f"{number}.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
        ran = headwater("run", "--once", "--project", root)
        assert ran.code == 0, ran.err
    backdate(root / "lake" / "topics" / "events", datetime(2026, 10, 16, 12, tzinfo=timezone.utc))
    return root


def backdate(table: Path, when: datetime) -> None:
    """As if all versions of a Delta table had been committed then."""
    for file in (table / "_delta_log").glob("*.json"):
        text = file.read_text(encoding="utf-8")
        stamped = re.sub(r'("commitInfo":\{"timestamp":)\d+', rf"\g<1>{int(when.timestamp() * 1000)}", text)
        file.write_text(stamped, encoding="utf-8")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        os.utime(file, (when.timestamp(), when.timestamp()))


def test_statements_as_they_are_typed(shop: Path) -> None:
    with Lake.open(shop) as lake:
        (made,) = lake.sql(VIEW).rows()
        assert (made["view"], made["refresh_type"]) == ("hourly_sales", "full")
        engines = []
        for sql, rows in QUERIES.items():
            found = lake.sql(sql)
            engines.append(found.engine)
            assert len(found.rows()) == rows, sql
            assert lake.sql(sql, engine="spark").arrow().num_rows == rows, sql
        assert engines == ["spark", *["duckdb"] * 4]  # in JSON a time is text: comparing it with one is Spark's
        best, other = lake.sql(next(one for one in QUERIES if "mv(" in one)).rows()
        assert (best["product_id"], best["total_sales"], other["total_sales"]) == ("p1", 6, 5)
        assert lake.topic("events").df(version=1).count() == 1
        told = {row["property"]: row["value"] for row in lake.sql(f"EXPLAIN {EXPORT}")}
        assert (told["partition_by"], told["compression"]) == ("date(timestamp)", "zstd")


def test_a_topic_is_never_restored(shop: Path) -> None:
    assert headwater("topic", "restore", "events", "--version", "1", "--yes", "--project", shop).code == 2
    assert headwater("table", "restore", "events", "--version", "1", "--yes", "--project", shop).code != 0
    with Lake.open(shop) as lake:
        with pytest.raises(HeadwaterError, match="only tables can"):
            lake.topic("events").restore(1, do=True)
        assert lake.sql("SELECT count(*) AS n FROM topic('events')").rows() == [{"n": 2}]
