"""Selectors: which flows are meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.core.errors import Code, UsageError
from headwater.project.selectors import Node, Selector
from headwater.runner.runner import Runner
from headwater.runner.selection import flows_to_run
from tests.hints.followed import follows
from tests.support import headwater

#   crm ─ log ─┬─ people ─┬─ totals ─ daily
#   web ─ clicks ─────────┘
#   codes (loaded by hand) ─ named
NODES = [
    Node("sources.crm", "source", ("outside",), is_flow=False),
    Node("sources.web", "source", is_flow=False),
    Node("topics.log", "topic", ("nightly", "crm"), inputs=frozenset({"sources.crm"}), format="delta"),
    Node("topics.clicks", "topic", owner="ann", inputs=frozenset({"sources.web"}), format="iceberg"),
    Node("tables.people", "table", ("nightly",), inputs=frozenset({"topics.log"}), format="delta"),
    Node("tables.codes", "table", is_flow=False, format="delta"),
    Node("views.totals", "view", inputs=frozenset({"tables.people", "topics.clicks"}), format="delta"),
    Node("views.daily", "view", ("nightly",), inputs=frozenset({"views.totals"}), format="delta"),
    Node("views.named", "view", inputs=frozenset({"tables.codes"}), format="delta"),
    Node("views.clicks", "view", inputs=frozenset(), format="delta"),
]
SELECTOR = Selector({node.name: node for node in NODES})
ALL = {node.name for node in NODES if node.is_flow}


def selected(*wanted: str, without: str = "") -> set[str]:
    return set(SELECTOR.select(wanted, without.split()).flows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("people", "tables.people"),
        ("topics.clicks", "topics.clicks"),
        ("people+", "tables.people views.totals views.daily"),
        ("people+1", "tables.people views.totals"),
        ("+people", "topics.log tables.people"),
        ("+totals", "topics.log topics.clicks tables.people views.totals"),
        ("1+totals", "topics.clicks tables.people views.totals"),
        ("0+totals", "views.totals"),
        ("1+totals+1", "topics.clicks tables.people views.totals views.daily"),
        ("@people", "topics.log topics.clicks tables.people views.totals views.daily"),
        ("tag:nightly", "topics.log tables.people views.daily"),
        ("tag:night*", "topics.log tables.people views.daily"),
        ("tag:crm+", "topics.log tables.people views.totals views.daily"),
        ("tag:outside+1", "topics.log"),
        ("source:web+", "topics.clicks views.totals views.daily"),
        ("source:*+1", "topics.log topics.clicks"),
        ("topic:*", "topics.log topics.clicks"),
        ("table:people", "tables.people"),
        ("view:d*", "views.daily"),
        ("mv:daily", "views.daily"),
        ("owner:ann", "topics.clicks"),
        ("format:iceberg+", "topics.clicks views.totals views.daily"),
        ("topics.*", "topics.log topics.clicks"),
        ("*", " ".join(sorted(ALL))),
        ("codes+", "views.named"),
        ("tag:nightly,view:*", "views.daily"),
        ("tag:nightly,people+", "tables.people views.daily"),
        ("people tag:crm", "tables.people topics.log"),
        ("log,people+ daily", None),
    ],
)
def test_what_a_selector_means(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(UsageError, match="nothing is selected by all of 'log,people"):
            selected(text)
    else:
        assert selected(text) == set(expected.split())


def test_several_are_joined_and_some_are_taken_away() -> None:
    assert selected("log", "people") == {"topics.log", "tables.people"} == selected("log people")
    assert selected("@people", without="view:* log") == {"topics.clicks", "tables.people"}
    assert selected(without="tag:nightly") == ALL - {"topics.log", "tables.people", "views.daily"}
    assert selected() == ALL


def test_the_order_is_that_of_the_lake() -> None:
    assert SELECTOR.select(["daily", "log"]).flows == ("topics.log", "views.daily")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peopel", "there is no flow 'peopel'; did you mean 'people'?"),
        ("+topics.lgo+", "there is no flow 'topics.lgo'; did you mean 'topics.log'?"),
        ("clicks", "'clicks' is not one flow; write topics.clicks or views.clicks"),
        ("tag:nihgtly", "nothing has the tag 'nihgtly'; did you mean 'nightly'?"),
        ("topic:lgo", "there is no topic 'lgo'; did you mean 'log'?"),
        ("tagg:x", "there is no method 'tagg'; did you mean 'tag'?"),
        ("source:crm", "'source:crm' is a source, and no flow; `headwater flow list source:crm+` has what is made"),
        ("codes", "'codes' selects tables.codes, which no flow keeps"),
        (
            "tag:nightly,owner:ann",
            r"nothing is selected by all of 'tag:nightly,owner:ann' \(tag:nightly: tables.people,",
        ),
        ("@people+", "no selector; it is written as"),
        ("a:b:c", "no selector"),
        (",", "no selector"),
        ("log,", "no selector"),
        ("+", "no selector"),
        ("", "'' is no selector"),
    ],
)
def test_what_selects_nothing_is_an_error_that_helps(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?").replace("+", r"\+")) as caught:
        selected(text)
    assert caught.value.code is Code.UNKNOWN_FLOW
    if text and "," not in text:
        with pytest.raises(UsageError):
            selected(without=text)
    with pytest.raises(UsageError):
        selected("log", text)


def test_what_is_gone_is_no_error_to_a_runner_that_selects_again() -> None:
    assert SELECTOR.select(["gone", "tag:gone", "log"], ["gone"], strict=False).flows == ("topics.log",)


def test_nothing_left() -> None:
    with pytest.raises(UsageError, match="nothing is left of log without topic:"):
        selected("log", without="topic:*")
    with pytest.raises(UsageError, match=r"nothing is left of all flows without \*"):
        selected(without="*")


PROJECT = """
name: shop
sources: {crm: {type: files, path: ./crm}, web: {type: files, path: ./web}}
topics:
  log: {from: crm, tags: [nightly]}
  clicks: {from: web}
