"""The examples of docs/views.md, as a project."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from headwater import Lake
from tests.docs.test_examples import ROOT, blocks
from tests.support import headwater

PAGE = "docs/views.md"


@pytest.mark.usefixtures("spark")
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (views,) = blocks(PAGE, "yaml")
    root = tmp_path / "shop"
    (root / "landing").mkdir(parents=True)
    sources = "name: shop\nsources: {landing: {type: files, path: landing}}\ntopics: {orders: {from: landing}}\n"
    (root / "headwater.yml").write_text(sources + views, encoding="utf-8")
    (root / "landing" / "1.json").write_text('{"product": "tea", "amount": 70}\n{"product": "tea", "amount": 60}\n')
    ran = headwater("run", "--once", "--project", root)
    assert ran.code == 0, ran.err
    found = headwater("query", "SELECT * FROM mv('dear')", "--json", "--project", root)
    assert found.json == [{"product": "tea", "total": 130}]
    (commands,) = re.findall(r"^```\n(headwater mv.*?)^```", (ROOT / PAGE).read_text(encoding="utf-8"), re.M | re.S)
    for line in commands.splitlines():
        answer = headwater(*shlex.split(line)[1:], "--project", root)
        assert answer.code == 0, f"{line}: {answer.err}"
    (code,) = blocks(PAGE, "python")
    monkeypatch.chdir(tmp_path)
    exec(code, {"Lake": Lake})
