"""Table services without Hudi's SQL extension: clustering, compaction, cleaning, archiving."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from headwater.core.storage import FileEntry, Files
from headwater.formats.hudi.timeline import HudiTimeline
from headwater.spark.internals import java, java_session

_BASE = re.compile(r"_(\d{14,17})\.(?:parquet|orc)$")
_LOG = re.compile(r"^\..*_(\d{14,17})\.log\.")


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


def cluster(spark: SparkSession, client: Any, note: Mapping[str, str] | None = None) -> None:
    """Rewrite the files that the client's options choose; nothing to do is fine. The commit carries the note."""
    jvm: Any = java(spark)
    told = jvm.java.util.HashMap()
    for key, value in (note or {}).items():
        told.put(key, value)
    planned = client.scheduleClustering(jvm.org.apache.hudi.common.util.Option.of(told))
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


def roll_back(client: Any, instant: str) -> None:
    """Take back the latest commit."""
    client.rollback(instant)


def data_files_in(files: Files) -> dict[str, FileEntry]:
    """The base and log files that lie in a table's folder."""
    return {entry.path: entry for entry in files.list(recursive=True) if not entry.is_folder and is_data(entry)}


def is_data(entry: FileEntry) -> bool:
    return not entry.path.startswith(".hoodie/") and _instant(entry.name) is not None


def named_files(records: HudiTimeline, files: Files) -> set[str]:
    """Data files but those whose commit is known not to be there: it is younger than the timeline's beginning (what is
    older has been archived, and was completed), and neither completed nor under way."""
    known = records.completed()
    for instant in known:
        records.commit(instant)  # each has to be readable
    if not known:
        return set(data_files_in(files))
    completed = {instant.requested for instant in known}
    first, pending = min(completed), records.pending()
    found = set()
    for path, entry in data_files_in(files).items():
        begun = _instant(entry.name) or ""
        if begun in completed or begun in pending or begun < first:
            found.add(path)
    return found


def _instant(name: str) -> str | None:
    """The commit that wrote a data file: `<group>_<token>_<instant>.parquet`, `.<group>_<instant>.log.<n>_<token>`."""
    found = _BASE.search(name) or _LOG.search(name)
    return None if found is None else found[1]


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
