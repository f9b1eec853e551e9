"""What `make demo` shows when it is stopped, or where it can't keep what it fetches: a sentence, never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headwater.core.errors import UsageError
from headwater.spark import connectors
from tests.hints.followed import follows

DEMO = (str(Path(sys.executable).parent / "headwater"), "demo")


def demo(folder: Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        DEMO,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "line", ["1. a project in", "2. the morning", pytest.param("   topics.", marks=pytest.mark.full)]
)
def test_ctrl_c_ends_it_and_leaves_no_process(tmp_path: Path, line: str) -> None:
    running = demo(tmp_path)
    assert running.stderr is not None
    said: list[str] = []
    for told in running.stderr:
        said.append(told)
        if told.startswith(line):
            break
    started = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(signal.SIGINT)
    out, rest = running.communicate(timeout=120)
    told = "".join([*said, rest, out])
    assert running.returncode == 130, told
    assert "Traceback" not in told and "Error" not in rest, told
    _, alive = psutil.wait_procs(started, timeout=60)
    assert alive == [], told


def test_what_libraries_log_of_an_end_is_not_shown(tmp_path: Path) -> None:
    program = (
        "from headwater.cli.app import execute; execute(['demo', '--help']); import logging; logging.error('gone')"
    )
    shown = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Usage" in shown.stdout and shown.stderr == ""


def test_a_file_where_its_folder_would_be(tmp_path: Path) -> None:
    (tmp_path / "headwater-demo").write_text("in the way", encoding="utf-8")
    running = demo(tmp_path)
    out, err = running.communicate(timeout=120)
    assert running.returncode != 0 and "Traceback" not in out + err
    assert "ALREADY_EXISTS" in err and "headwater-demo already exists" in err


@follows("set {} to a folder of yours")
def test_a_user_without_a_home_has_a_cache_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HEADWATER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connectors.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(Path, "home", nowhere)
    folder = connectors.cache_folder()
    assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(connectors.os, "getuid", lambda: int(folder.name.rpartition("-")[2]))
    assert connectors.cache_folder() == folder
    theirs = tmp_path / "headwater-cache-54321"
    theirs.mkdir()
    monkeypatch.setattr(connectors.os, "getuid", lambda: 54321)
    with pytest.raises(UsageError, match="is somebody else's"):
        connectors.cache_folder()
    monkeypatch.setenv("HEADWATER_CACHE", str(tmp_path / "mine"))
    assert connectors.cache_folder() == tmp_path / "mine"
