"""The lake of a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.cli.output import warn

if TYPE_CHECKING:
    from headwater.api.lake import Lake  # loaded when a command runs: help is printed without it


def open_lake(project: Path, target: str | None = None, *, quick: bool = True) -> Lake:
    """The lake of the project; `quick`: for a command that ends soon, whose Spark starts in half the time."""
    from headwater.api.lake import Lake

    return Lake.open(project, target, quick=quick)


def look(project: Path, target: str | None) -> Lake:
    """The lake of a command that only looks: where the project's files have mistakes, it says so and goes on."""
    from headwater.api.lake import Lake

    lake = Lake.look(project, target)
    if problems := lake.project.problems:
        more = "" if len(problems) == 1 else f" (and {len(problems) - 1} more)"
        warn(f"the project file is wrong, `headwater check` shows all of it: {problems[0]}{more}")
    return lake
