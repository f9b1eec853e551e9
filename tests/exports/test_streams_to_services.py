"""Streaming exports to Postgres, Kafka and a database by JDBC, as the project's flows."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from tests.exports.test_kafka import messages
from tests.exports.test_streams import failed, shop_with
from tests.services.kafka import Broker
from tests.services.postgres import Server
from tests.support import Shop, headwater

pytestmark = pytest.mark.usefixtures("spark")

FROM = "from: mv('big'), mode: streaming, primary_key: [name]"
VIEW = """views:
  big: {sql: "SELECT name, sum(n) AS n FROM table('goods') GROUP BY name HAVING sum(n) > 10"}
"""
FIRST = "INSERT INTO goods VALUES (1, 'a', 20), (2, 'b', 30)"
SECOND = "INSERT INTO goods VALUES (1, 'a', 21), (2, 'b', 1), (3, 'c', 50)"
"""An update, a delete and a new row of the view."""


def shop_to(root: Path, format: str, to: str) -> Shop:
    shop = shop_with(root, f"copy: {{{FROM}, format: {format}, to: '{to}'}}")
    with (root / "headwater.yml").open("a", encoding="utf-8") as file:
        file.write(VIEW)
    return shop


def write(shop: Shop, *statements: str) -> None:
    for statement in statements:
        answer = headwater("query", statement, "--project", shop.root)
        assert answer.code == 0, answer.err
    ran = shop.run()
    assert ran.code == 0, (failed(ran), ran.err)


def test_a_view_goes_to_postgres_and_what_is_refused_is_listed(
    spark: SparkSession, tmp_path: Path, postgres_server: Server
) -> None:
    dsn = postgres_server.database()
    shop = shop_to(tmp_path, "postgres", f"{dsn.replace(':hidden', '')}?table=goods")
    write(shop, FIRST)
    found = "SELECT name, n FROM goods ORDER BY name"
    with psycopg.connect(dsn, autocommit=True) as db:
        assert db.execute(found).fetchall() == [("a", 20), ("b", 30)]
        db.execute("ALTER TABLE goods ADD CHECK (n < 100)")
        write(shop, SECOND, "INSERT INTO goods VALUES (4, 'd', 500)")
        assert db.execute(found).fetchall() == [("a", 21), ("c", 50)]
        with Lake.open(tmp_path) as lake:
            (reject,) = lake.sql("SELECT export, key, reason, tried_again FROM system.export_rejects").rows()
            assert (reject["export"], reject["key"], reject["tried_again"]) == ("copy", '{"name": "d"}', True)
            assert "goods_n_check" in str(reject["reason"])
        write(shop, "INSERT INTO goods VALUES (4, 'd', 60)")
        assert db.execute(found).fetchall() == [("a", 21), ("c", 50), ("d", 60)]
    with Lake.open(tmp_path) as lake:
        assert lake.sql("SELECT * FROM system.export_rejects").rows() == []
        (job,) = lake.export_jobs()
        assert "PostgreSQL" in str(job.readers)


def test_a_view_goes_to_kafka(spark: SparkSession, tmp_path: Path, kafka: Broker) -> None:
    topic = f"goods_{uuid4().hex[:8]}"
    kafka.create(topic, partitions=2)
    shop = shop_to(tmp_path, "kafka", f"kafka://{kafka.address}/{topic}")
    write(shop, FIRST)
    write(shop, SECOND)
    seen = messages(kafka, topic)
    latest = {json.loads(one.key())["name"]: one.value() for one in seen}
    values = {name: json.loads(value)["n"] for name, value in latest.items() if value is not None}
    assert values == {"a": 21, "c": 50}
    write(shop)
    assert len(messages(kafka, topic)) == len(seen)


@pytest.mark.full
def test_a_view_goes_to_a_database_by_jdbc(spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/db"
    shop = shop_to(tmp_path, "jdbc", f"{url};create=true#goods")
    write(shop, FIRST)
    write(shop, SECOND)
    found = spark.read.format("jdbc").options(url=url, dbtable="goods").load().collect()
    assert sorted((row["name"], row["n"]) for row in found) == [("a", 21), ("c", 50)]
