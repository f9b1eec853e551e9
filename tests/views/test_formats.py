"""The most telling shapes as views, in every format that holds them: after each cycle equal to their query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.core.spec import Refresh
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.operations.views import create_view, refresh_view, verify_view
from tests.changes.shapes import SHAPES
from tests.scale import scaled
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
CYCLES = int(scaled("HEADWATER_VIEWS_CYCLES", usual=2, full=4))

HOLDING = [format.name for format in FORMATS if format.can(Capability.UPSERT) and format.can(Capability.CHANGES)]


@pytest.mark.parametrize("format", HOLDING)
def test_a_view_equals_its_query(format: str, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    require_equal(Lab.open(tmp_path, format, seed), TELLING, CYCLES)


@pytest.mark.full
@pytest.mark.parametrize(("format", "more"), [("delta", 1), *((name, 2) for name in HOLDING)])
def test_every_shape_equals_its_query(format: str, more: int, tmp_path: Path, spark: SparkSession, seed: int) -> None:
    """With a seed of its own each time; the formats that are slow to write get half of the cycles."""
    require_equal(Lab.open(tmp_path, format, seed + more), list(SHAPES), CYCLES if format == "delta" else CYCLES // 2)


def require_equal(lab: Lab, shapes: Sequence[str], cycles: int) -> None:
    """Each shape as a view, compared with its query after every cycle of changes."""
    views = {shape: f"v{at}" for at, shape in enumerate(shapes)}
    with lab.lake:
        for shape, name in views.items():
            create_view(lab.warehouse, name, SHAPES[shape], Refresh(mode="manual", policy="incremental_strict"))
        for cycle in range(cycles):
            change = lab.cycle()
            for shape, name in views.items():
                done = refresh_view(lab.warehouse, name)
                assert done.refresh_type in ("incremental", "none"), (shape, done)
                found = verify_view(lab.warehouse, name)
                assert found.equal, f"{shape}, cycle {cycle}: {found.examples}; {change}"
