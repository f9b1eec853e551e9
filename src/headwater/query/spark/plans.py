"""What Spark tells of a query: its plan, and after a run what its scans have read.

Spark does not count the row groups that it leaves out. They are counted here, by the footers of the files that it has
read and the conditions that reach the storage; where it is not known which files those are, that is said.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.query.duckdb.eligibility import Chosen
from headwater.query.duckdb.profile import bloomed
from headwater.query.duckdb.relations import Catalogue, reading
from headwater.query.duckdb.translation.terms import Refused
from headwater.query.engines import Pinned
from headwater.query.explanation import Broadcast, Explained, Stage, TableRead
from headwater.query.gathered import Statistics
from headwater.query.limits import QueryStop
from headwater.query.row_groups import count, distinct
from headwater.query.spark.answer import SparkAnswer, failure
from headwater.query.spark_files import listed
from headwater.query.table_reads import table_read
from headwater.spark.internals import query_execution
from headwater.warehouse import Warehouse

_PUSHED = re.compile(r"(?:PushedFilters|DataFilters|filters=): ?\[([^\]]*)\]|\[filters=([^,\]]*)")


_FILES = ("numFiles", "resultDataFiles", "resultedTableFiles")
_BYTES = ("filesSize", "totalFileSize", "splitSize")
"""What the formats' readers call what they count."""
_UNCLEAR = "the query reads it in several places, or in a way that is not followed here"
_UNTOLD = "the format's reader does not tell which files and row groups it has read"

_SHOWN = 12
"""How many operators are told of, the slowest first."""


def explained_by_spark(
    warehouse: Warehouse,
    sql: str,
    reason: str,
    pinned: Pinned,
    known: Sequence[Chosen],
    planned: Stage,
    stopping: QueryStop,
    *,
    analyze: bool,
    read_only: bool = False,
) -> Explained:
    """The plan of Spark; `known` is what was found out of the query's tables on the way to it."""
    begun = time.perf_counter()
    scans = [one.scan for one in known]
    answer = SparkAnswer(warehouse, sql, reason, stopping, pinned, scans, read_only=read_only)
    stages = [planned, Stage("analyse", time.perf_counter() - begun)]
    if analyze:
        known = [_with_files(warehouse, one) for one in known]
    execution: Any = query_execution(answer.df)
    tables = [_table(warehouse, relation, answer, known) for relation in answer.versions]
    rows = None
    try:
        begun = time.perf_counter()
        estimate = _size(execution)
        executed = execution.executedPlan()
        stages.append(Stage("plan", time.perf_counter() - begun))
        if analyze:
            begun = time.perf_counter()
            with answer.running():
                rows = int(execution.toRdd().count())
            stages.append(Stage("run", time.perf_counter() - begun, rows))
            nodes = list(_nodes(executed))
            stages += sorted((_stage(node) for node in nodes), key=lambda stage: -stage.seconds)[:_SHOWN]
            scans = [node for node in nodes if "Scan" in node.getClass().getSimpleName()]
            tables = [_with_metrics(warehouse, table, scans, known) for table in tables]
        words = str(executed.toString())
    except (PySparkException, Py4JError) as error:
        raise failure(error, answer.df.sparkSession.sparkContext) from error
    return Explained(
        "spark", reason, tuple(tables), analyzed=analyze, rows_estimated=estimate, rows=rows, stages=tuple(stages),
        plan=words,
        broadcasts=tuple(
            Broadcast(f"{kind.plural}.{name}", one.bytes_all, one.bytes, one.statistics)
            for (kind, name), one in answer.small.items()
        ),
    )  # fmt: skip


def _size(execution: Any) -> int:
    """Rows that the optimizer expects: by its statistics, else by the bytes and the width that it reckons with."""
    plan = execution.optimizedPlan()
    found = plan.stats().rowCount()
    if found.isDefined():
        return int(str(found.get()))
    output = plan.output()
    width = 8 + sum(int(output.apply(at).dataType().defaultSize()) for at in range(output.size()))
    return int(str(plan.stats().sizeInBytes())) // width


def _stage(node: Any) -> Stage:
    """An operator: the time that it tells of, summed over its tasks, and its rows."""
    counts = _counts(node)
    seconds = sum(count / _PER_SECOND[kind] for kind, count in counts.values() if kind in _PER_SECOND)
    rows = counts.get("numOutputRows")
    return Stage(str(node.nodeName()).lower(), seconds, None if rows is None else rows[1])


_PER_SECOND = {"timing": 1e3, "nsTiming": 1e9}


def _counts(node: Any) -> dict[str, tuple[str, int]]:
    """A node's counters: what kind each is, and how far it has come."""
    found = node.metrics()
    keys = found.keys().toSeq()
    named = ((str(keys.apply(at)), found.apply(keys.apply(at))) for at in range(keys.size()))
    return {name: (str(metric.metricType()), int(metric.value())) for name, metric in named}


