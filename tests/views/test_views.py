"""Views through the commands, SQL and the Python API: made, refreshed, explained, verified, dropped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater import Lake
from headwater.core.errors import HeadwaterError
from headwater.core.spec import Refresh
from headwater.operations.views import create_view, refresh_view
from headwater.views.refresh import Refresher
from tests.support import Answer, headwater
from tests.views.lab import Lab

MANUAL = Refresh(mode="manual")
TOTALS = "SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, seed: int) -> Iterator[Lab]:
    lab = Lab.open(tmp_path_factory.mktemp("views"), "delta", seed)
    with lab.lake:
        yield lab


def command(lab: Lab, *arguments: str) -> Answer:
    return headwater(*arguments, "--project", lab.lake.project.root)


def done(lab: Lab, *arguments: str) -> Any:
    answer = command(lab, *arguments, "--json")
    assert answer.code == 0, answer.err
    return answer.json


def refused(lab: Lab, *arguments: str) -> dict[str, Any]:
    import json

    answer = command(lab, *arguments, "--json")
    assert answer.code == 2 and "Traceback" not in answer.err, answer
    found: dict[str, Any] = json.loads(answer.err)["errors"][0]
    return found


def add_order(lab: Lab, id: int, customer: int | None, amount: str = "1.00", qty: int | None = 1) -> None:
    from decimal import Decimal

    at = datetime(2026, 3, 1, tzinfo=timezone.utc)
    lab.write("orders", [(id, customer, Decimal(amount), qty, "z", at, None)], [])


def test_the_life_of_a_view(lab: Lab) -> None:
    made = done(lab, "mv", "create", "totals", TOTALS, "--refresh", "manual", "--policy", "incremental")
    assert (made["refresh_type"], made["reason"]) == ("full", "it is the first build")
    listed = {view["name"]: view for view in done(lab, "mv", "list")}
    assert listed["totals"]["origin"] == "statement" and listed["totals"]["mode"] == "manual"

    add_order(lab, 100, 77, "2.50")
    refreshed = done(lab, "mv", "refresh", "totals")
    assert refreshed["refresh_type"] == "incremental"
    assert (refreshed["rows_read"], refreshed["rows_changed"]) == (1, 1)
    before, after = (refreshed["watermarks"]["tables.orders"][when] for when in ("before", "after"))
    assert after == before + 1 == lab.table("orders").version()
    assert done(lab, "mv", "query", "totals", "WHERE customer = 77") == [{"customer": 77, "n": 1, "total": "2.50"}]
    assert done(lab, "mv", "verify", "totals")["equal"] is True

    versions = lab.lake.view("totals").history()
    assert versions[0].commit_tag is not None and versions[0].commit_tag.positions["tables.orders"]["version"] == after
    again = done(lab, "mv", "refresh", "totals")
    assert (again["refresh_type"], again["reason"]) == ("none", "nothing is new")
    assert lab.lake.view("totals").history()[0].version == versions[0].version

    earlier = lab.lake.sql(
        f"SELECT count(*) AS n FROM mv('totals') VERSION AS OF {versions[1].version} WHERE customer = 77"
    )
    assert list(earlier.rows()) == [{"n": 0}]
    explained = command(lab, "mv", "explain", "totals").out
    assert (
        "aggregate by customer: count, sum  [incrementally maintained]" in explained
        and "scan tables.orders" in explained
    )
    assert "next refresh: nothing is new" in explained
    described = done(lab, "mv", "describe", "totals")
    assert [column["name"] for column in described["columns"]] == ["customer", "n", "total"]
    assert described["watermarks"] == {"tables.orders": after}
    assert [one["refresh_type"] for one in described["refreshes"]] == ["none", "incremental", "full"]
    assert command(lab, "mv", "drop", "totals").code == 2
    assert done(lab, "mv", "drop", "totals", "--yes")["dropped"] is True
    assert refused(lab, "mv", "refresh", "totals")["code"] == "NO_SUCH_RELATION"


def test_hidden_columns_do_not_show(lab: Lab) -> None:
    create_view(lab.warehouse, "plain", "SELECT id, qty FROM orders WHERE qty > 0", MANUAL)
    create_view(
        lab.warehouse,
        "some",
        "SELECT customer, count(*) AS n FROM orders GROUP BY customer HAVING count(*) > 1",
        MANUAL,
    )
    for name, columns in (("plain", ["id", "qty"]), ("some", ["customer", "n"])):
        view = lab.lake.view(name)
        assert view.df().columns == columns
        assert view.df(view.history()[0].version).columns == columns
        assert lab.lake.sql(f"SELECT * FROM mv('{name}')").columns == columns
        assert [row["column"] for row in lab.lake.sql(f"DESCRIBE views.{name}").rows()] == columns
        first, last = view.history()[-1].version, view.history()[0].version
        assert set(view.changes(first, last).columns) == {*columns, "_weight"}
    assert all(row["n"] > 1 for row in lab.lake.sql("SELECT * FROM mv('some')").rows())


def test_order_and_limit_are_applied_when_it_is_read(lab: Lab) -> None:
    sql = "SELECT id, amount FROM orders WHERE id IS NOT NULL AND amount IS NOT NULL ORDER BY amount * -1, id LIMIT 2"
    create_view(lab.warehouse, "dearest", sql, MANUAL)
    for id, amount in ((201, "900.00"), (202, "950.00"), (203, "930.00")):
        add_order(lab, id, 1, amount)
        assert refresh_view(lab.warehouse, "dearest").refresh_type == "incremental"
    assert [row["id"] for row in lab.lake.sql("SELECT * FROM mv('dearest')").rows()] == [202, 203]
    assert lab.lake.view("dearest").verify().equal


def test_order_by_the_place_of_a_column(lab: Lab) -> None:
    add_order(lab, -2, 1)
    create_view(lab.warehouse, "first", "SELECT * FROM orders WHERE id IS NOT NULL ORDER BY 1 LIMIT 1", MANUAL)
    create_view(lab.warehouse, "odd", "SELECT id AS `a``b`, qty AS `c{d}` FROM orders ORDER BY 1 LIMIT 1", MANUAL)
    assert [row["id"] for row in lab.lake.sql("SELECT * FROM mv('first')").rows()] == [-2]
    assert lab.lake.view("odd").df().columns == ["a`b", "c{d}"] and lab.lake.view("odd").verify().equal
    for wrong in ("id FROM orders ORDER BY 7", "* FROM orders ORDER BY 70", "id FROM orders ORDER BY 0"):
        problem = refused(lab, "mv", "create", "bad", f"SELECT {wrong}")
        assert "there is no column" in problem["message"]


def test_policies(lab: Lab) -> None:
    random = "SELECT id, rand() AS r FROM orders"
    problem = refused(lab, "mv", "create", "chance", random, "--refresh", "manual", "--policy", "incremental_strict")
    assert problem["code"] == "NOT_INCREMENTAL" and "rand()" in problem["hint"]
    clock = "SELECT id, now() AS seen_at FROM orders"
    problem = refused(lab, "mv", "create", "clock", clock, "--refresh", "manual", "--policy", "incremental_strict")
    assert problem["code"] == "NOT_INCREMENTAL" and "depends on the time of its refresh" in problem["message"]
    assert not {"chance", "clock"} & {view.name for view in lab.lake.views()}
    create_view(lab.warehouse, "chance", random, MANUAL)
    add_order(lab, 300, 1)
    done = refresh_view(lab.warehouse, "chance")
    assert (done.refresh_type, done.reason) == ("full", "the query is not deterministic")
    assert "recomputed" in lab.lake.view("chance").explain().lines()[0]
    create_view(lab.warehouse, "always", TOTALS, Refresh(mode="manual", policy="full"))
    add_order(lab, 301, 1)
    assert refresh_view(lab.warehouse, "always").reason == "the policy is full"
    assert refresh_view(lab.warehouse, "always").refresh_type == "none"
    add_order(lab, 302, 1)
    with pytest.raises(HeadwaterError, match="NOT_INCREMENTAL"):
        refresh_view(lab.warehouse, "chance", "incremental_strict")


def test_auto_decides_by_cost_and_says_so(lab: Lab) -> None:
    create_view(lab.warehouse, "auto", TOTALS, MANUAL)
    add_order(lab, 400, 5)
    done = refresh_view(lab.warehouse, "auto")
    assert done.cost["rows_changed_in_sources"] == 1 and done.cost["full_ms"] > 0
    assert (
        done.reason
        == f"estimated {done.cost['incremental_ms']} ms incrementally, {done.cost['full_ms']} ms in full, margin 1.2"
    )


def test_views_on_views_are_refreshed_in_order(lab: Lab) -> None:
    create_view(lab.warehouse, "per_customer", TOTALS, MANUAL)
    create_view(lab.warehouse, "sizes", "SELECT n, count(*) AS customers FROM mv('per_customer') GROUP BY n", MANUAL)
    create_view(lab.warehouse, "best", f"{TOTALS} ORDER BY total DESC LIMIT 1", MANUAL)
    create_view(lab.warehouse, "of_best", "SELECT total FROM mv('best')", Refresh(mode="manual", policy="incremental"))
    add_order(lab, 500, 5, "9000.00")
    assert lab.lake.view("sizes").refresh("incremental").refresh_type == "incremental"
    assert lab.lake.view("sizes").verify().equal
    cut = lab.lake.view("of_best").refresh()
    assert cut.refresh_type == "full" and "LIMIT" in cut.reason
    assert lab.lake.view("of_best").verify().equal
    problem = refused(lab, "mv", "drop", "per_customer", "--yes")
    assert "read by sizes" in problem["message"]
    circle = refused(lab, "mv", "create", "per_customer", "SELECT n FROM mv('sizes')", "--replace")
    assert circle["code"] == "CYCLE"


def test_replaced_beside_and_swapped(lab: Lab) -> None:
    create_view(lab.warehouse, "shape", "SELECT customer, count(*) AS n FROM orders GROUP BY customer", MANUAL)
    before = lab.lake.view("shape").df().collect()
    assert refused(lab, "mv", "create", "shape", TOTALS)["code"] == "ALREADY_EXISTS"
    assert refused(lab, "mv", "create", "shape", "SELECT nothing FROM orders", "--replace")["code"] == "INVALID_SQL"
    assert lab.lake.view("shape").df().collect() == before
    made = create_view(
        lab.warehouse, "shape", "SELECT customer, max(qty) AS q FROM orders GROUP BY customer", MANUAL, replace=True
    )
    assert (made.refresh_type, made.reason) == ("full", "it was rebuilt")
    assert lab.lake.view("shape").df().columns == ["customer", "q"]
    add_order(lab, 600, 5, qty=99)
    assert refresh_view(lab.warehouse, "shape", "incremental").refresh_type == "incremental"
    assert lab.lake.view("shape").verify().equal


def test_verify_finds_what_differs(lab: Lab) -> None:
    create_view(lab.warehouse, "checked", TOTALS, MANUAL)
    add_order(lab, 700, 4711)
    refresh_view(lab.warehouse, "checked")
    path = lab.warehouse.address(lab.lake.view("checked").kind, "checked").path
    lab.lake.spark.sql(f"UPDATE delta.`{path}` SET n = 12 WHERE customer = 4711")
    answer = command(lab, "mv", "verify", "checked", "--json")
    assert answer.code == 1
    found = answer.json
    assert (found["equal"], found["missing"], found["unexpected"]) == (False, 1, 1)
    assert {(one["_difference"], one["n"]) for one in found["examples"]} == {("missing", 1), ("unexpected", 12)}


@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "after the commit"])
def test_a_crash_neither_loses_nor_doubles(lab: Lab, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"crashed_{after}".lower()
    create_view(lab.warehouse, name, TOTALS, Refresh(mode="manual", policy="incremental"))
    add_order(lab, 800 + after, 8)
    commit = Refresher._commit

    def broken(self: Refresher, *given: Any) -> Any:
        if after:
            commit(self, *given)
        raise RuntimeError("the plug was pulled")

    monkeypatch.setattr(Refresher, "_commit", broken)
    with pytest.raises(RuntimeError):
        refresh_view(lab.warehouse, name)
    monkeypatch.undo()
    add_order(lab, 810 + after, 8)
    types = [refresh_view(lab.warehouse, name).refresh_type for _ in range(2)]
    assert types == (["incremental", "none"] if after else ["incremental", "incremental"])
    assert lab.lake.view(name).verify().equal
    assert refresh_view(lab.warehouse, name).refresh_type == "none"


def test_reading_decides_what_is_too_old(lab: Lab) -> None:
    old = Refresh(mode="on_query", max_staleness=timedelta(hours=1))
    create_view(lab.warehouse, "lazy", TOTALS, Refresh(mode="on_query", max_staleness=timedelta(0)))
    create_view(lab.warehouse, "patient", TOTALS, old)
    add_order(lab, 900, 901)
    read = "WHERE customer = 901"
    assert done(lab, "mv", "query", "lazy", read, "--stale", "serve") == []
    answer = command(lab, "mv", "query", "lazy", read, "--stale", "fail")
    assert answer.code == 1 and "VIEW_STALE" in answer.err
    assert len(done(lab, "mv", "query", "lazy", read)) == 1
    assert done(lab, "mv", "query", "patient", read) == []


def test_versions_that_a_view_needs_stay(lab: Lab) -> None:
    create_view(lab.warehouse, "needing", TOTALS, Refresh(mode="manual", policy="incremental_strict"))
    add_order(lab, 1000, 3)
    add_order(lab, 1001, 3)
    lab.lake.table("orders").expire(datetime.now(timezone.utc))
    assert refresh_view(lab.warehouse, "needing").refresh_type == "incremental"
    assert lab.lake.view("needing").verify().equal


@pytest.mark.parametrize(
    ("sql", "code", "told"),
    [
        ("SELECT nope FROM orders", "INVALID_SQL", "nope"),
        ("SELECT id FROM ordres", "UNKNOWN_REFERENCE", "did you mean"),
        ("SELECT id, id FROM orders", "INVALID_SQL", "two columns"),
        ("SELECT id FROM orders LIMIT 3", "INVALID_SQL", "ORDER BY"),
        ("SELECT id FROM stream(orders)", "INVALID_SQL", "tables"),
        ("DELETE FROM orders", "INVALID_SQL", "SELECT"),
    ],
)
def test_bad_queries(lab: Lab, sql: str, code: str, told: str) -> None:
    problem = refused(lab, "mv", "create", "bad", sql)
    assert problem["code"] == code
    assert told in f"{problem['message']} {problem['hint']}"
    assert "bad" not in [view.name for view in lab.lake.views()]


@pytest.mark.parametrize(
    ("sql", "line", "told"),
    [
        ("SELECT id,\n  nope FROM orders", 2, "    nope FROM orders\n    ^^^^"),
        ("SELECT id,\n  no_such(qty) AS x FROM orders", 2, "    no_such(qty) AS x FROM orders\n    ^^^^^^^"),
        ("SELECT id,\n id FROM orders", 2, "   id FROM orders\n   ^^"),
        ("SELECT id\nFROM orders\nORDER BY 7", 3, "  ORDER BY 7\n           ^"),
        ("SELECT id FROM orders UNION SELECT 1\nORDER BY id + 1", 2, "  ORDER BY id + 1\n           ^^"),
        ("SELECT id\nFROM stream(orders)", 2, "  FROM stream(orders)\n       ^"),
    ],
)
def test_a_wrong_query_is_shown_where_it_is_wrong(lab: Lab, sql: str, line: int, told: str) -> None:
    assert refused(lab, "mv", "create", "bad", sql)["line"] == line
    answer = command(lab, "mv", "create", "bad", sql)
    assert told in answer.err, answer.err


def test_what_is_refused_has_the_names_of_the_query(lab: Lab) -> None:
    sql = "SELECT id FROM orders o WHERE o.qty = 1 OR EXISTS (SELECT 1 FROM orders p WHERE p.customer = o.id)"
    problem = refused(lab, "mv", "create", "bad", sql, "--policy", "incremental_strict")
    assert problem["code"] == "NOT_INCREMENTAL"
    assert "hw_tables" not in problem["message"] and "#" not in problem["message"], problem


def test_by_statements(lab: Lab) -> None:
    made = list(
        lab.lake.sql(
            "CREATE MATERIALIZED VIEW by_sql AS SELECT customer, max(qty) AS q FROM table('orders') GROUP BY 1 "
            "WITH (refresh = 'incremental', interval = '5 minutes')"
        ).rows()
    )
    assert made[0]["refresh_type"] == "full"
    definition = {view.name: view for view in lab.lake.views()}["by_sql"]
    assert (definition.mode, definition.policy) == ("periodic", "incremental")
    add_order(lab, 1100, 42, qty=1100)
    assert next(iter(lab.lake.sql("REFRESH MATERIALIZED VIEW by_sql").rows()))["refresh_type"] == "incremental"
    assert list(lab.lake.sql("SELECT q FROM mv('by_sql') WHERE customer = 42").rows()) == [{"q": 1100}]
    assert "scan tables.orders" in str(list(lab.lake.sql("EXPLAIN MATERIALIZED VIEW by_sql").rows()))
    lab.lake.sql("DROP MATERIALIZED VIEW by_sql")
    assert "by_sql" not in [view.name for view in lab.lake.views()]


def test_a_project_keeps_its_views(tmp_path: Path, spark: SparkSession) -> None:
    from tests.support import Shop

    shop = Shop.make(tmp_path)
    with (tmp_path / "headwater.yml").open("a", encoding="utf-8") as file:
        file.write(
            "views:\n"
            "  per_product: {sql: \"SELECT product, sum(amount) AS total FROM topic('orders') GROUP BY product\"}\n"
            "  dear: {sql: \"SELECT * FROM mv('per_product') WHERE total > 10\", refresh: {every: 1h}}\n"
            "  later: {sql: \"SELECT product FROM topic('orders')\", refresh: {mode: manual}}\n"
        )
    shop.land("a.json", [{"product": "tea", "amount": 3}, {"product": "pot", "amount": 11}])
    answer = shop.run()
    assert answer.code == 0, answer.err
    flows = [event["flow"] for event in answer.events if event["event"] == "step"]
    assert flows == ["topics.orders", "views.per_product", "views.dear"]
    assert shop.query("SELECT * FROM mv('dear')") == [{"product": "pot", "total": 11}]
    shop.land("b.json", [{"product": "tea", "amount": 30}])
    events = shop.run().events
    assert [event["rows"] for event in events if event["event"] == "step"] == [1, 1, 1]
    assert sorted(row["product"] for row in shop.query("SELECT * FROM mv('dear')")) == ["pot", "tea"]
    status = headwater("status", "--json", "--project", tmp_path).json
    assert {flow["flow"]: flow["state"] for flow in status}["views.dear"] == "done"
    with Lake.open(tmp_path) as lake:
        assert lake.view("dear").verify().equal
        assert [view.name for view in lake.views()] == ["dear", "later", "per_product"]
