"""Decoded records as the pipeline has them, and functions from a project's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.core.spec import Topic
from headwater.project.decorators import Registered
from headwater.project.load.loader import load_project
from headwater.schema.types import parse_ddl

STANDARD = {"event_id": "string", "event_type": "string", "event_timestamp": "timestamp", "event_version": "bigint"}


def interpreted(spark: SparkSession) -> SparkSession:
    """A session that compiles no Java: for a handful of rows that is most of the time."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def records(spark: SparkSession, payload: str, events: list[dict[str, Any] | str]) -> tuple[DataFrame, StructType]:
    """A frame as it comes out of decoding: what is no JSON object has a problem."""
    schema = parse_ddl(spark, payload)
    assert schema is not None
    lines = [one if isinstance(one, str) else json.dumps(one) for one in events]
    raw = (
        spark.range(1)
        .select(F.posexplode(F.array(*map(F.lit, lines))).alias("at", "text"))
        .select(
            "text",
            F.format_string("%04d", "at").alias("_position"),
            F.create_map(F.lit("trace"), F.concat(F.lit("t"), "at")).alias("_headers"),
        )
    )
    bad = ~F.col("text").startswith("{")
    frame = raw.select(
        F.col("text").cast("binary").alias("_raw"),
        "_position",
        "_headers",
        F.lit("landing").alias("_source"),
        F.when(~bad, F.from_json("text", schema)).alias("_event"),
        F.when(bad, F.struct(F.lit("decode").alias("reason"), F.lit("not a JSON object").alias("message"))).alias(
            "_problem"
        ),
    )
    for name, data_type in STANDARD.items():
        if name in schema.names:
            frame = frame.withColumn(name, F.col(f"_event.{name}").cast(data_type))
    return frame, schema


def functions_of(folder: Path, code: str, **more: str) -> tuple[Registered, ...]:
    """The functions of a project's `code:`, with modules alongside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "headwater.yml").write_text("name: shop\ncode: shop.py\n", encoding="utf-8")
    (folder / "shop.py").write_text(code, encoding="utf-8")
    for name, text in more.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return load_project(folder).functions


def topic(**keys: Any) -> Topic:
    return Topic.model_validate({"from": "landing", **keys})


def positions(df: DataFrame) -> list[str]:
    return [row["_position"] for row in df.orderBy("_position").collect()]
