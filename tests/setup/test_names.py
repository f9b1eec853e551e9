"""What a name promises: modules are nouns, a class stands for one thing, a folder is small enough to look through."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent
MODULES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
SIDE_BY_SIDE = 20
AT_THE_ROOT = 6
LISTS = {"cli/commands"}
"""A file for each group of commands: as many as there are commands."""


def test_modules_are_named_for_what_is_in_them() -> None:
    assert len(MODULES) > 400
    gestures = [str(path.relative_to(PACKAGE)) for path in MODULES if path.stem.endswith("ing")]
    assert gestures == []


def test_a_folder_is_small_enough_to_look_through() -> None:
    side_by_side = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in MODULES)
    assert {where: n for where, n in side_by_side.items() if n > SIDE_BY_SIDE and where not in LISTS} == {}
    assert side_by_side["."] <= AT_THE_ROOT


def test_a_class_name_stands_for_one_thing() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path, name in _classes():
        found[name].append(path)
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def _classes() -> Iterator[tuple[str, str]]:
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield str(path.relative_to(PACKAGE)), node.name
