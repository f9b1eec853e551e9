"""A test of the fast tier that starts Java fails, however it starts it; other tiers take what is theirs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiers import SIZES

ROOT = Path(__file__).parents[2]
TESTS = """\
import subprocess, sys
import pytest

START = "import subprocess; from headwater.spark.java import find_java; subprocess.run([find_java().home / 'bin/java'])"

def test_in_this_process():
    exec(START)

def test_in_a_process_of_its_own():
    subprocess.run([sys.executable, "-c", START], check=False)

def test_by_the_door_of_a_spark_that_runs():
    from headwater.spark import session
    with pytest.raises(RuntimeError, match="has started Spark"):
        session._join(None, None, None)

def test_without():
    pass

@pytest.mark.spark
def test_marked():
    from headwater.spark.java import find_java
    assert "no-java" not in str(find_java().home)

@pytest.fixture
def spark():
    pass

def test_by_fixture(spark):
    pass

@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.full)])
def test_of_two(n):
    pass
"""


def ran(folder: Path, *arguments: str) -> tuple[list[str], str]:
    """What has passed, and what was printed."""
    (folder / "test_some.py").write_text(f"import headwater.spark.session\n{TESTS}", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  spark\n  full\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.tiers", "-p", "no:cacheprovider", "-v", *arguments]
    env = {"PYTHONPATH": str(ROOT), "PATH": ""}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    passed = [line.split("::")[1].split()[0] for line in done.stdout.splitlines() if " PASSED " in line]
    return passed, done.stdout + done.stderr


def test_a_fast_test_never_starts_java(tmp_path: Path) -> None:
    passed, said = ran(tmp_path, "--tier", "fast")
    assert passed == ["test_without", "test_of_two[1]"], said
    assert said.count("this test has started Java, and neither uses a fixture that does nor is marked `spark`") == 3
    assert "3 failed, 2 passed, 3 deselected" in said, said


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ([], ["test_marked", "test_by_fixture", "test_of_two[1]"]),
        (["--tier", "full"], ["test_marked", "test_by_fixture", "test_of_two[1]", "test_of_two[2]"]),
        (["test_some.py::test_of_two[2]"], ["test_of_two[2]"]),
    ],
    ids=["default", "full", "named"],
)
def test_what_each_tier_takes(arguments: list[str], more: list[str], tmp_path: Path) -> None:
    passed, said = ran(tmp_path, *arguments)
    assert [one for one in passed if one != "test_without"] == more, said


def test_contributing_says_how_large_each_tier_is() -> None:
    """A line for each size that `scaled` gives, and a run that fails repeats it."""
    called = [
        call
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "scaled"
    ]
    sizes = {
        (ast.literal_eval(call.args[0]), *(f"{ast.literal_eval(word.value):g}" for word in call.keywords))
        for call in called
    }
    lines = re.findall(
        r"^\| `(HEADWATER_\w+)` \| .+ \| ([\d.]+) \| ([\d.]+) \|$",
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    assert sizes == set(lines)
    assert {name for name, *_ in lines} == set(SIZES)
