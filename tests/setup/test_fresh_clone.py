"""`make demo` in a fresh clone: as root in a folder that nobody else may enter, and as an ordinary user without a home,
in a path with a blank, without a terminal."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHONS = ("/usr/bin/python3.12", "/usr/bin/python3.11", "/usr/bin/python3.10")
"""Everybody can run them; a Python of root's home only root can."""

pytestmark = [pytest.mark.full, pytest.mark.spark]


@pytest.fixture
def clone() -> Iterator[Path]:
    """What is committed here, in a folder of its own."""
    place = Path(tempfile.mkdtemp(prefix="headwater-clone-", dir="/var/tmp")) / "a clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(place)], check=True)
    yield place
    shutil.rmtree(place.parent, ignore_errors=True)


def make_demo(clone: Path, user: str | None, **variables: str) -> subprocess.CompletedProcess[str]:
    python = next((path for path in PYTHONS if Path(path).exists()), None)
    if python is None:
        pytest.skip("no Python that every user can run")
    passed_on = {key: text for key, text in os.environ.items() if key.startswith(("PIP_", "UV_", "SSL_"))}
    environment = {**passed_on, "PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp", **variables}
    return subprocess.run(
        ["make", "demo", f"PYTHON={python}"],
        cwd=clone, env=environment, user=user, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


def check(made: subprocess.CompletedProcess[str]) -> None:
    told = made.stdout + made.stderr
    assert made.returncode == 0, told
    assert "Traceback" not in told and "left out" not in told, told
    assert "5 came a second time and are there once." in made.stdout
    assert "topic('customers_log')" in made.stdout, "a demo without its Postgres"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_as_root_where_nobody_else_may_enter(clone: Path) -> None:
    clone.parent.chmod(0o700)
    check(make_demo(clone, None, HOME=str(clone.parent / "home")))


def test_as_an_ordinary_user_without_a_home(clone: Path) -> None:
    user = None
    if os.geteuid() == 0:
        user = "nobody"
        owner = pwd.getpwnam(user).pw_uid
        for path in (clone, *clone.rglob("*")):
            os.chown(path, owner, -1, follow_symlinks=False)
        clone.parent.chmod(0o755)
    check(make_demo(clone, user))
