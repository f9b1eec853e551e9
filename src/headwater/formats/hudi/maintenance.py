"""Table services without Hudi's SQL extension: clustering, compaction, cleaning, archiving."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from headwater.spark.internals import java, java_session


@contextmanager
def write_client(
    spark: SparkSession, path: str, name: str, avro_schema: str, options: Mapping[str, str]
) -> Iterator[Any]:
    """Hudi's own writer, for what the DataFrame API has no word for."""
    jvm: Any = java(spark)
    given = jvm.java.util.HashMap()
    for key, value in options.items():
        given.put(key, value)
    context = jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(java_session(spark).sparkContext())
    client = jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(context, avro_schema, path, name, given)
    try:
        yield client
    finally:
        client.close()


def cluster(spark: SparkSession, client: Any) -> None:
    """Rewrite the files that the client's options choose; nothing to do is fine."""
    jvm: Any = java(spark)
    planned = client.scheduleClustering(jvm.org.apache.hudi.common.util.Option.empty())
    if planned.isPresent():
        client.cluster(planned.get(), True)


def compact(spark: SparkSession, client: Any) -> None:
    """Merge log files into base files."""
    jvm: Any = java(spark)
    option = jvm.org.apache.hudi.common.util.Option
    planned = client.scheduleCompaction(option.empty())
    if planned.isPresent():
        done = client.compact(planned.get())
        client.commitCompaction(planned.get(), done, option.empty())


def forget(client: Any) -> None:
    """Delete the files that no kept commit needs, and move old commits out of the timeline."""
    client.clean()
    client.archive()


def forget_options(kept: int, *, direct: bool) -> dict[str, str]:
    """Settings under which cleaning leaves the newest `kept` commits readable.

    Alongside the commits that it retains, Hudi leaves the state just before them, but its own reader refuses that
    state: where files are read directly, one commit less is retained.
    """
    if kept == 1:
        cleaning = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    else:
        retained = kept - 1 if direct else kept
        cleaning = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": str(retained)}
    return {
        **cleaning,
        # look at everything each time: what is kept may be less than it was, with no commit since
        "hoodie.clean.trigger.max.commits": "0",
        "hoodie.clean.incremental.enabled": "false",
        "hoodie.keep.min.commits": str(kept + 1),
        "hoodie.keep.max.commits": str(kept + 2),
        "hoodie.commits.archival.batch": "100",
    }
