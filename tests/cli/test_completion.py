"""Completion in a shell, and the version."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from headwater.cli.app import COMMANDS, execute
from headwater.cli.completion.command_line import FILES, candidates
from headwater.cli.completion.shells import SCRIPTS
from tests.support import Shop, headwater

BIN = Path(sys.executable).parent


def words(*before: str) -> list[str]:
    return [one.word for one in candidates(before)]


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"headwater {version('headwater')}\n"
    told = headwater("--version")
    assert (told.code, told.out, told.err) == (0, line, "")
    assert headwater("--version", "--json").json == {"version": version("headwater")}
    assert execute(["--version"]) == 0 and capsys.readouterr().out == line
    assert "--version" in headwater("--help").out


def test_commands_options_and_values() -> None:
    assert words("") == list(COMMANDS) == words()
    assert words("to") == ["topic"]
    assert "describe" in words("topic", "") and words("topic", "des") == ["describe"]
    assert words("query", "SELECT 1", "--out") == ["--output"]
    assert words("query", "SELECT 1", "--output", "") == ["table", "csv", "json", "ndjson", "parquet"]
    assert words("query", "SELECT 1", "--output", "nd") == ["ndjson"]
    assert {"--vertical", "--horizontal", "--help"} <= set(words("query", "--"))
    assert words("topic", "describe", "--project", "x/") == [FILES] == words("topic", "append", "x", "--project", "")
    assert words("nothing", "like", "this") == []


def test_names_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop.make(tmp_path / "shop")
    file = shop.root / "headwater.yml"
    file.write_text(file.read_text() + "views: {totals: {sql: \"SELECT count(*) AS n FROM topic('orders')\"}}\n")
    at = ["--project", str(shop.root)]
    assert words("topic", "describe", *at, "") == ["orders"]
    assert words("mv", "describe", *at, "t") == ["totals"] and words("table", "describe", *at, "") == []
    assert words("flow", "pause", *at, "") == ["topics.orders", "views.totals"] == words("run", *at, "")
    assert words("dlq", "list", *at, "--topic", "") == ["orders"]
    monkeypatch.chdir(shop.root)
    assert words("topic", "tail", "o") == ["orders"]
    monkeypatch.chdir(tmp_path)
    assert headwater("__complete", "topic", "tail", "").out == "", "no project, no names, no noise"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_for_each_shell(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        headwater("completion", shell).out == SCRIPTS[shell] == headwater("completion", shell, "--json").json["script"]
    )
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    (tmp_path / f".{shell}rc").write_text("# mine")
    for _ in range(2):
        done = headwater("completion", "--install")
        assert done.code == 0, done.err
    first = Path(done.out.splitlines()[0])
    assert first.read_text() == SCRIPTS[shell] and first.is_relative_to(tmp_path)
    if shell != "fish":
        assert (tmp_path / f".{shell}rc").read_text() == f"# mine\nsource '{first}'\n", "once"


def test_an_unknown_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    for given in ([], ["powershell"]):
        refused = headwater("completion", *given)
        assert refused.code == 2 and "bash, zsh, fish" in refused.err


BASH = """\
source <(headwater completion bash)
complete_line() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headwater_complete; echo "${COMPREPLY[*]}"
}
complete_line headwater to
complete_line headwater query x --output ""
complete -p headwater
"""


def test_bash_completes() -> None:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", BASH], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == [
        "topic",
        "table csv json ndjson parquet",
        "complete -F _headwater_complete headwater",
    ], done.stderr


def test_a_statement_makes_a_view_or_is_refused_before_anything_starts(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path)
    for words in (
        ["totals"],
        ["SELECT 1"],
        ["DROP MATERIALIZED VIEW x"],
        ["CREATE MATERIALIZED VIEW x AS SELECT 1 AS a", "--refresh", "manual"],
        ["CREATE MATERIALIZED VIEW x AS SELECT 1 AS a", "--policy", "full"],
        ["CREATE MATERIALIZED VIEW x AS"],
    ):
        refused = headwater("mv", "create", *words, "--project", shop.root)
        assert refused.code == 2, words
    assert "CREATE MATERIALIZED VIEW" in headwater("mv", "create", "totals", "--project", shop.root).err
