"""The hints that the code can print, found in its source: every text that is given as a hint."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import headwater

SOURCE = Path(headwater.__file__).parent
NAMES = {"hint", "cure", "CURE"}
"""What a hint is called where it stands in a variable or an argument."""


def hints(source: Path = SOURCE) -> dict[str, set[str]]:
    """By text, with {} for what is put in: the modules that give it."""
    found: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.py")):
        for text in _texts(ast.parse(file.read_text(encoding="utf-8"))):
            found.setdefault(text, set()).add(str(file.relative_to(source)))
    return found


def pattern(text: str) -> re.Pattern[str]:
    """What a printed hint looks like that was made of a text."""
    return re.compile(".*".join(re.escape(part) for part in text.split("{}")), re.DOTALL)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            values = [one.value for one in node.keywords if one.arg in NAMES]
            values += node.args[3:4] if name == "Problem" else []
        elif isinstance(node, ast.Assign):
            values = [node.value] if any(isinstance(t, ast.Name) and t.id in NAMES for t in node.targets) else []
        else:
            continue
        for value in values:
            yield from _written(value)


def _written(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        yield from (*_written(value.body), *_written(value.orelse))
    elif isinstance(value, ast.BoolOp):
        for one in value.values:
            yield from _written(one)
    elif isinstance(value, (ast.Constant, ast.JoinedStr, ast.BinOp)):
        text = _text(value)
        if text.strip("{} "):
            yield text


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else ""
    if isinstance(value, ast.JoinedStr):
        return "".join(one.value if isinstance(one, ast.Constant) else "{}" for one in value.values)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _text(value.left) + _text(value.right)
    return "{}"
