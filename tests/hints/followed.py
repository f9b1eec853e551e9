"""`@follows("a hint")`: a test does what a hint says, and it helps. While it runs the hint has to be given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Problem
from tests.hints.printed import pattern

TESTS = Path(__file__).parents[1]


def follows(*texts: str, here: bool = True) -> pytest.MarkDecorator:
    """The hints as the code has them, with {} for what is put in. `here`: whether it is this process that gives them as
    a part of an error; if not the test itself looks for them."""
    return pytest.mark.follows(*texts, here=here)


def followed() -> Iterator[str]:
    """Every hint that a test says it follows."""
    for file in sorted(TESTS.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "follows(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "follows":
                yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))
                if not all(isinstance(one, ast.Constant) for one in node.args):  # the hints of a table of cases
                    yield from _of_tables(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


def _of_tables(module: str) -> Iterator[str]:
    for test in vars(import_module(module)).values():
        for mark in getattr(test, "pytestmark", []) if callable(test) else []:
            cases = mark.args[1] if mark.name == "parametrize" else ()
            for one in (mark, *(inner for case in cases for inner in getattr(case, "marks", ()))):
                yield from one.args if one.name == "follows" else ()


@contextmanager
def given_hints() -> Iterator[list[str]]:
    """The hints of all problems that come up meanwhile."""
    given: list[str] = []
    made = Problem.__init__

    def noted(self: Problem, *arguments: Any, **named: Any) -> None:
        made(self, *arguments, **named)
        given.append(self.hint or "")

    Problem.__init__ = noted  # type: ignore[method-assign]
    try:
        yield given
    finally:
        Problem.__init__ = made  # type: ignore[method-assign]


@contextmanager
def looked_for(markers: Iterator[pytest.Mark]) -> Iterator[None]:
    """Around a test: the hints that it follows have to come up."""
    wanted = [text for mark in markers if mark.kwargs.get("here", True) for text in mark.args]
    with given_hints() as given:
        yield
    missing = [text for text in wanted if not any(pattern(text).search(hint) for hint in given)]
    assert not missing, f"nobody gave the hint {missing}; given: {[one for one in given if one]}"
