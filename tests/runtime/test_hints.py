"""What the hints of a runner, of its Spark and of its sources say is done, and the flows run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from headwater.sources.base import SourceSpec
from headwater.sources.registry import SOURCES
from tests.hints.followed import follows
from tests.recovery.lab import Moving
from tests.services.postgres import server
from tests.support import Shop, headwater


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@follows("take {}, or `state: sqlite` and one machine")
def test_a_format_without_a_fence_is_not_kept_on_a_lake_that_machines_share(tmp_path: Path) -> None:
    with server() as running:
        for key, value in (("format", "delta"), ("state", "sqlite")):
            given = {"format": "parquet", "state": running.database()}
            project = Moving.make(tmp_path / key, given["format"], more=f"state: {given['state']}")
            project.land("a.json", [("1", "x", 1)])
            refused = project.do("run", "--once", "--json")
            assert refused.code != 0 and "nothing stops a late writer" in refused.out + refused.err, refused
            file = project.root / "headwater.yml"
            file.write_text(file.read_text().replace(f"{key}: {given[key]}", f"{key}: {value}"))
            assert project.run()[0]["topics.orders"] == (1, 1)


class BusSource(SourceSpec):
    """Of a package that brings only the settings so far."""

    type: Literal["bus"] = "bus"


@pytest.mark.full
@pytest.mark.usefixtures("spark")
@follows("`headwater check` names what can't run")
def test_a_source_that_nothing_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SOURCES.names()
    monkeypatch.setitem(SOURCES._items, "bus", BusSource)
    shop = Shop.make(tmp_path)
    shop.land("1.json", [{"event_id": "a"}])
    file = tmp_path / "headwater.yml"
    good = file.read_text()
    file.write_text(good.replace("topics:", "  bus: {type: bus}\ntopics:").replace("from: landing", "from: bus"))
    refused = shop.run()
    assert refused.code != 0 and "NOT_RUNNABLE_YET" in refused.out + refused.err, refused
    (note,) = headwater("check", "--json", "--project", tmp_path).json["notes"]
    assert note["path"] == "sources.bus" and "nothing reads a source of type bus" in note["message"]
    file.write_text(good)
    assert shop.run().code == 0


@pytest.mark.usefixtures("spark")
@follows("its topics can run as they are: headwater run")
def test_a_source_that_needs_no_preparation(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    shop.land("1.json", [{"event_id": "a"}])
    refused = headwater("source", "prepare", "landing", "--project", tmp_path)
    assert refused.code == 2 and "as it is for postgres_events, postgres_cdc" in refused.err, refused.err
    assert shop.run().code == 0
    assert shop.query("SELECT event_id FROM topic('orders')") == [{"event_id": "a"}]
