"""The examples of docs/sql.md, docs/time-travel.md and docs/parquet.md, on lakes that have what they name."""

from __future__ import annotations

import json
import re
import shlex
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.core.errors import HeadwaterError
from headwater.sql.parse import split
from tests.docs.test_examples import ROOT, blocks
from tests.support import headwater

PROJECT = """
name: shop
catalogs:
  catalog: {type: rest, uri: "http://127.0.0.1:1"}
sources:
  event_files: {type: files, path: ./events}
  sale_files: {type: files, path: ./sales}
topics:
  events: {from: event_files}
  sales: {from: sale_files}
  orders: {from: event_files}
tables:
  countries: {keys: [code], schema: "code string, name string"}
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    root = tmp_path_factory.mktemp("sql")
    (root / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    now = datetime.now(timezone.utc)
    for number in range(2):
        at = (now - timedelta(minutes=5 - number)).isoformat()
        event = {
            "event_id": f"e{number}", "event_type": ["click", "OrderPlaced"][number], "event_timestamp": at,
            "timestamp": at, "user_id": "user-123", "amount": 5,
        }  # fmt: skip
        for folder, row in (("events", event), ("sales", {"timestamp": at, "product_id": "p1", "amount": 5})):
            (root / folder).mkdir(exist_ok=True)
            (root / folder / f"{number}.json").write_text(json.dumps(row) + "\n", encoding="utf-8")
        ran = headwater("run", "--once", "--project", root)
        assert ran.code == 0, ran.err
    return root


def statements(page: str) -> list[str]:
    return [statement for body in blocks(page, "sql") for statement in split(body)]


def commands(page: str) -> list[list[str]]:
    text = (ROOT / page).read_text(encoding="utf-8")
    bodies = re.findall(r"^```\n(headwater .*?)^```", text, re.M | re.S)
    return [shlex.split(line)[1:] for body in bodies for line in body.splitlines()]


def test_the_statements_of_the_sql_page(shop: Path) -> None:
    answers: dict[str, int] = {}
    with Lake.open(shop) as lake:
        for statement in statements("docs/sql.md"):
            if "2026-10-17" in statement:
                with pytest.raises(HeadwaterError, match="NO_SUCH_VERSION"):
                    lake.sql(statement)
            else:
                answers[statement] = len(lake.sql(statement).rows())
    assert len(answers) > 20
    first, *_ = statements("docs/sql.md")
    assert answers[first] == 1
    assert answers[next(one for one in answers if "mv('hourly_sales') WHERE" in one)] in (1, 2)
    assert answers[next(one for one in answers if "EXCEPT" in one)] == 1


def test_the_commands_of_the_sql_page(shop: Path) -> None:
    for words in commands("docs/sql.md"):
        answer = headwater(*words, "--project", shop)
        assert answer.code == 0, f"{words}: {answer.err}"
    page = (ROOT / "docs/sql.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^\$ (headwater query .*?)\n(.*?)^```", page, re.M | re.S)
    answer = headwater(*shlex.split(shown[0])[1:], "--project", shop)
    assert answer.err == shown[1]


@pytest.mark.parametrize("page", ["docs/time-travel.md", "docs/parquet.md"])
def test_pages_of_commands(page: str, shop: Path) -> None:
    for words in commands(page):
        words = [str(shop / "copies" / "orders") if word == "./copies/orders" else word for word in words]
        if words[:2] == ["topic", "diff"] and "audit" in words:
            headwater("topic", "tag", "orders", "audit", "--version", "1", "--project", shop)
        answer = headwater(*words, "--project", shop)
        assert answer.code == 0, f"{words}: {answer.err}"
    with Lake.open(shop) as lake:
        for statement in statements(page):
            assert lake.sql(statement).rows(), statement
