"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.served import here

ProjectPath = Annotated[Path, typer.Option("--project", callback=here, help="The project file or a folder below it.")]
Target = Annotated[str | None, typer.Option("--target", help="The target whose overrides apply.")]
