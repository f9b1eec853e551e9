"""Well-known workloads as views: tables that are written by hand, queries as files, and the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from headwater import Lake
from headwater.core.errors import Code, UsageError
from headwater.core.model import DELETED, Kind
from headwater.core.spec import Layout, Refresh
from headwater.formats.spark_table import SparkTable
from headwater.operations.views import create_view, refresh_view, verify_view
from headwater.spark.arrow_bridge import local_frame
from headwater.sql.references import parse_query, references
from headwater.views.records import Refreshed
from headwater.warehouse import Warehouse
from tests.scale import scaled

PAGE = Path(__file__).parents[2] / "docs" / "views-workloads.md"
CYCLES = int(scaled("HEADWATER_VIEWS_CYCLES", usual=1, full=4))
"""In the full tier every query is a view of a lake."""

Fields = dict[str, Any]
"""A row by its columns."""
Changes = Mapping[str, tuple[Sequence[Fields], Sequence[Fields]]]
"""What came or has new values and what went, per table."""


def queries(folder: Path) -> dict[str, str]:
    """Each query by the name of its file."""
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("q*.sql"))}


def require_listed(
    workload: str, views: Mapping[str, str], falls_back: Mapping[str, str], left_out: Mapping[str, str] | None = None
) -> None:
    """The page's section on a workload has a line for each query, and says how it is kept."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {workload}\n")[1].split("\n## ")[0]
    kept = len(views) - len(falls_back)
    assert f"**{kept} of {len(views)}** are kept incrementally" in section
    lines = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| q")]
    listed = {name.strip(): how.strip() for name, _, how in lines}
    expected = dict.fromkeys(views, "incremental")
    expected |= {name: f"in full: {why}" for name, why in falls_back.items()}
    expected |= {name: f"left out: {why}" for name, why in (left_out or {}).items()}
    assert listed == expected


@dataclass
class Workload:
    """A lake with tables that have keys, and views over them."""

    lake: Lake
    keys: Mapping[str, Sequence[str]]
    schemas: dict[str, pa.Schema]
    refused: dict[str, str] = field(default_factory=dict)
    """Views that are recomputed at every refresh, and why."""

    @staticmethod
    def open(
        root: Path, tables: Mapping[str, pa.Table], keys: Mapping[str, Sequence[str]], views: Mapping[str, str]
    ) -> Workload:
        """A lake with the tables that some views read."""
        read = {one.name for sql in views.values() for one in references(parse_query(sql))}
        tables = {name: rows for name, rows in tables.items() if name in read}
        told = "".join(f"  {name}: {{keys: [{', '.join(keys[name])}]}}\n" for name in tables)
        root.mkdir(parents=True, exist_ok=True)
        (root / "headwater.yml").write_text(f"name: workload\nformat: delta\ntables:\n{told}", encoding="utf-8")
        made = Workload(Lake.open(root), keys, {name: table.schema for name, table in tables.items()})
        for name, rows in tables.items():
            table = made.table(name)
            table.create(from_arrow_schema(rows.schema, prefer_timestamp_ntz=False), Layout(keys=tuple(keys[name])))
            made.warehouse.remember(Kind.TABLE, name)
            table.append(local_frame(made.lake.spark, rows))
        return made

    @property
    def warehouse(self) -> Warehouse:
        return self.lake._warehouse

    def table(self, name: str) -> SparkTable:
        return self.warehouse.table(Kind.TABLE, name)

    def create(self, views: Mapping[str, str]) -> None:
        """Make views; those that can't be kept incrementally are told in `refused`."""
        for name, sql in views.items():
            try:
                create_view(self.warehouse, name, sql, Refresh(mode="manual", policy="incremental_strict"))
            except UsageError as error:
                if error.code is not Code.NOT_INCREMENTAL:
                    raise
                self.refused[name] = error.problem.message
                create_view(self.warehouse, name, sql, Refresh(mode="manual", policy="incremental"))

    def write(self, changes: Changes) -> None:
        """Bring a change into the tables, one commit each."""
        for name, (came, went) in changes.items():
            if name not in self.schemas or not (came or went):
                continue
            rows = pa.Table.from_pylist([*came, *went], schema=self.schemas[name])
            flags = pa.array([False] * len(came) + [True] * len(went))
            self.table(name).upsert(local_frame(self.lake.spark, rows.append_column(DELETED, flags)))

    def refresh(self, name: str) -> Refreshed:
        """Refresh a view; it has to be what its query gives then."""
        done = refresh_view(self.warehouse, name)
        found = verify_view(self.warehouse, name)
        assert found.equal, f"{name}: {found.missing} missing, {found.unexpected} unexpected: {found.examples[:6]}"
        return done

    def require_equal(self, views: Mapping[str, str], falls_back: Container[str], cycles: Iterable[Changes]) -> None:
        """Every view equals its query after every cycle, and is brought there by the change unless it falls back."""
        self.create(views)
        assert set(self.refused) == {name for name in views if name in falls_back}
        moved: Counter[str] = Counter()
        for changes in cycles:
            self.write(changes)
            for name in views:
                done = self.refresh(name)
                assert done.refresh_type != "full" or name in falls_back, (name, done)
                moved[name] += bool(done.rows_changed)
        print(f"cycles that changed a view: {dict(moved)}")
        assert any(moved.values()), "no cycle changed any view"
