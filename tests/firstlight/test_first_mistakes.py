"""Mistakes in somebody's first project, each of which leads to the next right step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hints.followed import follows
from tests.support import headwater

SALES = "Sale ID,city,amount\n1,Berlin,2.50\n2,Paris,oops\n3,Berlin,4.00\n"


def write(root: Path, source: str) -> None:
    (root / "headwater.yml").write_text(
        f"name: shop\nsources:\n  landing: {{type: files, {source}}}\ntopics:\n  sales: {{from: landing}}\n"
        "views:\n  cities: {sql: \"SELECT city, count(*) AS n FROM topic('sales') GROUP BY city\"}\n",
        encoding="utf-8",
    )


@pytest.mark.usefixtures("spark")
@follows(
    "did you mean '{}'?",
    "put one there",
    "let `file_format` be {}",
    "nothing has come yet: `headwater check` says if its source is not as it should be",
)
def test_a_wrong_path_no_data_and_a_wrong_format(tmp_path: Path) -> None:
    here = ("--project", tmp_path)
    (tmp_path / "landing").mkdir()
    write(tmp_path, "path: ./landin")
    checked = headwater("check", *here)
    assert checked.code == 0 and "1 note" in checked.err
    assert f"note headwater.yml:3 sources.landing.path: there is no folder {tmp_path}/landin" in checked.out
    assert "did you mean 'landing'?" in checked.out

    write(tmp_path, "path: ./landing")
    assert headwater("run", "--once", *here).code == 0
    asked = headwater("query", "SELECT * FROM mv('cities')", *here)
    assert asked.code == 2 and "nothing has come yet: `headwater check`" in asked.err
    assert "there are no files in" in headwater("check", *here).out

    (tmp_path / "landing" / "sales.csv").write_text(SALES, encoding="utf-8")
    assert "sales.csv looks like csv, and is read as json; let `file_format` be csv" in headwater("check", *here).out
    ran = headwater("run", "--once", *here)
    assert "4 records are dead letters: `headwater dlq list` has the reasons" in ran.err
    (letter, *_) = headwater("dlq", "list", "--json", *here).json
    expected = (
        "not one JSON object; hint: set `file_format: csv` in its source, then `headwater flow rebuild sales --yes`"
    )
    assert letter["message"] == expected

    write(tmp_path, "path: ./landing, file_format: csv")
    assert headwater("check", *here).out == ""
    assert headwater("flow", "rebuild", "sales", "--yes", *here).code == 0
    assert headwater("run", "--once", *here).code == 0
    rows = headwater("query", "SELECT * FROM mv('cities') ORDER BY city", "--output", "json", *here).json
    assert rows == [{"city": "Berlin", "n": 2}, {"city": "Paris", "n": 1}]
    misread = headwater("query", "SELECT sale_id FROM topic('sales')", *here)
    assert misread.code == 2 and "Sale ID" in misread.err
