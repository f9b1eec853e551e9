"""The example of the design: every kind of definition in one file, and all of it right."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from headwater.core.errors import ProjectError
from headwater.core.secret import Secret
from headwater.core.spec import layout_of
from headwater.project.check import check_project
from headwater.project.definition import ProjectDefinition
from headwater.project.load.loader import load_project
from headwater.project.runnable import not_runnable
from headwater.sources.postgres.events.config import PostgresEventsSource

FOLDER = Path(__file__).parent / "shop"
ENV = {"ORDERS_DSN": "postgresql://h/orders", "KAFKA": "k:9092", "CRM_DSN": "postgresql://h/crm"}


def shop() -> ProjectDefinition:
    return load_project(FOLDER, env=ENV)


def test_it_passes_check() -> None:
    assert check_project(shop()) == []


def test_it_is_read_as_it_is_meant() -> None:
    project = shop()
    store = project.sources["order_store"]
    assert isinstance(store, PostgresEventsSource)
    assert store.dsn == Secret(ENV["ORDERS_DSN"])
    defaults = PostgresEventsSource(dsn=store.dsn, table="public.events")
    assert store.columns == defaults.columns
    orders = project.topics["orders"]
    assert orders.deduplicate_within == timedelta(days=7)
    assert orders.compact is not None
    assert orders.compact.every == timedelta(hours=6)
    layout = layout_of(orders)
    assert layout.partition_by == ("event_date", "tenant_id")
    assert layout.z_order_by == ("customer_id", "event_type")
    assert layout.target_file_size == layout.parquet.row_group_size == 128 << 20
    assert layout_of(project.tables["customers"]).keys == ("id", "_hw_sequence")
    assert layout_of(project.tables["countries"]).keys == ("code",)
    assert project.monitors["orders_fresh"].on == "topic('orders')"
    assert project.alerts["ops"].webhook is None
    assert project.trigger_of(orders) == "continuous"
    assert project.format_of(orders) == "delta"


def test_every_definition_knows_its_line() -> None:
    project = shop()
    lines = (FOLDER / "headwater.yml").read_text().splitlines()
    sections = ("sources", "topics", "tables", "views", "exports", "monitors", "alerts")
    for section in sections:
        for name, definition in getattr(project, section).items():
            assert definition.where.file == "headwater.yml"
            assert definition.where.path == f"{section}.{name}"
            assert f"{name}:" in lines[definition.where.line - 1]


def test_what_cannot_run_yet_is_said() -> None:
    said = {note.where.path for note in not_runnable(shop()) if note.where is not None}
    assert said == {
        "monitors.orders_fresh", "alerts.ops", "server", "sources.fake",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("  clicks: {from: clicks}", "  clicks: {from: clicks, publish: [glue]}", "topics.clicks.publish"),
    ],
)
def test_what_later_releases_run_is_read_and_said(tmp_path: Path, old: str, new: str, path: str) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "shop")
    file = folder / "headwater.yml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    project = load_project(folder, env=ENV)
    assert check_project(project) == []
    assert path in {note.where.path for note in not_runnable(project) if note.where is not None}


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"01:00-05:00"', '"1 to 5"', "maintenance", "01:00-05:00"),
        ("rate: 100/s", "rate: fast", "sources.fake", "100/s"),
        ("kind: decimal, between", "kind: uuid, between", "sources.fake", "`between` is not for kind `uuid`"),
        ("postgres: {port: 5433}", "postgres: {port: 70000}", "server", "65535"),
        ("flight: {port: 32010}", "flight: {prot: 32010}", "server", "port"),
    ],
)
def test_wrong_values_of_them_are_told_where_they_stand(
    tmp_path: Path, old: str, new: str, line: str, message: str
) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "shop")
    file = folder / "headwater.yml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ProjectError) as caught:
        load_project(folder, env=ENV)
    (problem,) = caught.value.problems
    assert problem.where is not None
    assert str(problem.where.path).startswith(line)
    assert problem.where.line == 1 + next(n for n, text in enumerate(file.read_text().splitlines()) if new in text)
    assert message in f"{problem.message} {problem.hint}"
