"""A Paimon table's schema as its newest schema file has it: columns in Spark's types, layout. Never imports pyspark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, TerminalError, Unsupported
from headwater.core.spec import Layout
from headwater.core.storage import Files
from headwater.schema.columns import TableColumn

LAYOUT = "headwater.layout"
REQUIRED = " NOT NULL"
_PLAIN = {
    "BOOLEAN": "boolean", "TINYINT": "byte", "SMALLINT": "short", "INT": "integer", "BIGINT": "long",
    "FLOAT": "float", "DOUBLE": "double", "DATE": "date", "STRING": "string", "BYTES": "binary",
    "TIMESTAMP(6)": "timestamp_ntz", "TIMESTAMP(6) WITH LOCAL TIME ZONE": "timestamp",
}  # fmt: skip
_DECIMAL = re.compile(r"DECIMAL\((\d+), (\d+)\)")
_FILE = re.compile(r"schema-(\d+)")


@dataclass(frozen=True)
class TableSchema:
    """What Paimon has written down of a table besides its data."""

    fields: Sequence[Mapping[str, Any]]
    keys: tuple[str, ...]
    partition_by: tuple[str, ...]
    options: Mapping[str, str]

    @staticmethod
    def latest(files: Files) -> TableSchema:
        numbers = [int(m[1]) for m in (_FILE.fullmatch(entry.name) for entry in files.list("schema")) if m]
        text = files.find(f"schema/schema-{max(numbers)}") if numbers else None
        if text is None:
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Apache Paimon table at {files.root}")
        said = json.loads(text)
        return TableSchema(said["fields"], tuple(said["primaryKeys"]), tuple(said["partitionKeys"]), said["options"])

    def columns(self) -> tuple[TableColumn, ...]:
        return tuple(TableColumn(f["name"], *_type(f["type"])) for f in self.fields)

    def layout(self) -> Layout:
        return layout_of(self.options, self.keys, self.partition_by)

    def partition_columns(self) -> list[tuple[str, str]]:
        """Each with Paimon's type, whether it is required or not."""
        types = {f["name"]: f["type"] for f in self.fields}
        return [(name, str(types[name]).removesuffix(REQUIRED)) for name in self.partition_by]


def layout_of(options: Mapping[str, str], keys: Sequence[str], partition_by: Sequence[str]) -> Layout:
    """The layout a table was created with; of somebody else's table what Paimon tells."""
    stored = options.get(LAYOUT)
    if stored is not None:
        return Layout.model_validate_json(stored)
    return Layout(keys=tuple(keys), partition_by=tuple(partition_by))


def _type(found: Any) -> tuple[Any, bool]:
    """Spark's type in its JSON form, and whether it may be NULL."""
    if isinstance(found, str):
        name = found.removesuffix(REQUIRED)
        return _plain(name), name == found
    name = str(found["type"])
    nullable = not name.endswith(REQUIRED)
    if name.startswith("ROW"):
        types = [(f["name"], *_type(f["type"])) for f in found["fields"]]
        fields = [{"name": n, "type": t, "nullable": may, "metadata": {}} for n, t, may in types]
        return {"type": "struct", "fields": fields}, nullable
    if name.startswith("ARRAY"):
        element, may = _type(found["element"])
        return {"type": "array", "elementType": element, "containsNull": may}, nullable
    if name.startswith("MAP"):
        value, may = _type(found["value"])
        return {
            "type": "map",
            "keyType": _type(found["key"])[0],
            "valueType": value,
            "valueContainsNull": may,
        }, nullable
    raise Unsupported(f"Spark's type for Paimon's {name} is not known without it")


def _plain(name: str) -> str:
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        return f"decimal({decimal[1]},{decimal[2]})"
    if name not in _PLAIN:
        raise Unsupported(f"Spark's type for Paimon's {name} is not known without it")
    return _PLAIN[name]
