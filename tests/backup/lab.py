"""A project, its backups and what becomes of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.recovery.lab import Moving
from tests.support import Answer


def project_at(root: Path, original: Moving) -> Moving:
    """The project's files and sources somewhere else, without its lake and state."""
    shutil.copytree(original.root, root, ignore=shutil.ignore_patterns("lake", ".headwater", "run.err"))
    return Moving(root)


def back_up(project: Moving, target: Path | str, *options: str) -> dict[str, Any]:
    answer = project.do("backup", target, "--json", *options)
    assert answer.code == 0, answer.err
    found: dict[str, Any] = answer.json
    return found


def restore(project: Moving, source: Path | str) -> dict[str, Any]:
    answer = project.do("restore", source, "--json")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = answer.json
    return found


def refused(answer: Answer, code: str, *words: str) -> str:
    """A command was refused with a code, and its message has the words."""
    assert answer.code in (1, 2) and f"[{code}]" in answer.err, answer.err
    for word in words:
        assert word in answer.err, answer.err
    assert "Traceback" not in answer.err
    return answer.err


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "backup.json").read_text(encoding="utf-8"))
    return found


def rewrite(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / "backup.json").write_text(json.dumps(manifest), encoding="utf-8")
