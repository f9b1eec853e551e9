"""The most telling shapes as views, in every format that holds them: after each cycle equal to their query."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.core.spec import Refresh
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.operations.views import create_view, refresh_view, verify_view
from tests.changes.shapes import SHAPES
from tests.views.lab import Lab

TELLING = (
    "filter",
    "explode",
    "three tables",
    "full",
    "not in, unknown values",
    "count and sum",
    "min and max",
    "collect",
    "left join and aggregate",
    "having",
    "distinct",
    "top of each group",
)
CYCLES = int(os.environ.get("HEADWATER_VIEWS_CYCLES", "2"))
ALL = "HEADWATER_VIEWS_CYCLES" in os.environ
"""The full run: every shape, in Delta."""

HOLDING = [format.name for format in FORMATS if format.can(Capability.UPSERT) and format.can(Capability.CHANGES)]


@pytest.mark.parametrize("format", ["delta"] if ALL else HOLDING)
def test_a_view_equals_its_query(format: str, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    lab = Lab.open(tmp_path, format, seed)
    shapes = list(SHAPES) if ALL else list(TELLING)
    views = {shape: f"v{at}" for at, shape in enumerate(shapes)}
    with lab.lake:
        for shape, name in views.items():
            create_view(lab.warehouse, name, SHAPES[shape], Refresh(mode="manual", policy="incremental_strict"))
        for cycle in range(CYCLES):
            change = lab.cycle()
            for shape, name in views.items():
                done = refresh_view(lab.warehouse, name)
                assert done.refresh_type in ("incremental", "none"), (shape, done)
                found = verify_view(lab.warehouse, name)
                assert found.equal, f"{shape}, cycle {cycle}: {found.examples}; {change}"
