"""Projects written into folders of their own, and what is found wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headwater.core.errors import Problem
from headwater.project.check import all_problems
from headwater.project.load.loader import examine

BASE = "name: shop\nsources: {landing: {type: files, path: ./landing}}\n"
"""Two lines that are right; what a test adds begins on line 3."""

Write = Callable[..., Path]
Find = Callable[..., list[Problem]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a project file, and others alongside it by their names."""

    def written(text: str, files: Mapping[str, str] | None = None) -> Path:
        for name, content in {"headwater.yml": text, **(files or {})}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path

    return written


@pytest.fixture
def find(write: Write) -> Find:
    """Everything that is wrong with a project."""

    def found(
        text: str,
        files: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        target: str | None = None,
    ) -> list[Problem]:
        return all_problems(examine(write(text, files), target, env or {}))

    return found


def places(problems: list[Problem]) -> list[tuple[str, str]]:
    """Code and place of each problem: ('UNKNOWN_KEY', 'headwater.yml:4 topics.orders.fom')."""
    return [(str(problem.code), str(problem.where)) for problem in problems]
