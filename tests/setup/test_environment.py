"""`tools/environment.py`, which `make` calls: what it says when something is in the way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What set-up needs of the project, in a folder with a blank in its name."""
    root = tmp_path / "a clone"
    for name in ("tools/environment.py", "requirements/uv.lock", "pyproject.toml", "Makefile"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "requirements/demo.lock").write_text(f"nothing==1.0 --hash=sha256:{'0' * 64}\n", encoding="utf-8")
    return root


NOBODY = """
import os, pwd, runpy, sys
def unknown(number):
    raise KeyError(number)
os.environ.pop("HOME", None)
pwd.getpwuid = unknown
sys.argv = ["tools/environment.py", "demo"]
runpy.run_path("tools/environment.py", run_name="__main__")
"""
"""As a user whom the machine does not know: `docker run --user 12345`."""


def set_up(root: Path, *program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("PIP_", "UV_"))}
    return subprocess.run(
        [sys.executable, *(program or ("tools/environment.py", "demo"))],
        cwd=root,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_registry_that_does_not_answer(clone: Path) -> None:
    nobody = "http://127.0.0.1:9/simple"
    made = set_up(clone, PIP_INDEX_URL=nobody, PIP_RETRIES="0", UV_HTTP_RETRIES="0", PIP_CONFIG_FILE=os.devnull)
    assert made.returncode == 1, made.stdout + made.stderr
    assert "error: the package registry does not answer" in made.stderr and "→" in made.stderr
    assert "Traceback" not in made.stdout + made.stderr
    assert made.stdout.startswith("Making .venv with Python")
    again = set_up(clone, PIP_INDEX_URL=nobody, PIP_RETRIES="0", UV_HTTP_RETRIES="0", PIP_CONFIG_FILE=os.devnull)
    assert again.returncode == 1 and "Making .venv" not in again.stdout


def test_a_full_disk_is_said_before_anything_is_fetched(clone: Path) -> None:
    script = clone / "tools" / "environment.py"
    lines = script.read_text(encoding="utf-8").replace("3_000_000_000", "3_000_000_000_000_000")
    script.write_text(lines, encoding="utf-8")
    made = set_up(clone)
    assert made.returncode == 1 and not (clone / ".venv").exists()
    assert made.stderr.startswith("error: no space: 3000000.0 GB are needed in ")


def test_a_folder_that_cannot_be_written(clone: Path) -> None:
    (clone / ".venv").write_text("in the way", encoding="utf-8")
    made = set_up(clone)
    assert made.returncode == 1, made.stdout
    assert made.stderr.startswith("error: can't make ") and "Traceback" not in made.stderr


def test_a_python_that_is_too_old(clone: Path, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "python3.7"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 3.7\n", encoding="utf-8")
    old.chmod(0o755)
    made = subprocess.run(
        ["make", "demo", f"PYTHON={old}"], cwd=clone, capture_output=True, text=True, check=False, timeout=60
    )
    assert made.returncode != 0
    assert f"Headwater needs Python 3.10, 3.11 or 3.12 ({old} is Python 3.7)." in made.stderr
    assert "make demo PYTHON=/path/to/python3.12" in made.stderr


def test_a_cache_of_packages_that_cannot_be_written_is_left_alone(clone: Path) -> None:
    (clone / "cache").write_text("in the way", encoding="utf-8")
    nobody = "http://127.0.0.1:9/simple"
    made = set_up(
        clone,
        UV_CACHE_DIR=str(clone / "cache" / "uv"),
        PIP_INDEX_URL=nobody,
        PIP_RETRIES="0",
        UV_HTTP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull,
    )
    assert f"{clone}/cache/uv can't be written: packages are kept in " in made.stdout
    assert made.returncode == 1 and "the package registry does not answer" in made.stderr
    assert "Traceback" not in made.stdout + made.stderr


def test_a_log_that_cannot_be_written_is_said(clone: Path) -> None:
    nobody = "http://127.0.0.1:9/simple"
    quiet = {"PIP_INDEX_URL": nobody, "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    set_up(clone, **quiet)
    (clone / ".venv" / "install.log").unlink()
    (clone / ".venv" / "install.log").mkdir()
    made = set_up(clone, **quiet)
    assert made.returncode == 1 and "Traceback" not in made.stdout + made.stderr
    assert made.stderr.startswith("error: ") and "install.log" in made.stderr


def test_a_user_whom_the_machine_does_not_know_has_no_home(clone: Path) -> None:
    nobody = "http://127.0.0.1:9/simple"
    quiet = {"PIP_INDEX_URL": nobody, "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    made = set_up(clone, "-c", NOBODY, **quiet)
    told = re.search(r"this user has no home: packages are kept in (\S+) meanwhile", made.stdout)
    assert told is not None and not Path(told[1]).exists()
    assert made.returncode == 1 and "the package registry does not answer" in made.stderr
    assert "Traceback" not in made.stdout + made.stderr
