"""What Spark tells of a query: its plan, and after a run what its scans have read."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from headwater.errors import HeadwaterError
from headwater.model import Kind
from headwater.query.duckdb.choosing import Plan
from headwater.query.duckdb.reading import Catalogue, reading
from headwater.query.duckdb.terms import Refused
from headwater.query.explained import Explained, Stage, TableRead
from headwater.query.limits import Stopping
from headwater.query.spark import SparkAnswer
from headwater.sparkerrors import as_headwater_error
from headwater.warehouse import Warehouse

_PUSHED = re.compile(r"(?:PushedFilters|DataFilters|filters=): ?\[([^\]]*)\]|\[filters=([^,\]]*)")


def explained_by_spark(
    warehouse: Warehouse,
    sql: str,
    reason: str,
    plan: Plan | None,
    planned: Stage,
    stopping: Stopping,
    *,
    analyze: bool,
) -> Explained:
    """The plan of Spark; `plan` is what is known of the query from DuckDB's side."""
    pinned = {} if plan is None else {key: found.version for key, found in plan.readings.items()}
    begun = time.perf_counter()
    answer = SparkAnswer(warehouse, sql, reason, stopping, pinned)
    stages = [planned, Stage("analyse", time.perf_counter() - begun)]
    execution: Any = answer.df._jdf.queryExecution()
    tables = [_table(warehouse, relation, answer, plan) for relation in answer.versions]
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
            scans = [node for node in _nodes(executed) if "Scan" in node.getClass().getSimpleName()]
            tables = [_with_metrics(warehouse, table, scans) for table in tables]
        words = str(executed.toString())
    except (PySparkException, Py4JError) as error:
        raise as_headwater_error(error) from error
    return Explained(
        "spark", reason, tuple(tables), analyzed=analyze, rows_estimated=estimate, rows=rows, stages=tuple(stages),
        plan=words,
    )  # fmt: skip


def _size(execution: Any) -> int | None:
    """Rows that the optimizer expects, where it has statistics."""
    found = execution.optimizedPlan().stats().rowCount()
    return int(str(found.get())) if found.isDefined() else None


def _table(warehouse: Warehouse, relation: str, answer: SparkAnswer, plan: Plan | None) -> TableRead:
    kinds, _, name = relation.partition(".")
    kind = Kind(kinds.removesuffix("s"))
    found = TableRead(relation, warehouse.format(kind, name).name, answer.versions[relation], "spark")
    if plan is not None:
        from headwater.query.explaining import table_read

        known = next((one for one in plan.scans if one.scan.reading.name == name), None)
        if known is not None:
            told = table_read(known)
            return replace(
                told, reader="spark", files=None, files_pruned_by_partition=None, files_pruned_by_bounds=None,
                partitions=None,
            )  # fmt: skip
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


def _with_metrics(warehouse: Warehouse, table: TableRead, scans: list[Any]) -> TableRead:
    kinds, _, name = table.relation.partition(".")
    address = warehouse.address(Kind(kinds.removesuffix("s")), name)
    for scan in scans:
        told = str(scan.toString()) + _root(scan)
        where = address.path or str(address.table)
        if where.removeprefix("file:") in told or f".{name}" in told:
            return replace(table, **_metrics(scan, table))
    return table


def _root(scan: Any) -> str:
    try:
        return str(scan.relation().location().rootPaths().mkString(","))
    except Py4JError:
        return ""


def _metrics(scan: Any, table: TableRead) -> dict[str, Any]:
    """Spark's counters under our names; formats count under different ones."""
    found = scan.metrics()
    keys = found.keys().toSeq()
    counts = {keys.apply(at): int(found.apply(keys.apply(at)).value()) for at in range(keys.size())}
    told: dict[str, Any] = {"rows": counts.get("numOutputRows")}
    files = counts.get("numFiles", counts.get("resultDataFiles"))
    if files is not None:
        told["files"] = files
    if "filesSize" in counts:
        told["bytes"] = counts["filesSize"]
    elif "totalFileSize" in counts:
        told["bytes"] = counts["totalFileSize"]
    if counts.get("numPartitions"):
        told["partitions"] = counts["numPartitions"]
    output = scan.output()
    told["columns"] = tuple(str(output.apply(at).name()) for at in range(output.size()))
    pushed = _PUSHED.search(str(scan.toString()))
    if pushed and not table.conditions:
        told["conditions"] = tuple(part.strip() for part in (pushed[1] or pushed[2] or "").split("),") if part.strip())
    return told
