"""What a name promises: modules are nouns, a class stands for one thing, a folder is small enough to look through."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import headwater

PACKAGE = Path(headwater.__file__).parent
MODULES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
SIDE_BY_SIDE = 20
AT_THE_ROOT = 6


def test_modules_are_named_for_what_is_in_them() -> None:
    assert len(MODULES) > 400
    gestures = [str(path.relative_to(PACKAGE)) for path in MODULES if path.stem.endswith("ing")]
    assert gestures == []


def test_a_folder_is_small_enough_to_look_through() -> None:
    side_by_side = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in MODULES)
    assert {where: n for where, n in side_by_side.items() if n > SIDE_BY_SIDE} == {}
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


HOME_MADE = re.compile(
    r"\b(unsteady|waterline|upkeep|handover|learnt|[Mm]isfits?|MISFITS|Ahead|LightTable|anew|beside|surroundings|settled)\b"
    r"|\bbr(ing|ought)\b( [a-z]+){0,2} forward\b|\btaken in\b|; cure: (?!\")|\blight (table|reader|side|librar)"
)
"""Words that nobody in the field uses for it; decision 0028 has those that are used instead."""
MEANT = ("cellar,beside the wine",)


def test_home_made_words_do_not_come_back() -> None:
    root = PACKAGE.parents[1]
    pages = [path for path in (root / "docs").rglob("*.md") if path.parent.name != "decisions"]
    files = [*MODULES, *pages, root / "README.md", root / "CONTRIBUTING.md"]
    found = [
        f"{path.relative_to(root)}:{number} {match[0]}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := HOME_MADE.search(line)) and not any(text in line for text in MEANT)
    ]
    assert found == []


ROOMS = {
    "api",
    "catalogs",
    "core",
    "flows",
    "ingest",
    "maintenance",
    "runner",
    "schema",
    "spark",
    "sql",
    "tables",
    "views",
}
ROOMS.add("warehouse.py")
"""Where each value has a noun for what it is; the other rooms follow."""
NO_NOUNS = {"came", "found", "given", "told"}


def test_values_are_named_for_what_they_are() -> None:
    named = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] in ROOMS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.arg) and node.arg in NO_NOUNS)
        or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NO_NOUNS)
    ]
    assert named == []
