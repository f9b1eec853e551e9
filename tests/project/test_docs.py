"""The pages about the project file and the errors say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.core.errors import Code
from headwater.core.spec import Definition
from headwater.project.check import all_problems
from headwater.project.load.build import known_keys
from headwater.project.load.loader import examine
from headwater.project.reference import documented_models, refreshed
from tests.project.conftest import Write

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "project-file.md").read_text(encoding="utf-8")
ERRORS = (DOCS / "errors.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


FORMATS_PAGE = (DOCS / "formats" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [PAGE, ERRORS, FORMATS_PAGE], ids=["project-file", "errors", "formats"])
def test_the_tables_are_up_to_date(page: str) -> None:
    assert refreshed(page) == page, "run `python docs/refresh.py`"


@pytest.mark.parametrize("model", [*documented_models().values(), Definition], ids=lambda m: m.__name__)
def test_every_field_is_documented(model: type[Definition]) -> None:
    assert f"<!-- keys {model.__name__} -->" in PAGE
    assert all(field.description for field in model.model_fields.values())


def test_every_top_level_key_is_named() -> None:
    assert all(f"`{key}`" in PAGE for key in known_keys())


def test_every_code_is_documented() -> None:
    assert all(f"| `{code}` | {code.value} |" in ERRORS for code in Code)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_are_right(write: Write, number: int) -> None:
    folder = write(EXAMPLES[number])
    (folder / "topics").mkdir()
    assert all_problems(examine(folder, env={})) == []


def test_the_python_examples_run(tmp_path: Path) -> None:
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(example, str(tmp_path / "x.py"), "exec"), {})


def test_the_sql_example_is_right(write: Write) -> None:
    (sql,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    text = "name: x\nsources: {l: {type: append}}\ntopics: {orders: {from: l}}\n"
    assert all_problems(examine(write(text, {"views/orders_per_tenant.sql": sql}), env={})) == []