def _table(warehouse: Warehouse, relation: str, answer: SparkAnswer, known: Sequence[Chosen]) -> TableRead:
    kind, name = _named(relation)
    found = TableRead(relation, warehouse.format(kind, name).name, answer.versions[relation], "spark")
    one = _of(relation, known)
    if one is not None:
        known_before = replace(
            table_read(one, Statistics(warehouse)), reader="spark", files=None, files_pruned_by_partition=None,
            files_pruned_by_bounds=None, partitions=None,
        )  # fmt: skip
        # Files that are not handed over may hold rows that are deleted, or merged as they are read.
        told = one.scan.reading
        return known_before if told.why_rows is None or told.files is None else replace(known_before, rows_all=None)
    try:
        files = reading(Catalogue(warehouse), kind, name, answer.versions[relation]).files
    except (Refused, HeadwaterError):
        return found
    if files is None:
        return found
    return replace(
        found, columns_all=len(files.schema.names), files_all=len(files.files), rows_all=files.rows,
        bytes_all=files.bytes,
    )  # fmt: skip


def _named(relation: str) -> tuple[Kind, str]:
    kinds, _, name = relation.partition(".")
    return Kind(kinds.removesuffix("s")), name


def _of(relation: str, known: Sequence[Chosen]) -> Chosen | None:
    """The one scan of a relation that was looked at; None where there are several, which differ."""
    found = [one for one in known if one.scan.reading.label == relation]
    return found[0] if len(found) == 1 else None


def _nodes(plan: Any) -> Iterator[Any]:
    """Every node of a physical plan, those of adaptive stages and subqueries too."""
    yield plan
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        yield from _nodes(plan.executedPlan())
        return
    if name.endswith("QueryStageExec"):
        yield from _nodes(plan.plan())
        return
    for group in (plan.children(), plan.subqueries()):
        for at in range(group.size()):
            yield from _nodes(group.apply(at))


def _with_metrics(warehouse: Warehouse, table: TableRead, scans: list[Any], known: Sequence[Chosen]) -> TableRead:
    kind, name = _named(table.relation)
    address = warehouse.address(kind, name)
    for scan in scans:
        told = str(scan.toString()) + _root(scan)
        where = address.path or str(address.table)
        if where.removeprefix("file:") in told or f".{name}" in told:
            counted = replace(table, **_metrics(scan, table))
            one = _of(table.relation, known)
            return replace(counted, row_groups_unknown=_UNCLEAR) if one is None else _with_row_groups(counted, one)
    return replace(table, row_groups_unknown="Spark's plan has no scan of it")


def _with_row_groups(table: TableRead, one: Chosen) -> TableRead:
    """By footers, if Spark has read as many files as the conditions leave: by bounds, or by partitions alone."""
    scan = one.scan
    if scan.reading.files is None or table.files is None:
        return replace(table, row_groups_unknown=_UNTOLD)
    by_partition = [file for file in scan.reading.files.files if scan.wanted(file, only_partition=True)]
    for files, by_bounds in ((one.files, one.by_bounds), (by_partition, 0)):
        if len(files) == table.files:
            counted = count(scan, files, table.columns, bloomed(scan, files))
            if (table.rows or 0) > counted.rows:
                break  # it has read more than that: conditions may not be used where files are merged
            return replace(
                table,
                partitions=distinct(files) if scan.reading.files.partition_columns else None,
                files_pruned_by_partition=one.by_partition,
                files_pruned_by_bounds=by_bounds,
                row_groups_all=counted.groups,
                row_groups=counted.groups - counted.by_bounds - counted.by_bloom_filter,
                row_groups_skipped_by_bounds=counted.by_bounds,
                row_groups_skipped_by_bloom_filter=counted.by_bloom_filter,
                bytes=counted.bytes,
            )
    return replace(table, row_groups_unknown=_UNTOLD)


def _with_files(warehouse: Warehouse, one: Chosen) -> Chosen:
    """A scan with the files that Spark's side of its format knows, where the native reader has none to hand over."""
    scan = one.scan
    if scan.reading.files is not None:
        return one
    scan.reading = replace(scan.reading, files=listed(warehouse, scan))
    return Chosen(scan, *scan.chosen())


def _root(scan: Any) -> str:
    try:
        return str(scan.relation().location().rootPaths().mkString(","))
    except Py4JError:
        return ""


def _metrics(scan: Any, table: TableRead) -> dict[str, Any]:
    """Spark's counters under our names; formats count under different ones."""
    counts = {name: count for name, (_, count) in _counts(scan).items()}
    told: dict[str, Any] = {"rows": counts.get("numOutputRows")}
    files = next((counts[name] for name in _FILES if name in counts), None)
    if files is not None:
        told["files"] = files
    size = next((counts[name] for name in _BYTES if name in counts), None)
    if size is not None:
        told["bytes"] = size
    if counts.get("numPartitions"):
        told["partitions"] = counts["numPartitions"]
    output = scan.output()
    told["columns"] = tuple(str(output.apply(at).name()) for at in range(output.size()))
    pushed = _PUSHED.search(str(scan.toString()))
    if pushed and not table.conditions:
        told["conditions"] = tuple(part.strip() for part in (pushed[1] or pushed[2] or "").split("),") if part.strip())
    return told
