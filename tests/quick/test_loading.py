"""What commands load: one that looks at little waits for little."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.api.lake import Lake
from headwater.cli.app import COMMANDS, Commands
from tests.support import Shop, headwater

HEAVY = ("pyspark", "pandas", "numpy", "pyarrow", "sqlalchemy", "sqlglot", "deltalake", "duckdb", "pydantic", "psutil")
PROGRAM = """
import sys
from headwater.cli.app import execute
code = execute(sys.argv[2:])
loaded = [name for name in sys.argv[1].split(",") if name in sys.modules]
assert not loaded, loaded
sys.exit(code)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop.make(tmp_path_factory.mktemp("loading") / "shop")
    with Lake.open(shop.root) as lake:
        lake._warehouse._require_writable()  # as a run begins a lake
    headwater("topic", "list", "--project", shop.root)  # notes that nothing is wrong with the project
    return shop


def loads_none_of(names: tuple[str, ...], *arguments: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(names), *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_help_loads_typer_and_rich_alone(shop: Shop) -> None:
    loads_none_of(HEAVY, "--help", folder=shop.root)


@pytest.mark.parametrize("command", ["status", "flow list", "topic list", "table list"])
def test_what_the_state_tells_needs_no_heavy_library(shop: Shop, command: str) -> None:
    needed = {"pydantic"}
    loads_none_of(tuple(name for name in HEAVY if name not in needed), *command.split(), folder=shop.root)


def test_a_check_parses_sql_and_opens_no_file_of_the_lake(shop: Shop) -> None:
    heavy = tuple(name for name in HEAVY if name not in ("pydantic", "sqlglot"))
    loads_none_of(heavy, "check", folder=shop.root)


def test_the_list_of_commands_has_the_help_of_each() -> None:
    loaded = Commands()
    assert {name: loaded[name].help for name in loaded} == COMMANDS


def test_a_project_that_was_found_right_is_checked_again_when_it_changes(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path / "shop")
    for _ in range(2):
        assert headwater("topic", "list", "--project", shop.root).err == ""
    file = shop.root / "headwater.yml"
    file.write_text(file.read_text() + "views: {broken: {sql: SELECT FROM WHERE}}\n")
    assert "INVALID_SQL" in headwater("topic", "list", "--project", shop.root).err
    file.write_text(file.read_text().replace("SELECT FROM WHERE", "\"SELECT count(*) AS n FROM topic('orders')\""))
    assert headwater("topic", "list", "--project", shop.root).err == ""
