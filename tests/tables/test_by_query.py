"""Tables by SQL: what streams drives them, the rest is looked up, histories are joined as of a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_examples import blocks
from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")

SOURCES = """\
name: shop
sources:
  seen: {type: files, path: ./seen, schema: "id bigint, customer bigint, country string, at timestamp"}
  crm: {type: files, path: ./crm, schema: "id bigint, name string, since timestamp"}
topics: {views: {from: seen}, customer_log: {from: crm}}
"""
OTHERS = """\
  customers: {from: topic('customer_log'), apply: {keys: [id], sequence_by: since, delete_when: null, history: all}}
  countries: {seed: countries.csv, keys: [code]}
  per_name: {sql: "SELECT name, count(*) AS n FROM stream(table('visits')) GROUP BY name"}
"""


class Shop:
    def __init__(self, root: Path, format: str = "delta") -> None:
        self.root = root
        page = next(one for one in blocks("docs/tables.md", "yaml") if "visits" in one)
        (root / "headwater.yml").write_text(f"format: {format}\n{SOURCES}{page}{OTHERS}", encoding="utf-8")
        for folder in ("seen", "crm"):
            (root / folder).mkdir()
        self.countries("de,Germany\n")

    def countries(self, rows: str) -> None:
        (self.root / "countries.csv").write_text(f"code,title\n{rows}", encoding="utf-8")

    def land(self, name: str, *rows: dict[str, Any]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.root / f"{name}.json").write_text(text, encoding="utf-8")

    def run(self, *flows: str) -> None:
        ran = headwater("run", *flows, "--once", "--json", "--project", self.root)
        assert ran.code == 0, ran.out + ran.err

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found = headwater("query", sql, "--json", "--project", self.root)
        assert found.code == 0, found.err
        return [tuple(row.values()) for row in found.json]


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_streams_drive_and_the_rest_is_looked_up(tmp_path: Path, format: str) -> None:
    shop = Shop(tmp_path, format)
    shop.land("crm/1", {"id": 1, "name": "Ann", "since": "2026-01-01T00:00:00Z"})
    shop.land("crm/2", {"id": 1, "name": "Bea", "since": "2026-03-01T00:00:00Z"})
    shop.land("seen/1", {"id": 10, "customer": 1, "country": "de", "at": "2026-02-01T00:00:00Z"})
    shop.land("seen/2", {"id": 11, "customer": 1, "country": "fr", "at": "2026-04-01T00:00:00Z"})
    shop.run()
    visits = "SELECT id, name FROM table('visits') ORDER BY id"
    titled = "SELECT id, title FROM table('titled') ORDER BY id"
    assert shop.rows(visits) == [(10, "Ann"), (11, "Bea")]
    assert shop.rows(titled) == [(10, "Germany"), (11, None)]
    assert shop.rows("SELECT name, n FROM table('per_name') ORDER BY name") == [("Ann", 1), ("Bea", 1)]

    shop.countries("de,Deutschland\nfr,France\n")
    shop.run("tables.countries", "tables.titled")
    assert shop.rows(titled) == [(10, "Germany"), (11, None)], "a look-up drives nothing"
    shop.land("seen/3", {"id": 12, "customer": 1, "country": "de", "at": "2026-01-15T00:00:00Z"})
    shop.land("crm/3", {"id": 1, "name": "Amy", "since": "2026-01-20T00:00:00Z"})
    shop.run()
    assert shop.rows(titled) == [(10, "Germany"), (11, None), (12, "Deutschland")]
    assert shop.rows(visits) == [(10, "Amy"), (11, "Bea"), (12, "Ann")], "late, and in its place"
    assert shop.rows("SELECT name, n FROM table('per_name') ORDER BY name") == [("Amy", 1), ("Ann", 1), ("Bea", 1)]
    described = headwater("table", "describe", "visits", "--json", "--project", shop.root).json
    assert [column["name"] for column in described["columns"]] == ["id", "at", "name"]


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    text = (shop.root / "headwater.yml").read_text(encoding="utf-8")
    wrong = (
        "  odd: {sql: \"SELECT id FROM stream(topic('views')) v, table('countries') FOR SYSTEM_TIME AS OF v.at k\"}\n"
    )
    (shop.root / "headwater.yml").write_text(text + wrong, encoding="utf-8")
    answer = headwater("check", "--json", "--project", shop.root)
    (problem,) = answer.json["problems"]
    assert answer.code == 2 and problem["code"] == "UNSUPPORTED" and "keeps no history" in problem["message"]
    both = "SELECT v.id FROM stream(table('visits')) v JOIN table('countries') c ON c.code = v.name"
    (shop.root / "headwater.yml").write_text(f'{text}  both: {{sql: "{both}"}}\n', encoding="utf-8")
    for name in ("seen/1", "crm/1"):
        shop.land(name, {"id": 1, "customer": 1, "since": "2026-01-01T00:00:00Z", "at": "2026-02-01T00:00:00Z"})
    ran = headwater("run", "--once", "--json", "--project", shop.root)
    (failed,) = [event for event in ran.events if event["event"] == "failed"]
    assert (
        ran.code == 1 and failed["flow"] == "tables.both" and "rows of tables.visits may be changed" in failed["error"]
    )
