"""The examples of README and docs/ are run as they stand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support import headwater

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/commands.md", "docs/python.md"]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EVENTS = '{"event_id": "e1", "event_type": "OrderPlaced", "event_timestamp": "2026-01-05T08:00:00Z", "amount": 12.50}\n'


def blocks(page: str, language: str) -> list[str]:
    return [body for found, body in _BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if found == language]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """The project of the README, with something in its landing folder, run as the README says."""
    root = tmp_path_factory.mktemp("readme")
    (project,) = blocks("README.md", "yaml")
    (root / "headwater.yml").write_text(project, encoding="utf-8")
    (root / "landing").mkdir()
    (root / "landing" / "a.json").write_text(EVENTS, encoding="utf-8")
    assert headwater("check", "--project", root).code == 0
    assert headwater("run", "--once", "--project", root).code == 0
    return root


def test_the_commands_of_the_readme(shop: Path) -> None:
    (commands,) = re.findall(r"^```\n(headwater check.*?)^```", _text("README.md"), re.M | re.S)
    lines = [re.sub(r"\s+# .*", "", line) for line in commands.splitlines()]
    assert len(lines) == 4
    for line in lines:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
        answer = headwater(*words[1:], "--project", shop)
        assert answer.code == 0, f"{line}: {answer.err}"


@pytest.mark.parametrize("page", PAGES)
def test_sql(page: str, shop: Path) -> None:
    for statement in [line for body in blocks(page, "sql") for line in body.splitlines()]:
        answer = headwater("query", statement, "--output", "json", "--project", shop)
        future_or_past = "NO_SUCH_VERSION" in answer.err and "TIMESTAMP AS OF" in statement
        assert answer.code == 0 or future_or_past, f"{statement}: {answer.err}"


def test_python(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.getcwd()
    os.chdir(shop)
    try:
        for body in blocks("docs/python.md", "python"):
            exec(compile(body, "docs/python.md", "exec"), {})
    finally:
        os.chdir(before)
    assert "OrderPlaced 1" in capsys.readouterr().out


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
