"""EXPLAIN and EXPLAIN ANALYZE: which engine and why, and what the storage could leave out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.query.duckdb.eligibility import REASON, Chosen, QueryPlan, plan_query
from headwater.query.duckdb.translation.terms import Refused
from headwater.query.engines import Engine
from headwater.query.explanation import Explained, Stage, TableRead
from headwater.query.gathered import Statistics
from headwater.query.limits import Limits, QueryStop
from headwater.query.row_groups import count
from headwater.query.spark import isolation
from headwater.query.spark.messages import AskPlan
from headwater.query.table_reads import table_read
from headwater.warehouse import Warehouse


def explain(
    warehouse: Warehouse,
    sql: str,
    *,
    engine: Engine = "auto",
    analyze: bool = False,
    limits: Limits | None = None,
    stopping: QueryStop | None = None,
    read_only: bool = False,
) -> Explained:
    """How a query would be answered; with `analyze` it is run, and what was read of each table is told."""
    limits = limits or Limits()
    stopping = stopping or QueryStop(limits.seconds)
    begun = time.perf_counter()
    found: QueryPlan | None = None
    known: Sequence[Chosen] = ()
    reason = "it was asked for"
    try:
        found = plan_query(warehouse, sql)
        known = found.scans
    except Refused as refused:
        reason = refused.reason if engine != "spark" else reason
        known = [Chosen(scan, *scan.chosen()) for scan in refused.scans]
        if engine == "duckdb":
            raise
    planned = Stage("choose and translate", time.perf_counter() - begun)
    if found is not None and engine != "spark":
        try:
            return _by_duckdb(found, planned, analyze, limits, stopping, Statistics(warehouse))
        except Refused as refused:
            if engine == "duckdb":
                raise
            reason = refused.reason
    process = isolation.process() if analyze else None
    if process is not None:
        return process.explain(AskPlan(sql, reason, read_only), stopping)
    from headwater.query.spark.plans import explained_by_spark

    pinned = {} if found is None else {key: read.version for key, read in found.readings.items()}
    return explained_by_spark(
        warehouse, sql, reason, pinned, known, planned, stopping, analyze=analyze, read_only=read_only
    )


def _by_duckdb(
    found: QueryPlan,
    planned: Stage,
    analyze: bool,
    limits: Limits,
    stopping: QueryStop,
    statistics: Statistics,
) -> Explained:
    tables = tuple(table_read(one, statistics) for one in found.scans)
    if not analyze:
        return Explained("duckdb", REASON, tables, stages=(planned,), plan=found.text)
    from headwater.query.duckdb.profile import profiled

    profile = profiled(found, limits, stopping)
    tables = tuple(
        _with_profile(table, one, profile.scans.get(one.scan.alias), profile.bloomed.get(one.scan.alias))
        for table, one in zip(tables, found.scans, strict=True)
    )
    return Explained(
        "duckdb",
        REASON,
        tables,
        analyzed=True,
        rows_estimated=profile.rows_estimated,
        rows=profile.rows,
        stages=(planned, *profile.stages),
        plan=profile.sql,
    )


def _with_profile(table: TableRead, one: Chosen, seen: Mapping[str, int] | None, bloomed: int | None) -> TableRead:
    """After a run: the row groups by their footers, the rest as the engine counted it."""
    if one.scan.reading.files is None:
        unknown = "the rows came through a library that does not tell what it has left out"
        return replace(table, rows=None if seen is None else seen["rows"], row_groups_unknown=unknown)
    counted = count(one.scan, one.files, one.scan.columns)
    actual = counted.groups if seen is None else seen["row_groups"]
    return replace(
        table,
        row_groups_all=counted.groups,
        row_groups=min(actual, counted.groups),
        row_groups_skipped_by_bounds=counted.by_bounds,
        row_groups_skipped_by_bloom_filter=bloomed,
        rows=0 if seen is None else seen["rows"],
        bytes=counted.bytes,
    )
