"""A few rows of a large Delta table, and a few changes of it, through deltalake: the log tells how much that reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable as Handle
from deltalake import QueryBuilder

from headwater.core.model import WEIGHT, Version
from headwater.core.quotes import double_quoted
from headwater.core.storage import Files
from headwater.formats.delta.properties import WENT
from headwater.formats.key_filter import PLAIN, KeyFilter, among, ranges
from headwater.schema.arrow import as_spark

_COMMIT = re.compile(r"\d{20}\.json")
_LATEST = 20
"""Commits that are looked at for one that is torn."""
_FEED = {"_change_type", "_commit_version", "_commit_timestamp"}


def is_panicked_of(path: str) -> bool:
    """Whether a table's path has characters that deltalake reads files under, but panics of where it writes them or
    reads the change feed."""
    return re.search(r"[\[\]^|]", path) is not None


def some(handle: Handle, key_filter: KeyFilter, most: int) -> pa.Table | None:
    """At least the rows that are asked for; None where more than so many bytes would have to be read."""
    types = {f.name: f.type for f in as_arrow(handle)}
    if not {*key_filter.values, *key_filter.columns} <= types.keys() or not all(map(is_same_in_spark, types.values())):
        return None
    conditions = [_condition(name, types[name], key_filter) for name in key_filter.values]
    if None in conditions or _bytes(handle, key_filter) > most:
        return None
    names = ", ".join(map(double_quoted, dict.fromkeys([*key_filter.columns, *key_filter.values])))
    where = " AND ".join(f"({one})" for one in conditions)
    found: Any = QueryBuilder().register("t", handle).execute(f"SELECT {names} FROM t WHERE {where}")
    rows = as_spark(pa.RecordBatchReader.from_stream(found)).read_all()
    return among(rows, key_filter).select(list(key_filter.columns))


def changes(handle: Handle, files: Files, start: Version, most: int) -> pa.Table | None:
    """The signed changes after a version up to the handle's; None where they are not few, or not plainly there."""
    size = 0
    for version in range(start + 1, handle.version() + 1):
        found = _feed_bytes(files, version)
        if found is None or (size := size + found) > most:
            return None
    schema = as_arrow(handle)
    if not all(is_same_in_spark(f.type) for f in schema):
        return None
    feed: Any = handle.load_cdf(starting_version=start + 1, ending_version=handle.version())
    rows = as_spark(pa.RecordBatchReader.from_stream(feed)).read_all()
    if {*rows.schema.names} != {*schema.names, *_FEED}:
        return None
    went = pc.is_in(rows["_change_type"], pa.array(WENT))
    weight = pc.if_else(went, pa.scalar(-1, pa.int64()), pa.scalar(1, pa.int64()))
    return rows.select(schema.names).append_column(WEIGHT, weight)


def as_arrow(handle: Handle) -> pa.Schema:
    return pa.schema(handle.schema().to_arrow())


def is_same_in_spark(kind: pa.DataType) -> bool:
    """Whether a type goes to Spark and back as it is: moments without a zone would get one."""
    if pa.types.is_nested(kind):
        return all(is_same_in_spark(kind.field(at).type) for at in range(kind.num_fields))
    return not (pa.types.is_timestamp(kind) and kind.tz is None)


def _feed_bytes(files: Files, version: Version) -> int | None:
    """What the changes of a commit hold; None where they are not written down as such, or columns changed too."""
    actions = actions_of(files, version)
    if actions is None or any("metaData" in one or "protocol" in one for one in actions):
        return None
    read = [one["cdc"] for one in actions if "cdc" in one]
    if not read:
        if takes_away(actions):
            return None
        read = [one["add"] for one in actions if "add" in one and _changes_data(one["add"])]
    # deltalake takes a path of the feed as it stands, though it is encoded.
    if any(one.get("deletionVector") or "%" in one["path"] for one in read):
        return None
    return sum(int(one["size"]) for one in read)


def actions_of(files: Files, version: Version) -> list[dict[str, Any]] | None:
    """What a commit did; None where the log no longer has it."""
    found = files.find(f"_delta_log/{version:020d}.json")
    return None if found is None else [json.loads(line) for line in found.decode().splitlines() if line]


def takes_away(actions: Iterable[dict[str, Any]]) -> bool:
    """Whether a commit took a file away, and not only to rewrite its rows as they were."""
    return any("remove" in one and _changes_data(one["remove"]) for one in actions)


def _changes_data(action: dict[str, Any]) -> bool:
    # By the protocol an action that does not say so changes data.
    return bool(action.get("dataChange", True))


def _bytes(handle: Handle, key_filter: KeyFilter) -> int:
    """The size of the files in which such rows can be, by what the log says of them."""
    found: Any = handle.get_add_actions(flatten=True)
    files = pa.RecordBatchReader.from_stream(found).read_all()
    for name in key_filter.values:
        low = next((one for one in (f"partition.{name}", f"min.{name}") if one in files.schema.names), None)
        high = next((one for one in (f"partition.{name}", f"max.{name}") if one in files.schema.names), None)
        if (
            low is None
            or high is None
            or pa.types.is_timestamp(files.schema.field(low).type)
            or key_filter.has_null(name)
        ):
            continue
        within: Any = pc.is_null(files[low])
        for first, last in ranges(key_filter.given(name)):
            meets = pc.and_(pc.less_equal(files[low], last), pc.greater_equal(files[high], first))
            within = pc.or_kleene(within, meets)
        files = files.filter(within)
    return int(pc.sum(files["size_bytes"]).as_py() or 0)


def _condition(name: str, kind: pa.DataType, key_filter: KeyFilter) -> str | None:
    """Whether a column lies in one of the ranges; None where a value can't be written down."""
    value = double_quoted(name)
    found = [f"{value} IS NULL"] if key_filter.has_null(name) else []
    for first, last in ranges(key_filter.given(name)):
        low, high = _literal(first, kind), _literal(last, kind)
        if low is None or high is None:
            return None
        found.append(f"({value} >= {low} AND {value} <= {high})")
    return " OR ".join(found) or "FALSE"


def _literal(value: Any, kind: pa.DataType) -> str | None:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if pa.types.is_timestamp(kind):
        return f"arrow_cast({value}, 'Timestamp(Microsecond, Some(\"{kind.tz}\"))')"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return f"arrow_cast('{value:f}', 'Decimal128({kind.precision}, {kind.scale})')"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str) and PLAIN.fullmatch(value) else None


def torn_commit(log: Files) -> str | None:
    """The newest commit of a log that is no JSON, line by line: it was cut, or something else was written over it."""
    names = sorted((entry.name for entry in log.list() if _COMMIT.fullmatch(entry.name)), reverse=True)
    for name in names[:_LATEST]:
        try:
            for line in (log.find(name) or b"").splitlines():
                json.loads(line)
        except ValueError:
            return log.join(name)
    return None
