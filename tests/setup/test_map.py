"""CONTRIBUTING's map of the code is the tree as it is, and the way of a record goes through modules that are there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ROOT / "src" / "headwater"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
_LAYOUT = TEXT.partition("## How the code is laid out")[2].partition("\n## ")[0]


def rooms() -> list[str]:
    """The rooms of the map, with those that they lie in: `sources/postgres/cdc`."""
    found, above = list[str](), list[str]()
    for line in _LAYOUT.split("```")[1].strip("\n").splitlines():
        match = re.fullmatch(r"( *)(\w+)  +\S.*", line)
        assert match is not None, f"no room, or nothing is said of it: {line}"
        above = [*above[: len(match[1]) // 2], match[2]]
        found.append("/".join(above))
    return found


def test_the_map_has_every_room_and_no_other() -> None:
    packages = {str(each.parent.relative_to(CODE)) for each in CODE.rglob("__init__.py")} - {"."}
    modules = {each.stem for each in CODE.glob("*.py")} - {"__init__"}
    assert sorted(rooms()) == sorted(packages | modules)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no tomllib")
def test_the_map_goes_down_as_imports_do() -> None:
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = [each["layers"] for each in contracts if each["id"] == "layers"]
    level = {name: number for number, line in enumerate(layers) for name in re.findall(r"\w+", line)}
    depths = {room: level[room] for room in rooms() if "/" not in room}
    higher = [(one, other) for one in depths for other in depths if depths[one] < depths[other]]
    order = list(depths)
    assert [pair for pair in higher if order.index(pair[0]) > order.index(pair[1])] == []


def test_the_way_of_a_record_has_ten_steps_through_what_is_there() -> None:
    steps = re.split(r"^\d+\. ", _LAYOUT.partition("### The way of one record")[2], flags=re.MULTILINE)[1:]
    assert len(steps) == 10
    for step in steps:
        quoted = re.findall(r"`([^`]+)`", step)
        files = [CODE / each for each in quoted if each.endswith(".py")]
        assert files and all(file.is_file() for file in files), step
        texts = "".join(file.read_text(encoding="utf-8") for file in [*files, *_neighbours(files)])
        names = [each for each in quoted if not each.endswith(".py")]
        assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", texts)] == [], step


def _neighbours(files: list[Path]) -> list[Path]:
    return [each for file in files for each in file.parent.glob("*.py")]
