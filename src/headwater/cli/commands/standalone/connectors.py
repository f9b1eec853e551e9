"""`headwater connectors`: the locked jars, what is in the cache, and fetching them ahead of the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.cli.lakes import open_lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note, show_records
from headwater.core.progress import byte_bar
from headwater.spark import connectors

app = typer.Typer(help="The jars that Spark needs for each format and source.", no_args_is_help=True)


@app.command()
def install(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which connectors; without names, those that the project uses.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every connector in the lock.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Fetch connectors into the cache and check every file against the lock."""
    lock = connectors.load_lock()
    if every:
        wanted = list(lock)
    elif names:
        wanted = names
    else:
        with open_lake(project, target) as lake:
            wanted = lake.connectors()
    with byte_bar("Fetching connectors") as progress:
        connectors.ensure(wanted, progress=progress, thorough=True, lock=lock)
    _show(connectors.select(wanted, lock), as_json)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the locked connectors and whether they are in the cache."""
    _show(list(connectors.load_lock().values()), as_json)


def _show(chosen: list[connectors.Connector], as_json: bool) -> None:
    if as_json:
        show_records([_described(one) for one in chosen], (), as_json=True)
        return
    rows = [
        {
            "connector": one.name,
            "what": one.about,
            "MB": round(one.size / 1e6, 1),
            "installed": _installed(one),
            "jars": [jar.coordinates.partition(":")[2] for jar in one.jars],
        }
        for one in chosen
    ]
    show_records(rows, ("connector", "what", "MB", "installed", "jars"), as_json=False)
    note(f"cache: {connectors.cache_folder()}")


def _installed(connector: connectors.Connector) -> bool:
    return all(connectors.is_ready(jar) for jar in connector.jars)


def _described(connector: connectors.Connector) -> dict[str, Any]:
    jars = [
        {
            "coordinates": jar.coordinates,
            "sha256": jar.sha256,
            "bytes": jar.size,
            "path": str(connectors.jar_path(jar)),
        }
        for jar in connector.jars
    ]
    return {
        "name": connector.name,
        "about": connector.about,
        "bytes": connector.size,
        "installed": _installed(connector),
        "jars": jars,
    }
