"""YAML read strictly, and variables put in without touching its structure."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import Problem
from headwater.project.load.loader import load_project
from headwater.project.load.yaml import parse_yaml
from tests.project.conftest import BASE, Find, Write, places


def plain(text: str) -> Any:
    problems: list[Problem] = []
    node = parse_yaml(text, "x.yml", problems)
    assert node is not None
    assert problems == []
    return node.plain()


def test_words_stay_words() -> None:
    assert plain("{on: yes, off: no, y: n, when: 2026-01-01, at: 12:30, zip: 0123, hex: 0x1F}") == {
        "on": "yes",
        "off": "no",
        "y": "n",
        "when": "2026-01-01",
        "at": "12:30",
        "zip": "0123",
        "hex": "0x1F",
    }


def test_numbers_flags_and_nothing() -> None:
    assert plain("{a: 1, b: -2.5, c: true, d: False, e: 1e3, f: '1', g: ~, h: , i: null}") == {
        "a": 1,
        "b": -2.5,
        "c": True,
        "d": False,
        "e": 1000.0,
        "f": "1",
    }


def test_anchors_and_defaults() -> None:
    assert plain("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x\nd: {<<: [{p: 9}, *x]}\n") == {
        "a": {"p": 1, "q": 2},
        "b": {"p": 1, "q": 3},
        "c": {"p": 1, "q": 2},
        "d": {"p": 9, "q": 2},
    }


def test_variables_are_filled_in(write: Write) -> None:
    text = BASE + (
        "warehouse: ${LAKE}/${SUB:-shop}\ndescription: costs $${5} ${QUOTE}\n"
        'server: {port: "${PORT:-8123}"}\nspark: {ui: "${UI}"}\nstorage: {s3: {endpoint: "${S3:-}", region: x}}\n'
    )
    env = {"LAKE": "/data", "QUOTE": '"}: [x', "UI": "true", "S3": ""}
    settings = load_project(write(text), env=env).settings
    assert settings.warehouse == "/data/shop"
    assert settings.description == 'costs ${5} "}: [x'
    assert settings.server.port == 8123
    assert settings.spark.ui is True
    assert settings.storage.s3 is not None
    assert settings.storage.s3.endpoint is None


def test_a_variable_never_becomes_structure(find: Find) -> None:
    problems = find(BASE + "spark: ${SPARK}\n", env={"SPARK": "{master: evil}"})
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 spark")]


def test_all_missing_variables_are_told_at_once(find: Find) -> None:
    problems = find(
        BASE + "warehouse: ${A}/${B}\nserver: {port: '${C}'}\ntopics:\n  t:\n    from: landing\n    owner: ${D}\n"
    )
    assert places(problems) == [
        ("MISSING_VARIABLE", "headwater.yml:3 warehouse"),
        ("MISSING_VARIABLE", "headwater.yml:3 warehouse"),
        ("MISSING_VARIABLE", "headwater.yml:4 server.port"),
        ("MISSING_VARIABLE", "headwater.yml:8 topics.t.owner"),
    ]
    assert [p.message.split()[3] for p in problems] == ["A", "B", "C", "D"]


def test_an_empty_variable_for_a_required_key_is_a_missing_key(find: Find) -> None:
    problems = find("name: x\nsources: {s: {type: files, path: '${P}'}}\n", env={"P": ""})
    assert places(problems) == [("MISSING_KEY", "headwater.yml:2 sources.s.path")]


@pytest.mark.parametrize("wrong", ["${", "${}", "${a b}", "${1A}", "${A", "${A:-${B}}", "${A:=x}"])
def test_what_is_no_variable(find: Find, wrong: str) -> None:
    problems = find(BASE + f"description: 'x {wrong}'\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 description")]
    assert "is not a variable" in problems[0].message


DEEP = {
    "flow": "name: " + "[" * 5000 + "]" * 5000,
    "braces": "name: " + "{a: " * 5000 + "1" + "}" * 5000,
    "block": "\n".join(" " * level + "a:" for level in range(5000)),
    "anchors": "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000)),
    "never closed": "name: " + "[" * 5000,
}


@pytest.mark.parametrize("how", DEEP)
def test_what_is_nested_too_deeply_is_refused_with_its_line(find: Find, how: str) -> None:
    problems = find(DEEP[how])
    assert [str(problem.code) for problem in problems] == ["INVALID_YAML"]
    assert "nested" in problems[0].message and problems[0].where is not None and problems[0].where.line


def test_options_above_a_query_are_not_nested_either(find: Find) -> None:
    query = "/*\nkeys: " + "[" * 5000 + "]" * 5000 + "\n*/\nSELECT 1 AS a"
    problems = find(BASE, {"tables/t.sql": query})
    assert ("INVALID_YAML", "tables/t.sql") in [(str(p.code), p.where and p.where.file) for p in problems]
