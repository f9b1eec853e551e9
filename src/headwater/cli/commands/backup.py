"""`headwater backup`: a copy of the lake, taken while it is in use."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, print_json, show_records
from headwater.core.units import readable_size

Destination = Annotated[str, typer.Argument(metavar="DEST", help="An empty folder: a path, or s3://bucket/folder.")]
MetadataOnly = Annotated[bool, typer.Option("--metadata-only", help="Without the data files of tables.")]


def register(app: typer.Typer) -> None:
    @lake_command(app)
    def backup(common: Common, destination: Destination, metadata_only: MetadataOnly = False) -> None:
        """Back up the lake with its state, catalog and ledger, while runners keep running."""
        with common.open() as lake:
            done = lake.backup(destination, metadata_only=metadata_only)
        if common.as_json:
            print_json(done.to_dict())
            return
        columns = ["relation", "format", "version", "epoch", "step"]
        show_records([each.to_dict() for each in done.relations], columns, as_json=False, empty="no relations yet")
        without = ", without data files" if metadata_only else ""
        note(f"{done.path}: {done.files} files, {readable_size(done.bytes)}{without}")
