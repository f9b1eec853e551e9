"""The options that commands share, and `lake_command`, which gives them to a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from headwater.cli.output import AsJson
from headwater.cli.served import here, warm

if TYPE_CHECKING:
    from headwater.api.lake import Lake

P = ParamSpec("P")

ProjectPath = Annotated[Path, typer.Option("--project", callback=here, help="The project file or a folder below it.")]
Target = Annotated[str | None, typer.Option("--target", help="The target whose overrides apply.")]

Flows = Annotated[list[str] | None, typer.Argument(help="The flows: orders, tag:x, +orders, orders+; all by default.")]
Select = Annotated[list[str] | None, typer.Option("--select", help="The same, as an option; can be repeated.")]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Leave these out; can be repeated.")]


@dataclass(frozen=True)
class Common:
    """What every command about a lake is told: which lake, and whether a program reads the answer."""

    project: Path
    target: str | None
    as_json: bool

    def look(self) -> Lake:
        """The lake of a command that only looks: mistakes in the project's files are a warning."""
        from headwater.cli.lakes import look  # with what opens a lake, which `--help` does without

        return look(self.project, self.target)

    def open(self) -> Lake:
        """The lake of a command that does something."""
        from headwater.cli.lakes import open_lake

        return open_lake(self.project, self.target)


_SHARED = (
    Parameter("project", Parameter.KEYWORD_ONLY, default=Path(), annotation=ProjectPath),
    Parameter("target", Parameter.KEYWORD_ONLY, default=None, annotation=Target),
    Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=AsJson),
)


def lake_command(
    app: typer.Typer, name: str | None = None, *, served: bool = False
) -> Callable[[Callable[Concatenate[Common, P], None]], Callable[..., None]]:
    """Make a function a command with `--project`, `--target` and `--json`, which it takes as its first parameter;
    `served`: a runner that is up answers it."""

    def decorate(act: Callable[Concatenate[Common, P], None]) -> Callable[..., None]:
        @wraps(act)
        def command(*, project: Path, target: str | None, as_json: bool, **options: Any) -> None:
            act(Common(project, target, as_json), **options)  # type: ignore[call-arg]

        own = list(inspect.signature(act, eval_str=True).parameters.values())[1:]
        parameters = [*(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own), *_SHARED]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name)(warm(command) if served else command)
        return command

    return decorate
