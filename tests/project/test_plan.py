"""What a changed project asks of the lake: created, changed in place, rebuilt or left alone; without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.core.spec import RelationSpec as RelationSpec
from headwater.core.spec import Table, Topic, View
from headwater.core.state import LeaseRecord, RelationRecord
from headwater.formats.registry import FORMATS
from headwater.operations.plan import prepare
from headwater.runner.holders import Holder
from headwater.runner.leases import Lease
from headwater.runner.setups.setup import flow_names
from headwater.runner.setups.views import view_setups
from headwater.warehouse import Warehouse
from tests.hints.followed import follows
from tests.support import headwater

PROJECT = """\
name: shop
code: shop.py
sources: {landing: {type: files, path: ./landing}}
topics:
  log: {from: landing, partition_by: [day]}
  more: {from: landing}
tables:
  people: {format: FORMAT, from: topic('log'), partition_by: [region], apply: {keys: [id], sequence_by: n}}
  seen: {sql: "SELECT v.id, v.n FROM stream(topic('log')) v LEFT JOIN table('people') p ON p.id = v.id WHERE v.n > 1"}
  totals: {sql: "SELECT id, count(*) AS k FROM stream(topic('log')) GROUP BY id"}
  sliced: {transform: thin}
  named: {transform: first}
  codes: {seed: codes.csv, keys: [code], schema: "code string, n smallint"}
  rates: {keys: [since], schema: "since date, rate int"}
views:
  counted: {sql: "SELECT region, count(*) AS n FROM table('people') GROUP BY region"}
"""
CODE = """\
from headwater import transform


@transform
def thin(log):
    return log.select("id")


@transform
def thick(log):
    return log.select("id", "n")


@transform
def first(people):
    return people.where("n = 1")


@transform
def second(people):
    return people.where("n = 2")
