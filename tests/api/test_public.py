"""The public Python API: every name is typed, has a docstring, stands in docs/python.md, and is one thing."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import headwater
from tests.api.walk import ACTING, ALIASES, Name, names_of, records

PUBLIC = ["Event", "HeadwaterError", "Lake", "Project", "filter", "mapper", "transform", "upcaster"]
PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def every_name() -> list[Name]:
    return [name for owner in (*ACTING, *records()) for name in names_of(owner)]


def test_the_package_lists_its_public_names_and_nothing_else() -> None:
    assert dir(headwater) == PUBLIC == sorted(headwater.__all__)
    program = (
        "import headwater; before = dir(headwater); from headwater import *; Lake; assert dir(headwater) == before"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_every_public_name_has_a_docstring() -> None:
    without = [name for name in PUBLIC if not inspect.getdoc(getattr(headwater, name))]
    for owner in (*ACTING, *records()):
        doc = owner.__dict__.get("__doc__") or ""
        if not doc or doc.startswith(f"{owner.__name__}("):  # which dataclasses write by themselves
            without.append(owner.__name__)
    without += [str(name) for name in every_name() if callable(name.value) and not inspect.getdoc(name.value)]
    assert without == []


def test_no_dict_of_anything_comes_out() -> None:
    untyped = [f"{name}: {name.gives}" for name in every_name() if re.search(r"\bAny\b|nothing is said", name.gives)]
    assert untyped == []


def test_every_parameter_is_typed() -> None:
    untyped = [
        f"{name}({parameter.name})"
        for name in every_name()
        if callable(name.value)
        for parameter in list(inspect.signature(name.value).parameters.values())
        if parameter.annotation is inspect.Parameter.empty and parameter.name not in ("self", "cls")
    ]
    assert untyped == []


def test_records_are_frozen_and_show_themselves() -> None:
    assert len(records()) > 30
    for record in records():
        assert record.__dataclass_params__.frozen, record  # type: ignore[attr-defined]
        assert {"to_dict", "_repr_html_"} <= set(dir(record)), record


def test_what_acts_shows_itself() -> None:
    own = [owner.__name__ for owner in ACTING if owner.__repr__ is object.__repr__]
    html = [owner.__name__ for owner in ACTING if not hasattr(owner, "_repr_html_")]
    assert own == []
    assert html == ["SqlSettings"]


def test_a_word_is_a_method_everywhere_or_a_property_everywhere() -> None:
    kinds: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for owner in ACTING:
        for name in names_of(owner):
            if name.name not in ALIASES:
                kinds[name.name][name.kind].append(str(name))
    assert {word: dict(owners) for word, owners in kinds.items() if len(owners) > 1} == {}


@pytest.mark.parametrize("owner", ACTING)
def test_every_name_is_in_the_docs(owner: type) -> None:
    written = set(re.findall(r"`\.?(\w+)", PAGE)) | set(re.findall(r"\.(\w+)", PAGE))
    assert sorted({name.name for name in names_of(owner)} - written) == []
