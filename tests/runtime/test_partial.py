"""What works while the project file has a mistake: looking at the lake, and steering its flows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headwater.core.state import State
from tests.support import Answer, Shop, headwater

pytestmark = pytest.mark.usefixtures("spark")

VIEW = "views:\n  kinds: {sql: 'SELECT kind, count(*) AS n FROM orders GROUP BY kind', refresh: {max_staleness: 1h}}\n"
FLOWS = ["topics.orders", "views.kinds"]
MISTAKES = {
    "a new definition": "tables:\n  t: {sql: select * from nosuch, retain: 30d}\n",
    "the definition itself": ("from: landing", "form: landing"),
    "the view": ("kinds: {sql:", "kinds: {spl: 5, query:"),
    "not YAML": "name: [\n",
    "no name": ("name: shop", "nam: shop"),
    "the code": "code: nosuch.py\n",
    "the warehouse": "warehouse: [./other]\n",
    "another warehouse by an unknown key": "warehous: ./other\n",
    "a variable": "description: ${HEADWATER_NOT_SET}\n",
}
LOOKS = (
    "topic list", "topic describe orders", "topic history orders", "topic diff orders 0", "topic tail orders",
    "table list", "mv list", "mv describe kinds", "mv query kinds", "dlq list", "source list", "parquet stats orders",
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    made = Shop.make(tmp_path_factory.mktemp("partial") / "shop")
    with (made.root / "headwater.yml").open("a") as file:
        file.write(VIEW)
    made.land("a.json", [{"event_id": "1", "kind": "x"}, {"event_id": "2", "kind": "y"}, "no JSON"])
    assert made.run().code == 0
    assert len(made.query("SELECT * FROM mv('kinds')")) == 2
    return made


@contextmanager
def spoilt(shop: Shop, mistake: str | tuple[str, str]) -> Iterator[None]:
    """While this is open the project file has a mistake."""
    file = shop.root / "headwater.yml"
    text = file.read_text()
    wrong = text + mistake if isinstance(mistake, str) else text.replace(*mistake)
    assert wrong != text
    file.write_text(wrong)
    try:
        yield
    finally:
        file.write_text(text)


def do(shop: Shop, command: str, *more: str) -> Answer:
    return headwater(*command.split(), *more, "--project", shop.root)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_keeps_nobody_from_looking_and_steering(shop: Shop, mistake: str) -> None:
    before = State.lake_in(shop.root / ".headwater")
    with spoilt(shop, MISTAKES[mistake]):
        status = do(shop, "status", "--json")
        assert status.code == 0, status.err
        assert {*FLOWS} <= {one["flow"] for one in status.json}
        assert next(one for one in status.json if one["flow"] == "topics.orders")["rows"] == 2
        (line,) = status.err.splitlines()
        assert line.startswith("warning ") and "headwater.yml:" in line and "headwater check" in line
        for word, paused in (("pause", True), ("resume", False)):
            assert do(shop, f"flow {word} orders").code == 0
            flows = do(shop, "flow list", "--json").json
            assert [one["paused"] for one in flows if one["flow"] == "topics.orders"] == [paused]
        found = do(shop, "query", "SELECT count(*) AS n FROM topic('orders')", "--json")
        assert found.json == [{"n": 2}], found.err
        for word in ("run --once", "plan", "flow rebuild orders --yes"):
            assert do(shop, word).code == 2
        made = do(shop, "query", "CREATE MATERIALIZED VIEW more AS SELECT kind FROM orders")
        assert made.code == 2 and "headwater.yml:" in made.err, "nothing is done by a project that is wrong"
    assert State.lake_in(shop.root / ".headwater") == before


@pytest.mark.parametrize("mistake", ["a new definition", "the view", "not YAML"])
def test_whatever_looks_works(shop: Shop, mistake: str) -> None:
    with spoilt(shop, MISTAKES[mistake]):
        for look in LOOKS:
            answer = do(shop, look, "--json")
            assert answer.code == 0, (look, answer.err)
        assert len(do(shop, "mv query kinds", "--json").json) == 2
        assert len(do(shop, "dlq list", "--json").json) == 1


def test_a_view_that_is_too_old_is_not_refreshed_by_a_wrong_project(shop: Shop) -> None:
    with spoilt(shop, ("max_staleness: 1h", "max_staleness: 0s")), spoilt(shop, MISTAKES["a new definition"]):
        answer = do(shop, "query", "SELECT * FROM mv('kinds')")
        assert answer.code == 2 and "nosuch" in answer.err
        served = do(shop, "query", "SELECT * FROM mv('kinds')", "--set", "headwater.stale=serve", "--json")
        assert len(served.json) == 2


@pytest.mark.parametrize("mistake", ["state: 5\n", "include: [nosuch.yml]\n", "warehouse: ./other\nname: [\n"])
def test_where_it_is_not_known_which_lake_is_meant_nothing_is_done(shop: Shop, mistake: str) -> None:
    before = State.lake_in(shop.root / ".headwater")
    with spoilt(shop, mistake):
        done = [do(shop, "status").code, do(shop, "status", "--target", "nosuch").code]
        assert done == ([0, 0] if "name: [" in mistake else [2, 2])
    assert State.lake_in(shop.root / ".headwater") == before
