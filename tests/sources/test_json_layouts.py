"""`.json` is the same in files that land and in appends: an object a line, an array, or objects over several lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.sources.append.text import parse
from headwater.sources.decoders.json_layout import is_by_line
from tests.sources.landing import Landing
from tests.sources.test_files_formats import dead_letters

LAYOUTS: dict[str, tuple[str, list[int]]] = {
    "lines": ('{"n": 1}\n\n{"n": 2}\r\n', [1, 2]),
    "line": ('{"n": 3}', [3]),
    "array": ('\ufeff[{"n": 4}, {"n": 5}]', [4, 5]),
    "array_over_lines": ('\n [\n  {"n": 6},\n  {"n":\n 7}\n]\n', [6, 7]),
    "object_over_lines": ('{\n  "n": 8\n}\n', [8]),
    "objects_over_lines": ('{ "n":\n9 }\n{"n": 10}\n{\n"n": 11}', [9, 10, 11]),
    "two_arrays": ('[{"n": 12}]\n[{"n": 13}]\n', [12, 13]),
    "lines_that_nest": ('{"n": 14, "of": [{"n": 0}]}\n{"n": 15}\n', [14, 15]),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_appends(name: str) -> None:
    text, numbers = LAYOUTS[name]
    assert [json.loads(line)["n"] for line in parse(text.encode()).lines] == numbers


def test_files(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    for at, (name, (text, _)) in enumerate(LAYOUTS.items()):
        plain, packed = landing.folder / f"{at}-{name}.json", landing.folder / f"{at}-{name}-x.json.gz"
        plain.write_bytes(text.encode())
        packed.write_bytes(gzip.compress(text.encode()))
    rows = landing.take()
    assert dead_letters(rows) == {}
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["_file_path"], []).append(row["_event"]["n"])
    for at, (name, (_, numbers)) in enumerate(LAYOUTS.items()):
        assert found[f"{at}-{name}.json"] == found[f"{at}-{name}-x.json.gz"] == numbers, name


def test_a_broken_line_is_one_dead_letter(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    landing.put(a_json='{"n": 1,\n{"n": 2}\n', b_json='[oops\n{"n": 3}\n', c_json='"{"\n{"n": 4}\n')
    rows = landing.take()
    assert [row["_event"]["n"] for row in rows if row["_event"] is not None] == [2, 3, 4]
    assert len(dead_letters(rows)) == 3


def test_an_option_says_it_for_all(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"options": {"multiLine": False}})
    landing.put(a_json='[{"n": 1}, {"n": 2}]\n')
    assert len(dead_letters(landing.take())) == 1


def test_the_beginning_is_enough() -> None:
    many = b'{"a": "' + "é".encode() * 40_000 + b'"}\n{"a": 1}\n'
    assert is_by_line(many)
    assert is_by_line(b"") and is_by_line(b"  \n") and is_by_line(b"{") and is_by_line(b"[1, 2]\n")
    assert not is_by_line(b"[") and not is_by_line(b"[]") and not is_by_line(b'[ {"a": 1}')
