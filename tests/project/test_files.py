"""A project in several files: includes, SQL files, targets."""

from __future__ import annotations

from datetime import timedelta

from headwater.project.load.loader import load_project
from headwater.sources.kafka.config import KafkaSource
from tests.project.conftest import BASE, Find, Write, places

SPREAD = {
    "topics/a.yml": "topics:\n  a: {from: landing}\n",
    "topics/b.yml": "topics:\n  b: {from: landing}\nsources: {more: {type: append}}\n",
}


def test_included_files_add_definitions_that_know_their_file(write: Write) -> None:
    project = load_project(write(BASE + "include: [topics/*.yml]\n", SPREAD))
    assert set(project.topics) == {"a", "b"}
    assert set(project.sources) == {"landing", "more"}
    assert str(project.topics["b"].where) == "topics/b.yml:2 topics.b"
    assert project.topics["b"].name == "b"


def test_a_definition_in_two_files_names_both_places(find: Find) -> None:
    problems = find(BASE + "include: topics/*.yml\ntopics:\n  b: {from: landing}\n", SPREAD)
    assert places(problems) == [("DUPLICATE_NAME", "topics/b.yml:2 topics.b")]
    assert problems[0].hint == "first at headwater.yml:5"


def test_mistakes_in_included_files_name_that_file(find: Find) -> None:
    files = {"t.yml": "topics:\n  a: {from: landing, ownr: me}\ntopcs: {}\nname: y\ninclude: [x]\n", "l.yml": "- a\n"}
    problems = find(BASE + "include: [t.yml, l.yml, nope.yml, gone/*.yml]\n", files)
    assert places(problems) == [
        ("PROJECT_NOT_FOUND", "headwater.yml:3 include[2]"),
        ("PROJECT_NOT_FOUND", "headwater.yml:3 include[3]"),
        ("INVALID_VALUE", "l.yml:1"),
        ("UNKNOWN_KEY", "t.yml:2 topics.a.ownr"),
        ("UNKNOWN_KEY", "t.yml:3 topcs"),
        ("DUPLICATE_NAME", "t.yml:4 name"),
        ("UNKNOWN_KEY", "t.yml:5 include"),
    ]


def test_sql_files_are_definitions_named_after_them(write: Write) -> None:
    files = {
        "views/per_day.sql": "/* refresh: {every: 5m}\n   owner: analytics */\nSELECT day\nFROM topic('t') ;\n",
        "tables/clean.sql": "-- only a comment\nSELECT * FROM stream(topic('t'))",
        "views/plain.sql": "/* just words */ SELECT 1 AS one",
    }
    project = load_project(write(BASE + "topics: {t: {from: landing}}\n", files))
    view = project.views["per_day"]
    assert view.sql == "SELECT day\nFROM topic('t')"
    assert view.owner == "analytics"
    assert (view.refresh.mode, view.refresh.every) == ("periodic", timedelta(minutes=5))
    assert str(view.where) == "views/per_day.sql:1 views.per_day"
    assert project.tables["clean"].sql is not None
    assert project.views["plain"].sql == "SELECT 1 AS one"


def test_mistakes_in_sql_files_have_their_lines(find: Find) -> None:
    files = {
        "views/a.sql": "\n/* refresh:\n     evry: 5m\n*/\nSELECT *\nFROM topic('x')\n",
        "views/b.sql": "SELECT *\nFROM (\n",
        "views/c.sql": "/* owner: [ */ SELECT 1",
        "views/d.sql": "/* owner: me */\n",
        "tables/Big.sql": "SELECT 1 AS one",
        "views/e.sql": "/* sql: x */ SELECT 1",
    }
    problems = find(BASE + "topics: {t: {from: landing}}\nviews: {b: {sql: select 1 as x}}\n", files)
    assert places(problems) == [
        ("INVALID_NAME", "tables/Big.sql:1 tables.Big"),
        ("UNKNOWN_KEY", "views/a.sql:3 views.a.refresh.evry"),
        ("UNKNOWN_REFERENCE", "views/a.sql:6 views.a.sql"),
        ("DUPLICATE_NAME", "views/b.sql:1 views.b"),
        ("INVALID_YAML", "views/c.sql:1"),
        ("INVALID_SQL", "views/d.sql:1"),
        ("DUPLICATE_NAME", "views/e.sql:1"),
    ]


TARGETS = """\
name: shop
warehouse: ./lake
spark: {conf: {a: 1, b: 2}}
sources: {orders: {type: files, path: x, pattern: "*.json"}}
topics: {t: {from: orders, partition_by: [a, b], owner: me}}
targets:
  dev: {warehouse: ./dev}
  prod:
    warehouse: ${PROD_LAKE}
    spark: {conf: {b: 3}}
    sources: {orders: {type: kafka, brokers: "k:9092", topic: t}}
    topics: {t: {partition_by: [c], owner: null}}
"""


def test_a_target_is_laid_over_the_project(write: Write) -> None:
    project = load_project(write(TARGETS), "prod", {"PROD_LAKE": "s3://bucket/lake"})
    assert project.warehouse == "s3a://bucket/lake"
    assert project.settings.spark.conf == {"a": "1", "b": "3"}
    assert isinstance(project.sources["orders"], KafkaSource)
    assert project.topics["t"].partition_by == ("c",)
    assert project.topics["t"].owner is None


def test_without_a_target_its_variables_are_not_needed(write: Write) -> None:
    folder = write(TARGETS)
    assert load_project(folder, env={}).warehouse == str(folder.resolve() / "lake")
    assert load_project(folder, "dev", {}).warehouse == str(folder.resolve() / "dev")


def test_an_unknown_target(find: Find) -> None:
    problems = find(TARGETS, target="prd")
    assert places(problems) == [("UNKNOWN_TARGET", "headwater.yml:6 targets")]
    assert problems[0].hint == "did you mean 'prod'?"
    assert places(find(BASE, target="prod")) == [("UNKNOWN_TARGET", "headwater.yml:1")]


def test_mistakes_in_a_target_that_was_not_chosen(find: Find) -> None:
    text = BASE + (
        "topics: {t: {from: landing}}\ntargets:\n  prod:\n    frmat: x\n    warehouse: ${PROD}\n"
        "    topics: {t: {batch_size: '${PROD}'}}\n    server: {prt: 1}\n"
    )
    assert places(find(text)) == [
        ("UNKNOWN_KEY", "headwater.yml:6 targets.prod.frmat"),
        ("UNKNOWN_KEY", "headwater.yml:9 server.prt"),
    ]


def test_a_glob_leaves_the_including_file_out(write: Write) -> None:
    project = load_project(write(BASE + 'include: "*.yml"\n', {"more.yml": "topics:\n  a: {from: landing}\n"}))
    assert list(project.topics) == ["a"]
