"""The examples of docs/topics.md, as a project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.test_examples import ROOT, blocks
from tests.support import headwater

PAGE = "docs/topics.md"


@pytest.mark.usefixtures("spark")
def test_the_page(tmp_path: Path) -> None:
    (topics,) = blocks(PAGE, "yaml")
    sources = "name: shop\nsources: {landing: {type: files, path: landing}}\n"
    (tmp_path / "headwater.yml").write_text(sources + topics, encoding="utf-8")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text('{"event_id": "a", "n": 1}\n{"event_id": "a", "n": 1}\n{broken\n')
    ran = headwater("run", "--once", "--json", "--project", tmp_path)
    (flow,) = ran.events[-1]["flows"]
    assert (flow["rows"], flow["rejected"]) == (1, 1)
    (letter,) = headwater("dlq", "list", "--json", "--project", tmp_path).json
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```\n(headwater dlq.*?)^```", text, re.M | re.S)
    for line in commands.splitlines():
        words = line.replace("3f2a91", letter["id"][:6]).split()
        answer = headwater(*words[1:], "--project", tmp_path)
        assert answer.code == 0, f"{line}: {answer.err}"
    assert headwater("dlq", "list", "--json", "--project", tmp_path).json == []
