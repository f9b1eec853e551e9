"""Tables of a lake read by others than Headwater: the formats' own libraries, without our plan of what to read."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa

from headwater.api.lake import Lake
from headwater.core.model import Kind


def foreign_rows(lake: Lake, kind: Kind, name: str, column: str = "n") -> list[int]:
    """One column of a relation, sorted. Plain Parquet's versions are known to us alone: there, as DuckDB has them."""
    record = lake._warehouse.record(kind, name)
    assert record is not None
    return sorted(_READERS.get(record.format, _by_duckdb)(lake, kind, name).column(column).to_pylist())


def _folder(lake: Lake, kind: Kind, name: str) -> Path:
    path = str(lake._warehouse.address(kind, name).path)
    return Path(unquote(urlparse(path).path) if "://" in path or path.startswith("file:") else path)


def _delta(lake: Lake, kind: Kind, name: str) -> pa.Table:
    from deltalake import DeltaTable

    return pa.table(DeltaTable(str(_folder(lake, kind, name))).to_pyarrow_table())


def _iceberg(lake: Lake, kind: Kind, name: str) -> pa.Table:
    from pyiceberg.table import StaticTable

    root = Path(str(lake._warehouse.context.warehouse).removeprefix("file://"))
    metadata = [
        path for path in root.rglob("*.metadata.json") if path.parents[1].name == name and kind.plural in path.parts
    ]
    newest = max(metadata, key=lambda path: int(path.name.split("-")[0].lstrip("v")))
    return StaticTable.from_metadata(str(newest)).scan().to_arrow()


def _hudi(lake: Lake, kind: Kind, name: str) -> pa.Table:
    from hudi import HudiReadOptions, HudiTableBuilder

    table = HudiTableBuilder.from_base_uri(str(_folder(lake, kind, name))).build()
    return pa.Table.from_batches(table.read(HudiReadOptions()))


def _by_duckdb(lake: Lake, kind: Kind, name: str) -> pa.Table:
    """Paimon is read by pypaimon there."""
    relation = f"mv('{name}')" if kind is Kind.VIEW else f"{kind.value}('{name}')"
    return lake.sql(f"SELECT * FROM {relation}", engine="duckdb").to_arrow()


_READERS = {"delta": _delta, "iceberg": _iceberg, "hudi": _hudi}
