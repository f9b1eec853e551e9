"""`headwater check`: everything that is wrong with a project, at once."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, described, note, print_json, print_problem
from headwater.project.check import all_notes, all_problems
from headwater.project.load.loader import examine


def register(app: typer.Typer) -> None:
    app.command("check")(check)


def check(project: ProjectPath = Path(), target: Target = None, as_json: AsJson = False) -> None:
    """Report every mistake in the project. Exit 0 if there is none, 2 otherwise."""
    built = examine(project, target)
    problems = all_problems(built)
    notes = [] if built.project is None else all_notes(built.project)
    if as_json:
        print_json(
            {
                "project": None if built.project is None else built.project.name,
                "ok": not problems,
                "problems": [{"level": "error", **described(each)} for each in problems],
                "notes": [{"level": "note", **described(each)} for each in notes],
            }
        )
    else:
        for each in problems:
            print_problem(each, "error")
        for each in notes:
            print_problem(each, "note")
        note(_summary(len(problems), len(notes)))
    if problems:
        raise typer.Exit(2)


def _summary(problems: int, notes: int) -> str:
    wrong = "1 problem" if problems == 1 else f"{problems} problems" if problems else "the project is fine"
    later = "" if not notes else f", {notes} note{'s' * (notes > 1)}"
    return wrong + later
