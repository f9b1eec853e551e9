"""`headwater plan`: what a run would do to the lake, before anything happens."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.lakes import open_lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, print_json, print_lines
from headwater.cli.plans import plan_lines


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)


def plan(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Show what a run would create, change and rebuild, why, and how much it reads. Changes nothing."""
    with open_lake(project, target) as lake:
        found = lake.plan()
    if as_json:
        print_json(found.to_dicts())
    elif found:
        print_lines(plan_lines(found.to_dicts()))
    else:
        note("the lake is as the project says")
    for command in dict.fromkeys(one.applied_by for one in found if one.applied_by and not as_json):
        concerned = [one for one in found if one.applied_by == command]
        names = ", ".join(one.relation for one in concerned)
        if concerned[0].needs_apply:
            note(f"{names}: only `{command}` does that")
        else:
            note(f"{names}: `{command}` has the runner that is up take it up")
