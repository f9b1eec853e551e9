"""A project's folder may have any name: nobody takes it for a pattern."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import headwater

pytestmark = pytest.mark.usefixtures("spark")

FOLDER = "it's [1] {a,b} ^| * (ü)"
PROJECT = """\
name: odd
code: code.py
include: [more/*.yml]
sources: {landing: {type: files, path: "./land*"}, one: {type: files, path: ./landing}}
tables:
  counted: {transform: counted, keys: [kind]}
views:
"""
FORMATS = ("delta", "iceberg", "hudi", "paimon", "parquet")
VIEWS = ("delta", "hudi")
CODE = """\
from headwater import transform


@transform("counted", streaming=True)
def counted(in_parquet):
    return in_parquet.groupBy("kind").count()
"""


def test_a_folder_whose_name_is_a_pattern(tmp_path: Path) -> None:
    # What the name would fit as a pattern: nothing of it is read.
    for name in ("it's 1 a ^| x (ü)", "it's 1 b ^| x (ü)"):
        land(tmp_path / name, "other.json", [{"event_id": "wrong", "kind": "wrong"}])
    root = tmp_path / FOLDER
    land(root, "1.json", [{"event_id": "1", "kind": "x"}, {"event_id": "2", "kind": "y"}])
    (root / "more").mkdir()
    topics = [f"  in_{name}: {{from: {'landing' if name == 'delta' else 'one'}, format: {name}}}\n" for name in FORMATS]
    (root / "more" / "topics.yml").write_text("topics:\n" + "".join(topics))
    views = [
        f"  of_{name}: {{sql: \"SELECT kind, count(*) AS n FROM topic('in_{name}') GROUP BY kind\", format: {name}}}\n"
        for name in VIEWS
    ]
    (root / "headwater.yml").write_text(PROJECT + "".join(views))
    (root / "code.py").write_text(CODE)
    run(root)
    land(root, "2.json", [{"event_id": "3", "kind": "x"}])
    run(root)
    for name in FORMATS:
        for engine in ("auto", "spark"):
            found = rows(root, f"SELECT event_id, kind FROM topic('in_{name}') ORDER BY event_id", "--engine", engine)
            assert [tuple(row.values()) for row in found] == [("1", "x"), ("2", "y"), ("3", "x")], (name, engine)
    for name in VIEWS:
        found = rows(root, f"SELECT kind, n FROM mv('of_{name}') ORDER BY kind")
        assert [tuple(row.values()) for row in found] == [("x", 2), ("y", 1)], name
    assert rows(root, "SELECT * FROM table('counted') ORDER BY kind") == [
        {"kind": "x", "count": 2},
        {"kind": "y", "count": 1},
    ]


def land(root: Path, name: str, events: list[dict[str, Any]]) -> None:
    (root / "landing").mkdir(parents=True, exist_ok=True)
    (root / "landing" / name).write_text("".join(json.dumps(event) + "\n" for event in events))


def run(root: Path) -> None:
    ran = headwater("run", "--once", "--project", root)
    assert ran.code == 0, ran.err + ran.out


def rows(root: Path, sql: str, *options: str) -> list[dict[str, Any]]:
    answer = headwater("query", sql, "--output", "json", *options, "--project", root)
    assert answer.code == 0, (sql, answer.err)
    found: list[dict[str, Any]] = answer.json
    return found
