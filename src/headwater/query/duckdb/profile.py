"""A query run by DuckDB for its figures: what each scan gave, and how long each part took."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from headwater.formats.file_scan import ScannedFile
from headwater.query.duckdb.connections import register
from headwater.query.duckdb.eligibility import QueryPlan
from headwater.query.duckdb.instances import connect, release
from headwater.query.duckdb.scans import DuckScan
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.generator import text_of
from headwater.query.duckdb.translation.terms import Origin, Refused, literal_node
from headwater.query.explanation import Stage
from headwater.query.limits import Limits, QueryStop
from headwater.query.predicates import And, Compare, OneOf, Predicate

RowGroupAt = tuple[str, int]
"""A file and the number of a row group in it."""

_SHOWN = 12
"""How many operators are told of, the slowest first."""


@dataclass(frozen=True)
class Profile:
    """What came of it, by the alias of each scan."""

    sql: str
    rows: int
    rows_estimated: int | None
    scans: Mapping[str, Mapping[str, int]]
    bloomed: Mapping[str, int]
    """Row groups that a bloom filter rules out."""
    stages: tuple[Stage, ...] = field(default_factory=tuple)


def profiled(plan: QueryPlan, limits: Limits, stopping: QueryStop) -> Profile:
    connection = connect(plan.folders, limits.memory).connection
    try:
        with stopping.stopping(connection.interrupt):
            begun = time.perf_counter()
            registered = register(connection, plan)
            read = Stage("read rows", time.perf_counter() - begun)
            sql = plan.sql(registered)
            begun = time.perf_counter()
            found = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}").fetchall()
            ran = time.perf_counter() - begun
            operators = json.loads(found[0][1]).get("operator")
            if operators is None:  # DuckDB profiles nothing where the files' footers alone give the answer
                answered = len(connection.execute(sql).fetchall())
                operators = [{"type": "FOOTERS", "timing": ran, "intermediate_rows": answered}]
            ruled = {one.scan.alias: _ruled_out(connection, one.scan, one.files) for one in plan.scans}
            bloomed = {alias: len(groups) for alias, groups in ruled.items() if groups is not None}
    except duckdb.Error as error:
        stopping.check()
        raise Refused(f"DuckDB could not finish it: {str(error).splitlines()[0]}") from error
    finally:
        connection.close()
    nodes = [node for node in _walked(operators) if node["type"] not in ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE")]
    top = nodes[0] if nodes else {}
    slowest = sorted(nodes, key=lambda node: -node["timing"])[:_SHOWN]
    stages = [*([read] if registered else []), Stage("run", ran, top.get("intermediate_rows"))]
    stages += [Stage(_named(node), node["timing"], node["intermediate_rows"]) for node in slowest]
    estimate = top.get("extra_info", {}).get("Estimated Cardinality")
    return Profile(
        sql,
        int(top.get("intermediate_rows", 0)),
        None if estimate is None else int(estimate),
        _by_scan(nodes, plan),
        bloomed,
        tuple(stages),
    )


def _walked(nodes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for node in nodes:
        yield node
        yield from _walked(node.get("children", []))


def _named(node: dict[str, Any]) -> str:
    return str(node["type"]).lower().replace("_", " ")


def _by_scan(nodes: list[dict[str, Any]], plan: QueryPlan) -> dict[str, dict[str, int]]:
    """Which node of DuckDB's plan read which of ours: by the files; the first that fits where several do."""
    found: dict[str, dict[str, int]] = {}
    for node in nodes:
        if node["type"] != "TABLE_SCAN":
            continue
        info = node.get("extra_info", {})
        names = str(info.get("Filename(s)", ""))
        for one in plan.scans:
            if one.scan.alias in found:
                continue
            if any(file.path in names for file in one.files) or f"rows_{one.scan.alias}" in str(info):
                found[one.scan.alias] = {
                    "rows": int(node["intermediate_rows"]),
                    "row_groups": int(node.get("row_groups_scanned", 0)),
                }
                break
    return found


def bloomed(scan: DuckScan, files: Sequence[ScannedFile]) -> set[RowGroupAt]:
    """Row groups of some files that bloom filters rule out, whichever engine reads them."""
    kept = connect(scan.reading.folders)
    try:
        return _ruled_out(kept.connection, scan, files) or set()
    finally:
        release(kept, Limits())


def _ruled_out(
    connection: duckdb.DuckDBPyConnection, scan: DuckScan, files: Sequence[ScannedFile]
) -> set[RowGroupAt] | None:
    """Row groups that bloom filters rule out; None where no equality asks them."""
    known = scan.reading.files
    if known is None or known.field_ids is not None:
        return None
    gone: set[RowGroupAt] = set()
    asked = False
    for origin, values in _equalities(scan.predicates):
        if not isinstance(origin, Origin) or origin.scan is not scan or origin.column in known.partition_columns:
            continue
        for file in files:
            asked = True
            ruled = [_probed(connection, file.path, origin, value, known.schema) for value in values]
            if ruled:
                gone |= {(file.path, group) for group in set.intersection(*ruled)}
    return gone if asked else None


def _probed(connection: duckdb.DuckDBPyConnection, path: str, origin: Origin, value: Any, schema: Any) -> set[int]:
    wanted = literal_node(value, schema.field(origin.column).type)
    probe = nodes.function("parquet_bloom_probe", nodes.string(path), nodes.string(origin.column), wanted)
    excluded = nodes.select(
        [nodes.variable("row_group_id")], nodes.table(probe), where=nodes.variable("bloom_filter_excludes")
    )
    try:
        rows = connection.execute(text_of(excluded)).fetchall()
    except duckdb.Error:  # a file from before the column was added, or a type that has no filter
        return set()
    return {row[0] for row in rows}


def _equalities(predicates: list[Predicate]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Columns that must have one of some values."""
    for predicate in predicates:
        if isinstance(predicate, And):
            yield from _equalities(list(predicate.parts))
        elif isinstance(predicate, Compare) and predicate.op == "=":
            yield predicate.column, (predicate.value,)
        elif isinstance(predicate, OneOf):
            yield predicate.column, predicate.values
