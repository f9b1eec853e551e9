"""A lake that is being restored from a backup is none until that is over: a mark in it, and one in the project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from headwater.core.errors import Code, TerminalError
from headwater.core.private_files import create_private, make_private
from headwater.core.storage import Files

_FILE = "restore.json"
_IN_LAKE = f"_headwater/{_FILE}"


def require_restored(files: Files, home: str) -> None:
    """Refuse a lake whose restoring was cut off. A store is not asked: the mark in the project tells."""
    if found := restored_from(files, home):
        raise TerminalError(
            Code.RESTORE_UNFINISHED,
            f"the lake {files.root} is only partly restored",
            hint=f"restore it again: headwater restore {quote(found[0])}",
        )


def restored_from(files: Files, home: str) -> tuple[str, Sequence[str]] | None:
    """The backup that is being restored, and the folders of the lake that were not there before."""
    text = _read(Path(home) / _FILE)
    if text is None and files.is_local:
        text = files.find(_IN_LAKE)
    if text is None:
        return None
    try:
        told = json.loads(text)
        return str(told["from"]), [str(each) for each in told["folders"]]
    except (ValueError, KeyError, TypeError):
        return "SRC", []  # cut off while it was written: nothing else was


def begin_restore(files: Files, home: str, source: str, folders: Sequence[str]) -> None:
    told = json.dumps({"from": source, "folders": list(folders)})
    make_private(Path(home))
    create_private(Path(home) / _FILE)
    (Path(home) / _FILE).write_text(told, encoding="utf-8")
    files.write_atomic(_IN_LAKE, told)


def end_restore(files: Files, home: str) -> None:
    (Path(home) / _FILE).unlink(missing_ok=True)
    files.delete(_IN_LAKE)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
