"""Tables that a streaming query makes go on from their checkpoints when the lake has moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.core.state import State
from tests.recovery.lab import Moving

pytestmark = pytest.mark.usefixtures("spark")

CODE = """\
from collections.abc import Iterator

import pandas as pd

from headwater import transform


def counted(key: tuple, frames: Iterator[pd.DataFrame], state) -> Iterator[pd.DataFrame]:
    seen = state.getOption[0] if state.exists else 0
    seen += sum(len(frame) for frame in frames)
    state.update((seen,))
    yield pd.DataFrame({"kind": [key[0]], "seen": [seen]})


@transform("seen", streaming=True)
def seen(orders):
    return orders.groupBy("kind").applyInPandasWithState(
        counted, "kind string, seen long", "seen long", "update", "NoTimeout"
    )
"""


@pytest.mark.parametrize("format", ["iceberg", "parquet"])
def test_a_streaming_table_goes_on(format: str, tmp_path: Path) -> None:
    project = Moving.make(
        tmp_path / "my project", format, more="tables: {seen: {transform: seen, keys: [kind], format: delta}}"
    )
    config = project.root / "headwater.yml"
    config.write_text(config.read_text() + "code: code.py\n")
    (project.root / "code.py").write_text(CODE)
    project.land("a.json", [("1", "x", 1), ("2", "y", 2)])
    project.run()
    copy, moved = Moving(tmp_path / "the copy"), Moving(tmp_path / "moved here")
    shutil.copytree(project.root, copy.root)
    project.root.rename(moved.root)  # the copy finds nothing at the old place either: its original has left
    for one in (moved, copy):
        assert one.run()[0]["tables.seen"] == (0, 0)
        one.land("b.json", [("3", "x", 3)])
        assert one.run()[0]["tables.seen"] == (1, 1)
        assert one.query("SELECT kind, seen FROM table('seen') ORDER BY kind") == [
            {"kind": "x", "seen": 2},
            {"kind": "y", "seen": 1},
        ]
    state = State.next_to(moved.root / ".headwater")
    assert {record.path for record in state.stored_relations() if record.path} >= {"tables/seen"}
    state.close()
