"""Tables that other tools made, read by path."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.formats.base import Address
from tests.conformance.lab import rows, weighed
from tests.support import Shop

pytestmark = pytest.mark.usefixtures("spark")

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})


def test_a_delta_table_of_another_writer(tmp_path: Path) -> None:
    Shop.make(tmp_path)
    for _ in range(2):
        write_deltalake(str(tmp_path / "theirs"), ROWS, mode="append")
    with Lake.open(tmp_path) as lake:
        theirs = lake.foreign("delta", path="theirs")
        assert theirs.version == 1 and theirs.df(0).count() == 2 and theirs.df().count() == 4
        assert weighed(theirs.changes(0, 1)) == {"(1, 'a')": 1, "(2, None)": 1}


def test_a_folder_of_parquet_files(tmp_path: Path) -> None:
    Shop.make(tmp_path)
    folder = tmp_path / "theirs [1]" / "day=2026-01-05"
    folder.mkdir(parents=True)
    pq.write_table(ROWS, folder / "part.parquet")
    with Lake.open(tmp_path) as lake:
        theirs = lake.foreign("parquet", path="theirs [1]")
        assert rows(theirs.df().select("id", "name")) == {"(1, 'a')": 1, "(2, None)": 1}
        assert [file.path for file in theirs.files] == [str(folder / "part.parquet")]
        written = lake._warehouse.foreign("parquet", Address(str(tmp_path / "theirs [1]")))
        with pytest.raises(Unsupported, match="did not make it"):
            written.append(theirs.df())


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    Shop.make(tmp_path)
    with Lake.open(tmp_path) as lake:
        with pytest.raises(HeadwaterError) as caught:
            lake.foreign("delta", path="nowhere")
        assert caught.value.code is Code.NO_SUCH_RELATION and "nowhere" in str(caught.value)
