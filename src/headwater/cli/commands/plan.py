"""`headwater plan`: what a run would do to the lake, before anything happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from headwater.api.lake import Lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, show_records


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)


def plan(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Say what would be created, changed and rebuilt, why, and how much that reads. Changes nothing."""
    with Lake.open(project, target) as lake:
        found = lake.plan()
    shown = (
        found if as_json else [{**one, "why": "; ".join(one["why"]), "reads": _reads(one["reads"])} for one in found]
    )
    show_records(
        found if as_json else shown,
        ["relation", "action", "why", "reads"],
        as_json=as_json,
        empty="the lake is as the project says",
    )
    refused = [one["relation"] for one in found if one["needs_apply"]]
    if refused and not as_json:
        note(f"{', '.join(refused)}: only `headwater run --apply` does that")


def _reads(reads: list[dict[str, Any]]) -> str:
    return ", ".join(one["name"] + ("" if one["bytes"] is None else f" ({_size(one['bytes'])})") for one in reads)


def _size(size: int) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}"
        size //= 1000
    raise AssertionError