"""
MADE = [(Kind.TOPIC, "log"), (Kind.TOPIC, "more"), (Kind.VIEW, "counted")]
MADE += [(Kind.TABLE, name) for name in ("people", "seen", "totals", "sliced", "named", "codes", "rates")]


class Planning:
    """A lake that has been made by one project, under another."""

    def __init__(self, root: Path, format: str = "delta", text: str = PROJECT) -> None:
        self.root = root
        (root / "landing").mkdir()
        self.before = text.replace("FORMAT", format)
        (root / "headwater.yml").write_text(self.before, encoding="utf-8")
        (root / "shop.py").write_text(CODE, encoding="utf-8")
        (root / "codes.csv").write_text("code,n\n", encoding="utf-8")
        with Lake.open(root) as lake:
            warehouse = lake._warehouse
            for kind, name in MADE:
                warehouse.remember(kind, name)

    def after(self, old: str, new: str) -> dict[str, dict[str, object]]:
        assert old in self.before
        (self.root / "headwater.yml").write_text(self.before.replace(old, new), encoding="utf-8")
        return self.plan()

    def plan(self) -> dict[str, dict[str, object]]:
        answer = headwater("plan", "--json", "--project", self.root)
        assert answer.code == 0, answer.err
        return {one.pop("relation"): one for one in answer.json}


@pytest.mark.parametrize(
    ("old", "new", "relation", "action", "why"),
    [
        ("{from: landing, p", "{from: landing, batch_size: 5, p", "topics.log", "change", "batch_size: 1000 → 5"),
        ("{from: landing, p", "{from: landing, description: x, p", "topics.log", "change", "nothing has to be done"),
        ("[day]", "[hour]", "topics.log", "rebuild", 'partition_by: ["day"] → ["hour"] (the table is rebuilt: Delta'),
        (
            "[day]",
            "[hour]",
            "topics.log",
            "rebuild",
            "Delta Lake can't change the partitioning in place, Apache Iceberg",
        ),
        ("[region]", "[n]", "tables.people", "rebuild", "after that tables.named, views.counted, made from it, are"),
        ("keys: [id]", "keys: [id, n]", "tables.people", "rebuild", "told apart by the old ones"),
        ("keys: [id]", "keys: [id, n]", "tables.people", "rebuild", 'apply.keys: ["id"] → ["id", "n"]'),
        ("sequence_by: n", "sequence_by: m", "tables.people", "rebuild", "apply.sequence_by"),
        ("by: n}", "by: n, history: all}", "tables.people", "rebuild", "apply.history: latest → all"),
        ("by: n}", "by: n, tombstones: 1d}", "tables.people", "change", "apply.tombstones: 7d → 1d"),
        ("by: n}", "by: n, delete_when: gone}", "tables.people", "rebuild", "its rows are rebuilt"),
        ("format: delta", "format: iceberg", "tables.people", "rebuild", "format: delta → iceberg"),
        ("count(*) AS n", "sum(n) AS n", "views.counted", "rebuild", "sql: "),
        ("v.n > 1", "v.n > 2", "tables.seen", "change", "what is there stays as it is"),
        ("v.id, v.n F", "v.id, v.n, p.region F", "tables.seen", "change", "NULL in the rows that are there"),
        ("v.n > 1", "v.n > 3", "tables.seen", "change", "headwater flow rebuild tables.seen --yes would make all"),
        ("v.id, v.n F", "v.id, v.n AS m F", "tables.seen", "rebuild", "its rows are rebuilt: column 'n' goes"),
        ("v.id, v.n F", "DISTINCT v.id, v.n F", "tables.seen", "rebuild", "leaves out rows that are there twice"),
        ("v.id, v.n F", "v.id, v.n, v.n + 1 F", "tables.seen", "rebuild", "'v.n + 1' has no name of its own"),
        ("LEFT JOIN table('people')", "FULL JOIN table('people')", "tables.seen", "rebuild", "the other side alone"),
        ("table('people') p ON", "stream(table('people')) p ON", "tables.seen", "rebuild", "rows of tables.people may"),
        (
            "stream(topic('log')) v",
            "stream(topic('more')) v",
            "tables.seen",
            "rebuild",
            "by topics.log and is by topics.m",
        ),
        ("count(*) AS k", "count(n) AS k", "tables.totals", "rebuild", "made of several rows"),
        ("GROUP BY id", "GROUP BY id ORDER BY k LIMIT 3", "tables.totals", "rebuild", "its rows are rebuilt"),
        ('sql: "SELECT id, count', 'description: x, sql: "SELECT id, count', "tables.totals", "change", "nothing has"),
        ("transform: thin", "transform: thick", "tables.sliced", "change", "from the next step on"),
        ("transform: first", "transform: second", "tables.named", "rebuild", "rows of tables.people may be changed"),
        ("n smallint", "n int", "tables.codes", "change", "from the next step on"),
        ("n smallint", "n smallint, m int", "tables.codes", "change", "from the next step on"),
        ("n smallint", "n string", "tables.codes", "rebuild", "column 'n' becomes string, and Delta Lake can't"),
        ("rate int", "rate date", "tables.rates", "leave", "`headwater table drop rates --yes`, and load them again"),
        (
            "{from: landing, p",
            "{schema: {mismatch: discard_value}, from: landing, p",
            "topics.log",
            "change",
            "from the next step on",
        ),
        ("views:\n", "views:\n  more: {sql: SELECT 1 AS one}\n", "views.more", "create", "it is not there yet"),
    ],
)
def test_each_kind_of_change(tmp_path: Path, old: str, new: str, relation: str, action: str, why: str) -> None:
    lake = Planning(tmp_path)
    assert lake.plan() == {}
    found = lake.after(old, new)
    assert list(found) == [relation]
    assert found[relation]["action"] == action
    assert why in "; ".join(map(str, found[relation]["why"])), found  # type: ignore[call-overload]
    assert found[relation]["needs_apply"] == (action == "rebuild" and not relation.startswith("views."))


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("path: ./elsewhere", "source.path: ./landing → ./elsewhere (from the next step on"),
        ("path: ./landing, file_format: csv", "source.file_format: json → csv (from the next step on"),
        (
            'path: ./landing, schema: "id int, n int, day int"',
            "source.schema: none → id int, n int, day int (",
        ),
        ("path: ./landing, description: x", "source.description:  → x (nothing has to be done)"),
    ],
)
def test_a_changed_source_is_shown_at_each_of_its_topics(tmp_path: Path, new: str, told: str) -> None:
    lake = Planning(tmp_path)
    found = lake.after("path: ./landing", new)
    assert {name: (one["action"], one["needs_apply"]) for name, one in found.items()} == {
        "topics.log": ("change", False),
        "topics.more": ("change", False),
    }
    for name, one in found.items():
        assert told in json.dumps(one["why"], ensure_ascii=False), one["why"]
        assert ("its positions stay: what was read is not" in json.dumps(one["why"])) == ("description" not in new)
        assert (f"headwater flow rebuild {name} --yes" in json.dumps(one["why"])) == ("description" not in new)
    with Lake.open(tmp_path) as opened:
        prepare(opened._warehouse, ["topics.log", "topics.more"], apply=False)
    assert lake.plan() == {}, "the next run takes it up"


def test_no_secret_of_a_source_is_kept_in_the_state(tmp_path: Path) -> None:
    source = (
        "{type: kafka, brokers: 'a:1', topic: x, options: {kafka.sasl.password: hunter2, kafka.a: 'b://u:hunter2@c'}}"
    )
    text = f"name: x\nsources: {{bus: {source}}}\ntopics: {{log: {{from: bus}}}}\n"
    (tmp_path / "headwater.yml").write_text(text, encoding="utf-8")
    with Lake.open(tmp_path) as lake:
        lake._warehouse.remember(Kind.TOPIC, "log")
        (record,) = lake._warehouse.state.relations()
    assert record.source is not None and '"brokers": "a:1"' in record.source and "hunter2" not in record.source


def test_the_source_of_a_lake_of_an_earlier_release_is_noted_by_the_next_run(tmp_path: Path) -> None:
    lake = Planning(tmp_path)
    with Lake.open(tmp_path) as opened:
        warehouse = opened._warehouse
        for record in warehouse.state.relations():
            warehouse.state.put(replace(record, source=None))
        prepare(warehouse, ["topics.log"], apply=False)
    assert list(lake.after("path: ./landing", "path: ./elsewhere")) == ["topics.log"]


@pytest.mark.parametrize("format", [name for name in FORMATS.names() if name != "parquet"])
def test_partitioning_is_changed_in_place_where_the_format_can(tmp_path: Path, format: str) -> None:
    found = Planning(tmp_path, format).after("[region]", "[country]")["tables.people"]
    if format == "iceberg":
        assert (found["action"], found["needs_apply"], found["reads"]) == ("change", False, [])
        assert "changed in place" in str(found["why"]) and "files stay as they are" in str(found["why"])
    else:
        assert (found["action"], found["needs_apply"]) == ("rebuild", True)
        assert found["reads"] == [{"name": "topics.log", "bytes": None}], "nothing lies there in this test"
        why = json.dumps(found["why"])
        assert f"{FORMATS.get(format).title} can't change the partitioning in place" in why


@pytest.mark.parametrize("old", ["log: {from: landing", "more: {from: landing"], ids=["payloads kept", "not kept"])
@pytest.mark.parametrize("change", ["filter: n > 1", "exclude_events: a", "schema: {mismatch: fail}", "description: x"])
def test_what_applies_a_change_to_old_rows_is_named(tmp_path: Path, old: str, change: str) -> None:
    before = PROJECT.replace("log: {from: landing", "log: {from: landing, keep_raw: true")
    planning = Planning(tmp_path, text=before)
    name = old[: old.index(":")]
    found = planning.after(f"{name}: {{from: landing", f"{name}: {{{change}, from: landing")
    told = json.dumps(found[f"topics.{name}"]["why"])
    assert ("headwater topic remap log --dry-run" in told) == (name == "log" and "description" not in change)
    assert ("headwater flow rebuild topics.more --yes" in told) == (name == "more" and "description" not in change)


def test_beside_a_runner_a_reload_applies_what_takes_rows_away(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    assert planning.after("[day]", "[hour]")["topics.log"]["applied_by"] == "headwater run --apply"
    assert "only `headwater run --apply` does that" in headwater("plan", "--project", tmp_path).err
    with Lake.open(tmp_path) as lake:
        state = lake._warehouse.state
        lease = Lease.take(state, "topics.log", Holder.here(), timedelta(minutes=5))
        assert planning.plan()["topics.log"]["applied_by"] == "headwater reload --apply"
        assert "only `headwater reload --apply` does that" in headwater("plan", "--project", tmp_path).err
        for old, new, relation in (
            ("log: {from: landing", "log: {filter: n > 1, from: landing", "topics.log"),
            ("views:\n", "views:\n  more: {sql: SELECT 1 AS one}\n", "views.more"),
            ("SELECT region, count(*) AS n", "SELECT region, sum(n) AS n", "views.counted"),
        ):
            found = planning.after(old, new)[relation]
            assert (found["needs_apply"], found["applied_by"]) == (False, "headwater reload"), relation
            assert f"{relation}: `headwater reload` has the runner" in headwater("plan", "--project", tmp_path).err
        found = planning.after("log: {from: landing", "log: {filter: n > 1, from: landing")["topics.log"]
        reload, rebuild = (json.dumps(found["why"]).find(words) for words in ("headwater reload", "flow rebuild"))
        assert 0 < reload < rebuild, "rows that are rebuilt before are made by the old definition"
        planning.after("[day]", "[hour]")
        refused = headwater("run", "--once", "--project", tmp_path)
        assert refused.code == 2 and "`headwater reload --apply` does it" in refused.err
        lease.release()
    assert planning.after("[day]", "[day], filter: n > 1")["topics.log"]["applied_by"] is None


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("nosuch", "there is no topic 'nosuch'"),
        ("new", "has no data yet"),
        ("flat", "Parquet can't replace"),
        ("log", "topics.log is run by"),
    ],
)
def test_a_remap_that_can_not_be_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topic: str, hint: str
) -> None:
    more = "  flat: {from: landing, format: parquet}\n  new: {from: landing}\ntables:\n"
    Planning(tmp_path, text=PROJECT.replace("tables:\n", more))
    monkeypatch.setattr(Warehouse, "spark", property(lambda self: pytest.fail("Spark is started")))
    with Lake.open(tmp_path) as lake:
        state = lake._warehouse.state
        lake._warehouse.remember(Kind.TOPIC, "flat")
        now, another = state.now(), {**Holder.here().record(), "host": "elsewhere"}
        assert state.take_lease(LeaseRecord("topics.log", "t", another, now, now + 600), None)
    refused = headwater("topic", "remap", topic, "--project", tmp_path)
    assert refused.code != 0 and hint in refused.err


@follows("take another name, or drop it first: DROP MATERIALIZED VIEW {}")
def test_what_is_gone_from_the_project_or_made_by_a_statement_is_left_alone(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    with Lake.open(tmp_path) as lake:
        made = RelationRecord(
            Kind.VIEW, "by_hand", "delta", "/x", origin="statement", statement='{"sql": "SELECT 1 AS one"}'
        )
        lake._warehouse.state.put(made)
    found = planning.after("views:\n" + planning.before.split("views:\n")[1], "")
    assert {name: one["action"] for name, one in found.items()} == {"views.counted": "leave"}
    with Lake.open(tmp_path) as lake:
        assert "views.counted" not in flow_names(lake._warehouse), "no run looks for what keeps it"
        assert view_setups(lake._warehouse, {"topics.log"}) == []
    (tmp_path / "headwater.yml").write_text(f"{planning.before}  by_hand: {{sql: SELECT 1 AS one}}\n", encoding="utf-8")
    for command in (["plan"], ["run", "--once"]):
        refused = headwater(*command, "--json", "--project", tmp_path)
        assert refused.code == 2 and "which a statement made" in refused.err and "DUPLICATE_NAME" in refused.err
    (tmp_path / "headwater.yml").write_text(f"{planning.before}  another: {{sql: SELECT 1 AS one}}\n", encoding="utf-8")
    assert headwater("plan", "--project", tmp_path).code == 0


def test_a_lake_of_an_earlier_release_is_taken_as_it_is(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    with Lake.open(tmp_path) as lake:
        state = lake._warehouse.state
        for record in state.relations():
            state.put(replace(record, made_from=None))
    assert planning.after("[day]", "[hour]") == {}


@follows("`headwater plan` shows all of it; `{}` does it")
def test_a_run_refuses_what_takes_rows_away(tmp_path: Path) -> None:
    planning = Planning(tmp_path)
    planning.after("[day]", "[hour]")
    answer = headwater("run", "--once", "--json", "--project", tmp_path)
    assert answer.code == 2
    assert "DESTRUCTIVE_CHANGE" in answer.err and "headwater.yml" in answer.err and "run --apply" in answer.err
    shown = headwater("plan", "--json", "--project", tmp_path)
    assert shown.code == 0 and "needs_apply" in shown.out


def test_keys_and_order_of_applied_changes_are_checked_against_declared_columns(tmp_path: Path) -> None:
    text = PROJECT.replace("FORMAT", "delta").replace(
        "path: ./landing", 'path: ./landing, schema: "id bigint, m bigint"'
    )
    (tmp_path / "shop.py").write_text(CODE, encoding="utf-8")
    (tmp_path / "headwater.yml").write_text(text.replace("keys: [id]", "keys: [idd]"), encoding="utf-8")
    answer = headwater("check", "--json", "--project", tmp_path)
    found = {(one["code"], one["path"], one["line"]): one for one in answer.json["problems"]}
    assert ("INVALID_VALUE", "tables.people.apply.keys", 8) in found
    assert ("INVALID_VALUE", "tables.people.apply.sequence_by", 8) in found


EVERY_KEY: dict[str, dict[str, str]] = {
    "topics.more: {from: landing": {
        "from": "from: other", "table": "table: lake.x.y", "path": "path: ./elsewhere", "format": "format: iceberg",
        "include_events": "include_events: [a]", "exclude_events": "exclude_events: [a]", "filter": "filter: 'id > 1'",
        "mappers": "mappers: shop", "batch_size": "batch_size: 7", "flush_interval": "flush_interval: 3s",
        "schema": "schema: {new_column: rescue, mismatch: fail}", "keep_raw": "keep_raw: true",
        "delivery": "delivery: at_least_once", "deduplicate_by": "deduplicate_by: [id]",
        "deduplicate_within": "deduplicate_by: id, deduplicate_within: 1d", "trigger": "trigger: 5m",
        "partition_by": "partition_by: [id]", "z_order_by": "z_order_by: [id]",
        "target_file_size": "target_file_size: 1MB", "parquet": "parquet: {compression: zstd}",
        "compact": "compact: {every: 6h}", "retain": "retain: {versions: 3d}", "cluster": "cluster: {by: [id]}",
        "interop": "interop: [iceberg]", "publish": "publish: [glue]",
        "description": "description: x", "tags": "tags: [x]", "owner": "owner: me", "options": "options: {a.b: c}",
    },
    "tables.rates: {keys: [since]": {
        "schema": "schema: 'since date'", "keys": "keys: [rate]", "trigger": "trigger: 5m", "seed": "seed: codes.csv",
        "from": "from: topic('log'), apply: {keys: [id]}", "sql": "sql: SELECT 1 AS rate",
        "apply": "from: topic('log'), apply: {keys: [id], history: all}", "transform": "transform: thin",
    },
    "tables.totals: {sql": {
        "watermark": "watermark: {column: at, delay: 1m}", "expect": "expect: {a: {check: k > 0}}",
    },
    "tables.sliced: {transform: thin": {"schema": "schema: 'id bigint'"},
    "views.counted: {sql": {"refresh": "refresh: {every: 5m}", "sql": "sql: SELECT 1 AS n"},
}  # fmt: skip
"""By definition: what is said of each key of its model, at least once over all of them."""


def test_a_change_of_any_key_there_is_can_be_planned(tmp_path: Path) -> None:
    """No key that a project may say, and no hint that we give, makes `plan` fail."""
    said = {"topics": set[str](), "tables": set[str](), "views": set[str]()}
    lake = Planning(tmp_path)
    tree = yaml.safe_load(lake.before.replace("sources: {landing", "sources: {other: {type: append}, landing"))
    for about, changes in EVERY_KEY.items():
        section, name = about.split(":")[0].split(".")
        for key, change in changes.items():
            said[section].add(key)
            given = yaml.safe_load("{" + change + "}")
            kept = tree[section][name]
            if {"from", "seed", "sql", "transform"} & set(given):
                kept = {}
            changed = {**tree, section: {**tree[section], name: {**kept, **given}}}
            (tmp_path / "headwater.yml").write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
            answer = headwater("plan", "--json", "--project", tmp_path)
            assert answer.code in (0, 2), f"{about}, {key}: {answer.err}"
            assert "INTERNAL" not in answer.err and (answer.code == 2 or answer.json), f"{about}, {key}: {answer.err}"
    shared = {field.alias or name for name, field in RelationSpec.model_fields.items()}
    for section, model in (("topics", Topic), ("tables", Table), ("views", View)):
        known = {field.alias or name for name, field in model.model_fields.items()}
        assert known <= said[section] | (said["topics"] & shared), section
