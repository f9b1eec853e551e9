"""A remap that takes rows out of a topic: asked for, shown before, and a deleted row for whatever reads the topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ingest.test_ingest import Desk
from tests.scale import in_formats

pytestmark = pytest.mark.usefixtures("spark")

CODE = """\
from headwater import mapper, transform


@transform
def halves(orders):
    return orders.select("id", (orders.n / 2).alias("half"))


@mapper
def row(event):
    return {"id": event["id"], "n": event["n"] * 10, "at": event["at"]}
"""
READERS = """\
  latest: {from: topic('orders'), apply: {keys: [id], sequence_by: n}}
  states: {from: topic('orders'), apply: {keys: [id], sequence_by: n, history: all}}
  plain: {sql: "SELECT id, n FROM stream(topic('orders'))"}
  keyed: {sql: "SELECT id, n FROM stream(topic('orders'))", keys: [id]}
  checked:
    sql: SELECT id, n FROM stream(topic('orders'))
    expect: {small: {check: "n % 20 < 4", on_violation: drop}}
  timely: {sql: "SELECT id, n FROM stream(topic('orders'))", watermark: {column: at, delay: 1m, late: drop}}
  sums: {sql: "SELECT id % 2 AS odd, count(*) AS k, sum(n) AS n FROM stream(topic('orders')) GROUP BY id % 2"}
  looked:
    sql: SELECT o.id, o.n, p.name FROM stream(topic('orders')) o LEFT JOIN table('names') p ON p.id = o.id
    keys: [id]
  names: {keys: [id], schema: "id bigint, name string"}
  halved: {transform: halves}
  above: {sql: "SELECT id, n FROM stream(table('latest'))", expect: {small: {check: "n < 100", on_violation: drop}}}
views:
  totals: {sql: "SELECT count(*) AS k, sum(n) AS n FROM topic('orders')"}