tables:
  people: {from: topic('log'), apply: {keys: [id], sequence_by: n}}
  codes: {keys: [code], schema: "code string"}
views:
  totals: {sql: "SELECT count(*) AS n FROM table('people')", tags: [nightly]}
  asked: {sql: "SELECT count(*) AS n FROM table('people')", refresh: {mode: manual}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    return tmp_path


def test_a_run_leaves_views_that_wait_to_be_asked(root: Path) -> None:
    with Lake.open(root) as lake:
        warehouse = lake._warehouse
        assert flows_to_run(warehouse, ["people+"]) == {"tables.people", "views.totals"}
        assert flows_to_run(warehouse, ["people", "asked"]) == {"tables.people", "views.asked"}
        assert flows_to_run(warehouse, [], ["tag:nightly"]) == {"topics.clicks", "tables.people"}
        with pytest.raises(UsageError, match=r"views\.asked: views that wait to be asked run only where they are"):
            flows_to_run(warehouse, ["view:a*"])
        for select, expected in (["source:crm+1"], {"topics.log"}), (["asked"], {"views.asked"}), ([], None):
            runner = Runner(warehouse, once=True, select=select)
            runner.choose_again()
            found = {plan.flow for plan in runner.chosen()}
            assert found == (expected or {"topics.log", "topics.clicks", "tables.people", "views.totals"})


def test_a_runner_selects_again_by_the_changed_project(root: Path) -> None:
    with Lake.open(root) as lake, Lake.open(root) as other:
        runner = Runner(lake._warehouse, select=["tag:nightly"], named=frozenset({"topics.log", "views.totals"}))
        text = PROJECT.replace("clicks: {from: web}", "clicks: {from: web, tags: [nightly]}")
        (root / "headwater.yml").write_text(text, encoding="utf-8")
        with Lake.open(root) as changed:
            runner.warehouse = changed._warehouse
            runner.choose_again()
            assert runner.named == {"topics.log", "topics.clicks", "views.totals"}
        runner.warehouse, runner.select = other._warehouse, ["gone"]
        runner.choose_again()
        assert runner.named == {"topics.log", "topics.clicks", "views.totals"}, "not all flows because none is left"


def test_flows_are_listed_paused_and_resumed_by_selectors(root: Path) -> None:
    def flow(*words: str) -> list[dict[str, object]]:
        answer = headwater("flow", *words, "--json", "--project", root)
        assert answer.code == 0, answer.err
        return answer.json if isinstance(answer.json, list) else [answer.json]

    assert [one["flow"] for one in flow("list", "source:crm+1")] == ["topics.log"]
    assert [one["flow"] for one in flow("list", "--exclude", "view:*")] == [
        "topics.log",
        "topics.clicks",
        "tables.people",
    ]
    assert flow("pause", "log") == [{"flow": "log", "paused": True}], "as it was given"
    assert flow("pause", "--select", "tag:nightly", "--exclude", "topics.*") == [
        {"flow": "views.totals", "paused": True}
    ]
    paused = {one["flow"] for one in flow("list") if one["paused"]}
    assert paused == {"topics.log", "views.totals"}
    assert len(flow("resume", "*")) == 5 and not any(one["paused"] for one in flow("list"))
    said = headwater("flow", "pause", "topic:*", "--project", root)
    assert len(said.out.splitlines()) == 2 and "topics.clicks is paused" in said.out
    assert headwater("flow", "pause", "--project", root).code == 2


@follows("`headwater flow list {}+` has what is made from it")
def test_a_source_is_no_flow(root: Path) -> None:
    refused = headwater("run", "--once", "--select", "source:web", "--project", root)
    assert refused.code == 2
    hinted = refused.err.split("`")[1].split()
    listed = headwater(*hinted[1:], "--json", "--project", root)
    assert [one["flow"] for one in listed.json] == ["topics.clicks"]


def test_a_run_of_nothing_is_refused_before_anything_starts(root: Path) -> None:
    for words in (["ordres"], ["--select", "tag:x"], ["--exclude", "*"], ["--exclude", "tag:nope"], ["--select", ""]):
        refused = headwater("run", "--once", *words, "--project", root)
        assert refused.code == 2 and "UNKNOWN_FLOW" in refused.err, words
