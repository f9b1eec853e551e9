"""What commands look up of an Iceberg table, from its metadata alone: columns, live files, the bytes of columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from pyiceberg.manifest import DataFile as Entry
from pyiceberg.table import Table

from headwater.core.errors import Unsupported
from headwater.core.model import DataFile
from headwater.formats.iceberg.metadata import Metadata, field_ids
from headwater.schema.columns import TableColumn

_PLAIN = {
    "boolean": "boolean", "int": "integer", "long": "long", "float": "float", "double": "double", "date": "date",
    "string": "string", "uuid": "string", "binary": "binary", "timestamp": "timestamp_ntz", "timestamptz": "timestamp",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_WHOLE = frozenset({"string", "integer", "long", "boolean"})
"""Types whose value in a partition is written as it is."""


def columns_of(metadata: Metadata) -> tuple[TableColumn, ...]:
    """The present schema in Spark's types."""
    return tuple(TableColumn(f["name"], _type(f["type"]), not f["required"]) for f in metadata.fields(None))


def _type(found: Any) -> Any:
    if isinstance(found, str):
        decimal = _DECIMAL.fullmatch(found)
        if decimal:
            return f"decimal({decimal[1]},{decimal[2]})"
        if found in _PLAIN:
            return _PLAIN[found]
        if found.startswith("fixed"):
            return "binary"
        raise Unsupported(f"Spark's type for Iceberg's {found} is not known without it")
    if found["type"] == "struct":
        fields = [
            {"name": f["name"], "type": _type(f["type"]), "nullable": not f["required"], "metadata": {}}
            for f in found["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if found["type"] == "list":
        nullable = not found["element-required"]
        return {"type": "array", "elementType": _type(found["element"]), "containsNull": nullable}
    return {
        "type": "map",
        "keyType": _type(found["key"]),
        "valueType": _type(found["value"]),
        "valueContainsNull": not found["value-required"],
    }


def live_files(table: Table, metadata: Metadata) -> list[DataFile]:
    """The data files of the latest version with the partition that each was written to."""
    return [
        DataFile(entry.file_path, entry.file_size_in_bytes, entry.record_count, _partition(entry, metadata))
        for entry in _entries(table)
    ]


def column_bytes(table: Table, metadata: Metadata) -> dict[str, int]:
    """Bytes of each top-level column in the live files, nested ones summed up."""
    if metadata.current is None:
        return {}
    by_id: Counter[int] = Counter()
    for entry in _entries(table):
        by_id.update(entry.column_sizes or {})
    return {f["name"]: sum(by_id[i] for i in field_ids(f)) for f in metadata.fields(None)}


def _entries(table: Table) -> Iterator[Entry]:
    if table.metadata.current_snapshot_id is None:
        return
    try:
        for task in table.scan().plan_files():
            yield task.file
    except (ValueError, NotImplementedError) as error:
        raise Unsupported(f"pyiceberg does not plan this table exactly: {error}") from error


def _partition(entry: Entry, metadata: Metadata) -> dict[str, str | None]:
    spec: Sequence[dict[str, Any]] = metadata.spec(entry.spec_id)
    types = {f["id"]: _type(f["type"]) for f in metadata.fields(None)}
    return {
        field["name"]: _text(entry.partition[at], field["transform"], types.get(field["source-id"]))
        for at, field in enumerate(spec)
    }


def _text(value: Any, transform: str, source: Any) -> str | None:
    """A partition's value as Spark shows it."""
    if value is None or transform == "void":
        return None
    if transform == "day" or (transform == "identity" and source == "date"):
        try:
            return (value if isinstance(value, date) else date(1970, 1, 1) + timedelta(days=value)).isoformat()
        except OverflowError:
            raise Unsupported("partitions of years beyond 1 to 9999 can only be read by Spark") from None
    if transform in ("hour", "month", "year") or transform.startswith("bucket"):
        return str(value)
    if source in _WHOLE:
        return str(value).lower() if isinstance(value, bool) else str(value)
    raise Unsupported(f"a partition's value by {transform} of {source} can only be read by Spark")
