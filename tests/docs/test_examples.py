"""The examples of README and docs/ are run as they stand."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import headwater

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/commands.md"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EVENTS = '{"event_id": "e1", "event_type": "OrderPlaced", "event_timestamp": "2026-01-05T08:00:00Z", "amount": 12.50}\n'


def blocks(page: str, language: str) -> list[str]:
    return [body for found, body in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if found == language]


PROJECT = """name: shop
sources:
  landing: {type: files, path: ./landing, schema_hints: "amount decimal(12,2)"}
topics:
  orders: {from: landing, partition_by: [event_date], keep_raw: true}
"""
"""What the page of commands speaks of."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """That project, with something in its landing folder."""
    root = tmp_path_factory.mktemp("shop")
    _begin(root, PROJECT, EVENTS)
    assert headwater("run", "--once", "--project", root).code == 0
    return root


def _begin(root: Path, project: str, landed: str) -> None:
    (root / "headwater.yml").write_text(project, encoding="utf-8")
    (root / "landing").mkdir()
    (root / "landing" / "a.json").write_text(landed, encoding="utf-8")


def test_the_ten_lines_of_the_readme(tmp_path: Path, spark: SparkSession) -> None:
    """Its commands are run in turn, and print what it says."""
    ((project,), (landed,)) = blocks("README.md", "yaml"), blocks("README.md", "json")
    assert len(project.splitlines()) <= 10
    _begin(tmp_path, project, landed)
    (session,) = [body for body in blocks("README.md", "console") if "headwater check" in body]
    for command, printed in re.findall(r"^\$ headwater (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
        answer = headwater(*shlex.split(command), "--project", tmp_path)
        assert answer.code == 0, f"{command}: {answer.err}"
        if printed:
            assert [line.split() for line in answer.out.splitlines()] == [line.split() for line in printed.splitlines()]


def test_the_picture_is_as_its_script_draws_it() -> None:
    drawn = runpy.run_path(str(ROOT / "tools" / "draw_pipeline.py"))["pictures"]()
    shown = re.findall(r"docs/[\w-]+\.svg", _text("README.md"))
    assert {str(file.relative_to(ROOT)) for file in drawn} == {*shown}
    for file, picture in drawn.items():
        assert file.read_text(encoding="utf-8") == picture, "run `python tools/draw_pipeline.py`"


def test_every_page_is_in_the_index() -> None:
    listed = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#]+)", _text("docs/README.md"))}
    pages = {page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts}
    assert {page.relative_to(ROOT) for page in pages - listed} == {Path("docs/README.md")}


def test_the_readme_fits_one_screen_or_so() -> None:
    assert len(_text("README.md").splitlines()) <= 100


@pytest.mark.parametrize("page", PAGES)
def test_sql(page: str, shop: Path) -> None:
    for statement in [line for body in blocks(page, "sql") for line in body.splitlines()]:
        answer = headwater("query", statement, "--output", "json", "--project", shop)
        future_or_past = "NO_SUCH_VERSION" in answer.err and "TIMESTAMP AS OF" in statement
        assert answer.code == 0 or future_or_past, f"{statement}: {answer.err}"


def test_every_link_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


def test_every_command_is_documented() -> None:
    from typer.main import get_command

    from headwater.cli.app import app

    text = _text("docs/commands.md")
    group = get_command(app)
    names = [
        f"{name} {sub}" if sub else name
        for name, command in group.commands.items()  # type: ignore[attr-defined]
        for sub in (getattr(command, "commands", None) or {"": None})
    ]
    missing = [name for name in names if f"headwater {name}" not in text and not _listed_together(text, name)]
    assert missing == []


def _listed_together(text: str, name: str) -> bool:
    """`connectors install … | list` names two commands at once."""
    first, _, last = name.partition(" ")
    return re.search(rf"headwater {first} .*\b{last}\b", text) is not None


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")
