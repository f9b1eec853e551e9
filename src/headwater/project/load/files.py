"""The files of a project: found, read, and joined into one tree."""

from __future__ import annotations

from pathlib import Path

from headwater.core.errors import Code, Problem, UsageError, Where

NAMES = ("headwater.yml", "headwater.yaml", "headwater.py")
HOME = ".headwater"
"""The folder next to the project file for what belongs to this machine."""


def find_project(start: Path | str = ".") -> Path:
    """The project file in a folder or above it; a file is taken as it is."""
    begin = Path(start).resolve()
    if begin.is_file():
        return begin
    if not begin.exists():
        raise UsageError(Code.PROJECT_NOT_FOUND, f"there is no file or folder {start}")
    for folder in (begin, *begin.parents):
        for name in NAMES:
            if (folder / name).is_file():
                return folder / name
    raise UsageError(
        Code.PROJECT_NOT_FOUND,
        f"no {NAMES[0]} in {begin} or above it",
        hint="go to the project's folder, give --project PATH, or begin one with `headwater init DIR`",
    )


def read_text(file: Path, name: str, problems: list[Problem]) -> str | None:
    """The text of a file; None, with the problem noted, if it can't be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problems.append(Problem(Code.INVALID_YAML, "the file is not UTF-8", Where(name, line)))
    except OSError as error:
        problems.append(Problem(Code.PROJECT_NOT_FOUND, f"can't be read: {error.strerror}", Where(name)))
    return None
