"""A project that follows tables of others, and those others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from tests.support import Answer, headwater


@dataclass(frozen=True)
class Follower:
    """Topics of the sources' names, in plain Parquet."""

    root: Path

    @staticmethod
    def make(root: Path, sources: Mapping[str, Mapping[str, Any]], topic: str = "", **project: Any) -> Follower:
        follower = Follower(root)
        follower.define(sources, topic, **project)
        return follower

    def define(self, sources: Mapping[str, Mapping[str, Any]], topic: str = "", **project: Any) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        lines = ["name: following", f"format: {project.pop('format', 'parquet')}"]
        lines += [f"{key}: {json.dumps(value)}" for key, value in project.items()]
        lines += ["sources:", *(f"  {name}: {json.dumps({'type': 'table', **spec})}" for name, spec in sources.items())]
        lines += ["topics:", *(f"  {name}: {{from: {name}{', ' if topic else ''}{topic}}}" for name in sources)]
        (self.root / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(self) -> Answer:
        return headwater("run", "--once", "--json", "--project", self.root)

    def ran(self) -> dict[str, int]:
        """A run that went well: the rows of each topic that came."""
        answer = self.run()
        assert answer.code == 0, answer.out + answer.err
        return {flow["flow"].removeprefix("topics."): flow["rows"] for flow in answer.events[-1]["flows"]}

    def failed(self) -> str:
        """A run in which the flow was given up: why."""
        answer = self.run()
        assert answer.code == 1, answer.out + answer.err
        return str(answer.events[-1]["flows"][0]["error"])

    def rows(self, topic: str, *columns: str) -> Counter[tuple[Any, ...]]:
        with Lake.open(self.root) as lake:
            found = lake.topic(topic).df().select(*columns).collect()
        plain: dict[type, Any] = {list: tuple, bytearray: bytes}
        return Counter(tuple(plain.get(type(v), lambda same: same)(v) for v in row) for row in found)

    def summed(self, topic: str, *columns: str) -> dict[tuple[Any, ...], int]:
        """How often the table has each row, by the topic's signed changes."""
        total: Counter[tuple[Any, ...]] = Counter()
        with Lake.open(self.root) as lake:
            for *row, weight in lake.topic(topic).df().select(*columns, "_weight").collect():
                total[tuple(row)] += weight
        return {row: weight for row, weight in total.items() if weight}

    def positions(self, topic: str) -> list[dict[str, Any]]:
        """The positions of the steps, oldest first."""
        with Lake.open(self.root) as lake:
            commit_tags = [commit.commit_tag for commit in lake.topic(topic).history() if commit.commit_tag is not None]
        return [dict(commit_tag.positions[topic]) for commit_tag in reversed(commit_tags)]


def hadoop_catalog(spark: SparkSession, name: str, folder: Path) -> None:
    """An Iceberg catalog of somebody else's, whose tables go by path."""
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(folder))
    spark.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")


def paimon_catalog(spark: SparkSession, name: str, folder: Path) -> None:
    spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.paimon.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(folder))
