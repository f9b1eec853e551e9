"""`headwater completion`: commands, options and names completed by the shell."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from headwater.cli.completion.shells import SCRIPTS, install, shell_of
from headwater.cli.output import AsJson, note, print_json, print_line


def register(app: typer.Typer) -> None:
    app.command("completion")(completion)


def completion(
    shell: Annotated[str | None, typer.Argument(metavar="[bash|zsh|fish]", help="The shell; yours by default.")] = None,
    install_: Annotated[bool, typer.Option("--install", help="Install it for your shell.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print or install shell completion for commands, options and names (bash, zsh, fish)."""
    name = shell_of(shell)
    if not install_:
        if as_json:
            print_json({"shell": name, "script": SCRIPTS[name]})
        else:
            sys.stdout.write(SCRIPTS[name])
        return
    files = [str(file) for file in install(name)]
    if as_json:
        print_json({"shell": name, "files": files})
        return
    for file in files:
        print_line(file)
    note(f"a new {name} completes `headwater` from now on")
