"""The project's Python code, and projects in Python."""

from __future__ import annotations

import inspect
import pickle
import sys
from pathlib import Path

import pytest

import headwater
from headwater.core.errors import ProjectError
from headwater.project.load.loader import load_project
from headwater.sources.files.config import FilesSource
from tests.project.conftest import BASE, Find, Write, places

CODE = """\
from __future__ import annotations
from dataclasses import dataclass
from headwater import filter, mapper, transform, upcaster
import helper

@dataclass
class Row:
    id: int

@mapper("A", "B")
def one(event): return Row(event)

@mapper(group="other")
def rest(event): return helper.twice(event)

@upcaster("A", from_version=1)
def lift(event): return event

@filter
def real(event): return True

@transform("visits", streaming=True)
def make(df): return df
"""
HELPER = "def twice(x):\n    return 2 * x\n"


def test_decorators_register_and_leave_the_function_alone(write: Write) -> None:
    text = BASE + "code: shop.py\ntopics: {t: {from: landing, mappers: [shop, other], filter: real}}\n"
    text += "tables: {v: {transform: visits}}\n"
    project = load_project(write(text, {"shop.py": CODE, "helper.py": HELPER}))
    found = {f.name: f for f in project.functions}
    assert {f.role for f in project.functions} == {"mapper", "upcaster", "filter", "transform"}
    assert (found["one"].group, found["one"].events, found["one"].line) == ("shop", ("A", "B"), 10)
    assert (found["rest"].group, found["rest"].events) == ("other", ())
    assert found["lift"].from_version == 1
    assert found["visits"].streaming
    assert inspect.isfunction(found["rest"].function)
    assert found["rest"].function(4) == 8
    assert not [name for name in sys.modules if name.startswith("_headwater_code")]


def test_functions_of_the_code_travel_by_value(write: Write) -> None:
    from pyspark import cloudpickle

    code = "from headwater import mapper\n\nFACTOR = 3\n\n@mapper('A')\ndef f(x):\n    return FACTOR * x\n"
    project = load_project(write(BASE + "code: shop.py\n", {"shop.py": code}))
    assert pickle.loads(cloudpickle.dumps(project.functions[0].function))(2) == 6


def test_decorators_outside_of_loading_are_harmless() -> None:
    @headwater.mapper("A")
    def plain(event: int) -> int:
        return event + 1

    assert plain(1) == 2
    assert plain.__name__ == "plain"


@pytest.mark.parametrize(
    ("code", "place", "says"),
    [
        ("x = 1\n\nraise ValueError('boom')\n", "shop.py:3", "ValueError: boom"),
        ("def f(:\n", "shop.py:1", "SyntaxError"),
        ("import nothing_like_this\n", "shop.py:1", "No module named 'nothing_like_this'"),
        ("import json\ndef f():\n    json.loads('{')\n\nf()\n", "shop.py:3", "JSONDecodeError"),
        ("import sys\nsys.exit(3)\n", "shop.py:2", "SystemExit: 3"),
        ("import helper\n", "helper.py:2", "ZeroDivisionError"),
        ("from headwater import nothing\n", "shop.py:1", "ImportError"),
        ("from headwater import upcaster\n\n@upcaster('A')\ndef f(e): ...\n", "shop.py:3", "from_version"),
    ],
)
def test_a_mistake_in_the_code_is_shown_at_its_line(find: Find, code: str, place: str, says: str) -> None:
    sys.modules.pop("helper", None)
    problems = find(BASE + "code: shop.py\n", {"shop.py": code, "helper.py": "y = 0\nx = 1 / y\n"})
    assert places(problems) == [("CODE_FAILED", place)]
    assert says in problems[0].message
    assert "Traceback" not in str(problems[0])


def test_no_such_code(find: Find) -> None:
    assert places(find(BASE + "code: shop.py\n")) == [("CODE_FAILED", "headwater.yml:3 code")]


def test_two_functions_for_one_thing(find: Find) -> None:
    code = "from headwater import mapper\n@mapper('A')\ndef f(e): ...\n@mapper('B', 'A')\ndef g(e): ...\n"
    problems = find(BASE + "code: shop.py\n", {"shop.py": code})
    assert places(problems) == [("DUPLICATE_NAME", "shop.py:4")]
    assert problems[0].hint == "first at shop.py:2"


def test_mappers_that_are_not_there(find: Find) -> None:
    code = "from headwater import mapper\n@mapper\ndef f(e): ...\n"
    problems = find(BASE + "code: shop.py\ntopics: {t: {from: landing, mappers: shp}}\n", {"shop.py": code})
    assert places(problems) == [("UNKNOWN_REFERENCE", "headwater.yml:4 topics.t.mappers")]
    assert problems[0].hint == "did you mean 'shop'?"


def test_a_project_in_python_is_the_same_as_in_the_file(write: Write) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    made = headwater.Project(
        name="shop",
        sources={"landing": {"type": "files", "path": "./landing"}, "other": FilesSource(path="x")},
        topics={"t": {"from": "landing", "flush_interval": "5s", "partition_by": ["a"]}},
    )
    text = (
        "name: shop\nsources: {landing: {type: files, path: ./landing}, other: {type: files, path: x}}\n"
        "topics: {t: {from: landing, flush_interval: 5s, partition_by: a}}\n"
    )
    read = load_project(write(text))
    assert isinstance(made, type(read))
    for section in ("sources", "topics", "catalogs"):
        ours, theirs = getattr(made, section), getattr(read, section)
        assert {k: v.model_dump() for k, v in ours.items()} == {k: v.model_dump() for k, v in theirs.items()}
    assert str(made.topics["t"].where) == f"test_code.py:{line} topics.t"
    assert made.root == Path(__file__).parent


def test_mistakes_in_a_python_project_are_told_at_once() -> None:
    with pytest.raises(ProjectError) as caught:
        headwater.Project(name="Shop", topics={"t": {"frm": "x"}}, wharehouse="y")
    assert [str(p.code) for p in caught.value.problems] == ["UNKNOWN_KEY", "INVALID_NAME", "UNKNOWN_KEY"]
    assert all(p.where is not None and p.where.file == "test_code.py" for p in caught.value.problems)


PYTHON = """\
import headwater

@headwater.mapper("A")
def one(event): ...

project = headwater.Project(
    name="shop",
    sources={"landing": {"type": "files", "path": "landing"}},
    topics={"t": {"from": "landing", "mappers": "headwater"}},
    warehouse="${LAKE:-./lake}",
    targets={"prod": {"format": "iceberg"}},
)
"""


def test_a_project_file_in_python(tmp_path: Path) -> None:
    (tmp_path / "headwater.py").write_text(PYTHON)
    project = load_project(tmp_path, "prod", {"LAKE": "/data"})
    assert (project.name, project.warehouse, project.settings.format) == ("shop", "/data", "iceberg")
    assert [f.name for f in project.functions] == ["one"]


@pytest.mark.parametrize(
    ("code", "place", "says"),
    [
        ("import headwater\n", "headwater.py", "one headwater.Project, not none"),
        ("import headwater\nheadwater.Project(nme='x')\n", "headwater.py:2", "TypeError"),
        ("import headwater\n\nheadwater.Project('x', topics=5)\n", "headwater.py:3 topics", "mapping"),
    ],
)
def test_mistakes_in_a_project_file_in_python(tmp_path: Path, code: str, place: str, says: str) -> None:
    (tmp_path / "headwater.py").write_text(code)
    with pytest.raises(ProjectError) as caught:
        load_project(tmp_path)
    assert str(caught.value.problems[0].where) == place
    assert says in str(caught.value)
