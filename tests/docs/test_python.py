"""The examples of docs/python.md are run as they stand, in turn, and print what the page says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
_EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_each_example_prints_what_the_page_says(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headwater.yml").write_text(block("yaml"), encoding="utf-8")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.json").write_text(block("json"), encoding="utf-8")
    examples = _EXAMPLE.findall(PAGE)
    assert len(examples) == PAGE.count("```python")
    before = os.getcwd()
    os.chdir(tmp_path)
    printed = []
    try:
        for example, _ in examples:
            exec(compile(example, "docs/python.md", "exec"), {})
            printed.append(capsys.readouterr().out.replace(str(tmp_path), "…"))
    finally:
        os.chdir(before)
    assert printed == [says for _, says in examples]
