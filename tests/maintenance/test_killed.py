"""A compaction that is killed where it hurts most: no row is lost or doubled, and the next one does what is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.core.model import Kind
from tests.maintenance.crashing import MOMENTS, killed
from tests.maintenance.foreign import foreign_rows
from tests.maintenance.lab import ROWS, Lab
from tests.scale import in_formats

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg", "hudi", "paimon", "parquet"]))
def test_a_compaction_that_is_killed_changes_no_row(tmp_path: Path, format: str) -> None:
    lab = Lab.make(tmp_path / "lake", format, "compact: {small_files: 3}")
    with lab.lake:
        lab.feed(3)
    for moment in MOMENTS:
        assert killed(moment, "maintain", "events", "--project", lab.root), moment
        lab.lake = Lake.open(lab.root)
        with lab.lake:
            wanted = list(range(ROWS * lab.landed))
            assert lab.rows() == wanted, moment
            assert foreign_rows(lab.lake, Kind.TOPIC, "events") == wanted, moment
            lab.feed(3)
            assert lab.rows() == list(range(ROWS * lab.landed))
            assert lab.lake.view("sums").verify().equal
    lab.lake = Lake.open(lab.root)
    with lab.lake:
        before = lab.files()
        lab.lake.maintain(["events"])
        assert lab.files() < before
        assert foreign_rows(lab.lake, Kind.TOPIC, "events") == lab.rows() == list(range(ROWS * lab.landed))
        assert lab.lake.view("sums").refresh().refresh_type == "none"
