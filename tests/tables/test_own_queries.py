"""Streaming queries of the user's own: what they read and write is a topic, a table or a view, in every format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from headwater.api.lake import Lake
from headwater.api.relations import Relation
from headwater.core.errors import Code, UsageError
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from tests.hints.followed import follows

pytestmark = pytest.mark.usefixtures("spark")

KEYED = [format.name for format in FORMATS if format.can(Capability.STREAM_UPSERT)]
TOTALS = "SELECT shop, count(*) AS n, sum(amount) AS total FROM topic('orders') GROUP BY shop"


def _project(root: Path) -> None:
    lines = ["name: shop", "sources: {api: {type: append}}", "topics: {orders: {from: api}}", "tables:"]
    lines += [f"  copy_{name}: {{format: {name}, keys: [shop]}}" for name in KEYED]
    lines += ["views:", *(f'  totals_{name}: {{format: {name}, sql: "{TOTALS}"}}' for name in KEYED)]
    (root / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rows(relation: Relation) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in relation.df().select("shop", "n", "total").collect())


def test_a_view_is_read_and_a_table_written(tmp_path: Path) -> None:
    """Its rows and then what they become, by upsert; and by their weights, which take back what they were."""
    _project(tmp_path)
    signed = Counter[tuple[Any, ...]]()

    def add(batch: DataFrame, number: int) -> None:
        for row in batch.select("shop", "n", "total", "_weight").collect():
            signed[tuple(row)[:3]] += row["_weight"]

    for turn, amounts in enumerate([[("a", 1), ("b", 2)], [("a", 3), ("c", 4)]]):
        with Lake.open(tmp_path) as lake:  # each time a query of a new process, with its checkpoint
            lake.topic("orders").append([{"shop": shop, "amount": amount} for shop, amount in amounts])
            assert [report.error for report in lake.run(once=True)] == [None] * (1 + len(KEYED))
            changes = lake.view("totals_iceberg").read_stream(changes=True, consumer="signed")
            queries = {"signed": (changes, add)}
            for name in KEYED:
                rows = lake.view(f"totals_{name}").read_stream(consumer="copy")
                assert rows.columns == ["shop", "n", "total"], name
                queries[name] = (rows, lake.table(f"copy_{name}").sink("copy", mode="upsert"))
            started = []
            for name, (frame, into) in queries.items():
                kept = str(tmp_path / "checkpoints" / name)
                writer = frame.writeStream.foreachBatch(into).option("checkpointLocation", kept)
                started.append(writer.trigger(availableNow=True).start())
            for query in started:
                query.awaitTermination()
            for name in KEYED:
                wanted = _rows(lake.view(f"totals_{name}"))
                assert _rows(lake.table(f"copy_{name}")) == wanted, (turn, name)
            assert +signed == wanted and not -signed, turn
    assert wanted == Counter({("a", 2, 4): 1, ("b", 1, 2): 1, ("c", 1, 4): 1})


@follows(
    "write into a table",
    "letters, digits, _, . and -",
    "pass it to writeStream.foreachBatch",
    "an upsert takes one row per key and batch: aggregate, or keep the newest",
    "cast it in the query",
)
def test_a_view_is_not_written(tmp_path: Path) -> None:
    """It is what its query says."""
    _project(tmp_path)
    with Lake.open(tmp_path) as lake:
        with pytest.raises(UsageError, match="kept by its query alone") as raised:
            lake.view("totals_delta").sink("mine")
        assert raised.value.code is Code.USAGE and "write into a table" in str(raised.value)
        with pytest.raises(UsageError, match="a sink's name"):
            lake.table("copy_delta").sink("my own")
        rows = lake.spark.createDataFrame([("a", 1)], "shop string, n int")
        with pytest.raises(UsageError, match="outside a streaming query"):
            lake.table("copy_delta").sink("mine")(rows, 0)
        (tmp_path / "in").mkdir()
        rows.write.mode("append").json(str(tmp_path / "in"))
        taken = lake.spark.readStream.schema(rows.schema).json(str(tmp_path / "in"))

        def put(frame: DataFrame, name: str, mode: Literal["append", "upsert"] = "upsert") -> None:
            into = lake.table("copy_delta").sink(name, mode=mode)
            frame.writeStream.foreachBatch(into).trigger(availableNow=True).start().awaitTermination()

        put(taken, "mine", "append")
        assert lake.table("copy_delta").df().count() == 1
        rows.write.mode("append").json(str(tmp_path / "in"))
        with pytest.raises(StreamingQueryException, match="DUPLICATE_KEY"):
            put(taken, "keyed")
        put(taken.dropDuplicates(["shop"]), "once")
        text = taken.dropDuplicates(["shop"]).selectExpr("shop", "CAST(n AS STRING) AS n")
        with pytest.raises(StreamingQueryException, match="SCHEMA_MISMATCH"):
            put(text, "text")
        put(text.selectExpr("shop", "CAST(n AS INT) AS n"), "number")
        assert lake.table("copy_delta").df().count() == 1
