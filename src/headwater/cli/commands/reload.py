"""`headwater reload`: a running runner takes up the project as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.api.lake import Lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, print_json, show_records
from headwater.cli.served import here, warm


def register(app: typer.Typer) -> None:
    app.command("reload")(warm(reload))


def reload(
    apply: Annotated[bool, typer.Option("--apply", help="Rebuild what the changes require.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Make the runner reload the changed project. Only new, changed and removed flows are affected."""
    done = Lake.reload(here(project), target, apply=apply)
    if as_json:
        print_json(done.to_dict())
        return
    changes = {"added": done.added, "changed": done.changed, "removed": done.removed}
    rows = [{"flow": flow, "change": change} for change, flows in changes.items() for flow in flows]
    show_records(rows, ["flow", "change"], as_json=False, empty="no flow is concerned")
