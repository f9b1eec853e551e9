"""`headwater restore`: a lake is made of a backup."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, print_json, show_records
from headwater.core.units import readable_size

Source = Annotated[str, typer.Argument(metavar="SRC", help="The folder of a backup: a path, or s3://bucket/folder.")]


def register(app: typer.Typer) -> None:
    @lake_command(app)
    def restore(common: Common, source: Source) -> None:
        """Restore a backup as the project's lake, which must not exist yet."""
        from headwater.api.lake import Lake

        done = Lake.restore(source, common.project, common.target)
        if common.as_json:
            print_json(done.to_dict())
            return
        columns = ["relation", "format", "version", "epoch", "step"]
        show_records([each.to_dict() for each in done.relations], columns, as_json=False, empty="no relations yet")
        taken = done.taken_at.isoformat(" ", "seconds")
        note(f"{done.warehouse}: {done.files} files, {readable_size(done.bytes)}, as of {taken}")