"""
EXPECTED: dict[str, tuple[str, Any]] = {
    "latest": ("SELECT id, n FROM table('latest')", lambda rows: rows),
    "states": ("SELECT id, n FROM table('states')", lambda rows: rows),
    "plain": ("SELECT id, n FROM table('plain')", lambda rows: rows),
    "keyed": ("SELECT id, n FROM table('keyed')", lambda rows: rows),
    "checked": ("SELECT id, n FROM table('checked')", lambda rows: [(i, n) for i, n in rows if n % 20 < 4]),
    "timely": ("SELECT id, n FROM table('timely')", lambda rows: rows),
    "sums": (
        "SELECT odd, k, n FROM table('sums')",
        lambda rows: [(odd, len(ns), sum(ns)) for odd in (0, 1) if (ns := [n for i, n in rows if i % 2 == odd])],
    ),
    "looked": ("SELECT id, n FROM table('looked')", lambda rows: rows),
    "halved": ("SELECT id, half * 2 FROM table('halved')", lambda rows: rows),
    "above": ("SELECT id, n FROM table('above')", lambda rows: [(i, n) for i, n in rows if n < 100]),
    "totals": ("SELECT k, n FROM mv('totals')", lambda rows: [(len(rows), sum(n for _, n in rows))]),
}


class Remapping(Desk):
    def __init__(self, root: Path, format: str) -> None:
        schema = ', schema: "event_type string, id bigint, n bigint, at timestamp"'
        super().__init__(root, {"orders": "keep_raw: true"}, schema, format)
        self.file = root / "headwater.yml"
        self.file.write_text("code: shop.py\n" + self.file.read_text() + "tables:\n" + READERS)
        (root / "shop.py").write_text(CODE)
        self.count = 0

    def orders(self, *ids: int, type: str = "Placed") -> None:
        self.count += 1
        rows = [{"event_type": type, "id": i, "n": i, "at": f"2026-01-01T00:{i:02d}:00Z"} for i in ids]
        self.land(f"{self.count}.json", *rows)

    def change(self, topic: str) -> None:
        lines = self.file.read_text().splitlines()
        lines = [
            f"  orders: {{from: landing, keep_raw: true{topic}}}" if "  orders:" in line else line for line in lines
        ]
        self.file.write_text("\n".join(lines) + "\n")

    def go(self) -> None:
        ran = self("run", "--once", "--json")
        assert ran.code == 0, ran.out + ran.err

    def check(self, rows: list[tuple[int, float]]) -> None:
        """Everything that reads the topic has what these rows come to."""
        for name, (sql, made) in EXPECTED.items():
            found = self("query", sql, "--json")
            assert found.code == 0, found.err
            assert sorted(tuple(row.values()) for row in found.json) == sorted(made(rows)), name
        assert self("mv", "verify", "totals").code == 0


@pytest.mark.parametrize("format", in_formats("delta", full=["iceberg"]))
def test_rows_that_a_remap_takes_away_are_deleted_downstream(tmp_path: Path, format: str) -> None:
    desk = Remapping(tmp_path, format)
    assert desk("query", "INSERT INTO tables.names VALUES (1, 'a'), (2, 'b'), (7, 'g')").code in (0, 1)
    desk.orders(1, 2, 3)
    desk.orders(4, 5, type="Noise")
    desk.go()
    assert desk("query", "INSERT INTO tables.names VALUES (1, 'z'), (4, 'y')").code == 0
    desk.orders(6, 7)
    desk.go()
    every = [(i, i) for i in range(1, 8)]
    desk.check(every)

    desk.change(", include_events: [Placed]")
    versions = desk("topic", "history", "orders", "--json").json
    tried = desk("topic", "remap", "orders", "--dry-run", "--json")
    assert tried.code == 0, tried.err
    counts = ("rows_before", "rows_after", "rows_new", "rows_gone", "rows_changed", "rejected", "version")
    assert [tried.json[name] for name in counts] == [7, 5, 0, 2, 0, 0, None]
    shown = [(one["_difference"], one["before"][0]["id"], one["after"]) for one in tried.json["examples"]]
    assert shown == [("gone", 4, []), ("gone", 5, [])]
    refused = desk("topic", "remap", "orders")
    assert refused.code == 2 and "2 of 7 rows" in refused.err and "--yes" in refused.err and "--dry-run" in refused.err
    assert desk("topic", "history", "orders", "--json").json == versions, "nothing was changed"
    done = desk("topic", "remap", "orders", "--yes", "--json")
    assert done.code == 0, done.err
    assert [done.json[name] for name in counts[:-1]] == [7, 5, 0, 2, 0, 0]
    desk.go()
    left = [row for row in every if row[0] not in (4, 5)]
    desk.check(left)

    desk.change(", include_events: [Placed], mappers: shop")
    again = desk("topic", "remap", "orders", "--json")
    assert again.code == 0, "no row goes: " + again.err
    assert [again.json[name] for name in counts[:-1]] == [5, 5, 0, 0, 5, 0]
    desk.orders(9)
    desk.go()
    desk.check([(i, n * 10) for i, n in [*left, (9, 9)]])


def test_a_streaming_query_over_a_topic_that_loses_rows_begins_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"orders": "keep_raw: true"})
    file = tmp_path / "headwater.yml"
    file.write_text("code: shop.py\n" + file.read_text() + "tables:\n  streamed: {transform: streamed}\n")
    (tmp_path / "shop.py").write_text(
        "from headwater import transform\n\n\n@transform(streaming=True)\ndef streamed(orders):\n"
        '    return orders.select("id")\n'
    )
    rows = "SELECT id FROM table('streamed') ORDER BY id"
    desk.land("1.json", *({"event_type": "Placed" if i % 2 else "Noise", "id": i} for i in range(4)))
    desk.run()
    assert [row["id"] for row in desk("query", rows, "--json").json] == [0, 1, 2, 3]
    file.write_text(file.read_text().replace("keep_raw: true", "keep_raw: true, include_events: [Placed]"))
    assert desk("topic", "remap", "orders", "--yes").code == 0
    desk.land("2.json", {"event_type": "Placed", "id": 9})
    desk.run()
    assert [row["id"] for row in desk("query", rows, "--json").json] == [1, 3, 9]


def test_what_a_try_rejects_is_no_dead_letter(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"orders": "keep_raw: true, schema: {mismatch: discard_value}"})
    desk.land("1.json", {"id": 1, "total": 5})
    desk.run()
    desk.land("2.json", {"id": 2, "total": "many"}, {"id": 3, "total": 7})
    desk.run()
    file = desk.root / "headwater.yml"
    file.write_text(file.read_text().replace("discard_value", "quarantine"))
    before = desk("dlq", "list", "--json").json
    for words, code in ((["--dry-run"], 0), ([], 2)):
        assert desk("topic", "remap", "orders", *words).code == code
        assert desk("dlq", "list", "--json").json == before
    done = desk("topic", "remap", "orders", "--yes", "--json")
    assert (done.json["rows_gone"], done.json["rejected"]) == (1, 1)
    assert len(desk("dlq", "list", "--json").json) == len(before) + 1
