"""`defaults`: what holds for every topic, table and view that says nothing else."""

from __future__ import annotations

from datetime import timedelta

from headwater.project.load.loader import load_project
from tests.project.conftest import BASE, Find, Write, places

PROJECT = (
    BASE
    + """defaults:
  topics:
    retain: {versions: 30d}
    schema: {mismatch: fail}
    deduplicate_within: 7d
    tags: [raw]
  tables:
    parquet: {compression: zstd}
  views:
    refresh: {every: 5m, policy: full}
    path: ./gold/{name}
    format: iceberg
topics:
  plain: {from: landing}
  own: {from: landing, retain: {versions: 2d}, schema: {new_column: rescue}, deduplicate_by: id, tags: [mine]}
  kept: {from: landing, retain: null}
tables:
  t: {sql: "SELECT * FROM stream(topic('plain'))", parquet: {dictionary: false}}
views:
  a: {sql: "SELECT count(*) AS n FROM topic('plain')"}
  b: {sql: "SELECT count(*) AS n FROM topic('plain')", refresh: {mode: manual}, format: delta, table: lake.gold.b}
  c: {sql: "SELECT count(*) AS n FROM topic('plain')", refresh: {policy: incremental}, path: ./else}
"""
)


def test_what_a_definition_says_itself_comes_first(write: Write) -> None:
    project = load_project(write(PROJECT), env={})
    topics, views = project.topics, project.views
    assert topics["plain"].retain is not None and topics["plain"].retain.versions == timedelta(days=30)
    assert (topics["plain"].schema_.mismatch, topics["plain"].tags) == ("fail", ("raw",))
    assert topics["plain"].deduplicate_within is None, "it means nothing without `deduplicate_by`"
    assert topics["own"].retain is not None and topics["own"].retain.versions == timedelta(days=2)
    assert (topics["own"].schema_.mismatch, topics["own"].schema_.new_column) == ("fail", "rescue")
    assert topics["own"].deduplicate_within == timedelta(days=7) and topics["own"].tags == ("mine",)
    assert topics["kept"].retain is None, "null takes a default away"
    parquet = project.tables["t"].parquet
    assert (parquet.compression, parquet.dictionary) == ("zstd", False)
    assert (views["a"].refresh.every, views["a"].refresh.policy) == (timedelta(minutes=5), "full")
    assert (views["a"].path, views["a"].format) == ("./gold/a", "iceberg")
    assert (views["b"].refresh.mode, views["b"].refresh.every, views["b"].refresh.policy) == ("manual", None, "full")
    assert (views["b"].path, views["b"].table, views["b"].format) == (None, "lake.gold.b", "delta")
    assert (views["c"].refresh.mode, views["c"].refresh.policy, views["c"].path) == (
        "periodic",
        "incremental",
        "./else",
    )


def test_they_hold_for_sql_files_and_targets_change_them(write: Write) -> None:
    text = BASE + "defaults: {views: {refresh: {every: 5m}}}\ntopics: {t: {from: landing}}\n"
    text += "targets: {prod: {defaults: {views: {refresh: {every: 1h}}}}}\n"
    folder = write(text, {"views/v.sql": "SELECT count(*) AS n FROM topic('t')\n"})
    assert load_project(folder, env={}).views["v"].refresh.every == timedelta(minutes=5)
    assert load_project(folder, "prod", env={}).views["v"].refresh.every == timedelta(hours=1)


def test_a_mistake_in_them_is_told_once_where_it_stands(find: Find) -> None:
    problems = find(
        BASE
        + "defaults:\n  topics:\n    retian: {versions: 1d}\n    batch_size: 0\n  views:\n    path: ./gold\n"
        + "  sources: {}\ntopics: {a: {from: landing}, b: {from: landing}}\n"
    )
    assert sorted(places(problems)) == [
        ("INVALID_VALUE", "headwater.yml:6 defaults.topics.batch_size"),
        ("INVALID_VALUE", "headwater.yml:8 defaults.views.path"),
        ("UNKNOWN_KEY", "headwater.yml:5 defaults.topics.retian"),
        ("UNKNOWN_KEY", "headwater.yml:9 defaults.sources"),
    ]
    assert "write ./gold/{name}" in next(problem.message for problem in problems if "path" in str(problem.where))


def test_a_default_that_does_not_go_with_a_definition_is_told_at_its_own_line(find: Find) -> None:
    text = BASE + "defaults:\n  topics:\n    format: detla\ntopics:\n  a: {from: landing}\n"
    assert places(find(text)) == [("UNKNOWN_FORMAT", "headwater.yml:5 topics.a.format")]
