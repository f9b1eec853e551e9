"""Signed changes without a change data feed: the rows of the files that came, less those of the files that went.

A file is known by its path and its deletion vector: a delete that only writes a vector is a file that went, with the
old one, and came, with the new one. Files that both states have are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.core.model import Version
from headwater.core.storage import Files
from headwater.formats.delta.log import TransactionLog
from headwater.formats.delta.native_lookup import actions_of, takes_away
from headwater.formats.delta.properties import MAPPING
from headwater.spark.frames import column, diff, signed


def changes(spark: SparkSession, log: TransactionLog, start: Version, end: Version) -> DataFrame:
    """The rows that came and went between two versions, in either order, in the schema of `end`."""
    old, new = log.at(start), log.at(end)
    before, after = _files(spark, old), _files(spark, new)
    came = log.rows(new, _actions(after.join(before, ["path", "vector"], "left_anti")))
    gone = _actions(before.join(after, ["path", "vector"], "left_anti"))
    if not gone:
        return signed(came, 1)
    # With column mapping a column keeps its place in the files under another name: old rows are read as they would
    # be now. Without it a name is all there is, and its type may have been replaced.
    mapped = log.properties().get(MAPPING, "none") != "none"
    went = log.rows(new if mapped else old, gone)
    types = {f.name: f.dataType for f in came.schema.fields}
    same = [column(n).cast(types[n]).alias(n) if n in types else column(n) for n in went.columns]
    return diff(went.select(*same), came)


def appending(files: Files, versions: Sequence[Version]) -> int:
    """How many of the versions, from the first on, took no file away but to rewrite its rows as they were."""
    return sum(1 for _ in takewhile(lambda version: _only_adds(files, version), versions))


def _only_adds(files: Files, version: Version) -> bool:
    actions = actions_of(files, version)
    return actions is not None and not takes_away(actions)


def _files(spark: SparkSession, snapshot: Any) -> DataFrame:
    listed = DataFrame(snapshot.allFiles().toDF(), spark)
    vector = F.coalesce(F.to_json("deletionVector"), F.lit(""))
    action = F.to_json(F.struct(F.struct("*").alias("add")))
    return listed.select("path", vector.alias("vector"), action.alias("action"))


def _actions(files: DataFrame) -> list[str]:
    return [row["action"] for row in files.select("action").collect()]
