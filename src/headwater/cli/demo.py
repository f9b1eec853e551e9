"""`headwater demo`: a small lake made before your eyes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.output import AsJson, note, print_json, print_line, show_records
from headwater.lake import Lake
from headwater.project.templates import write_project

DEMO = Path("headwater-demo")
MARKER = ".demo"
"""Says that a folder was made by this command, and may be made anew."""
PER_TYPE = """
    SELECT event_type, count(*) AS events, min(event_timestamp) AS first, max(event_timestamp) AS last
    FROM topic('orders') GROUP BY event_type ORDER BY events DESC
"""


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put the demo project.")] = DEMO,
    as_json: AsJson = False,
) -> None:
    """Make a small shop's lake from files of events, query it, and say what to try next."""
    if (folder / MARKER).exists():
        shutil.rmtree(folder)  # an earlier demo's, made by this command
    write_project(folder, "shop")
    (folder / MARKER).touch()
    note(f"1. a project in {folder}/: headwater.yml, and files of events in landing/")
    with Lake.open(folder) as lake:
        note("2. starting Spark, and taking the files into topic 'orders' …")
        reports = lake.run(once=True)
        for report in reports:
            if report.error is not None:
                raise report.error
            note(f"   {report.flow}: {report.rows} rows in {report.steps} step(s), {report.rejected} dead letter(s)")
        note("3. asking: " + " ".join(PER_TYPE.split()))
        result = lake.sql(PER_TYPE)
        rows = result.rows()
        if as_json:
            print_json(
                {
                    "flows": [{"flow": r.flow, "rows": r.rows, "rejected": r.rejected} for r in reports],
                    "rows": rows,
                }
            )
            return
        show_records(rows, result.columns, as_json=False)
    print_line("")
    for line in _next(folder):
        print_line(line)


def _next(folder: Path) -> list[str]:
    bin = Path(sys.executable).parent
    path = [] if shutil.which("headwater") else [f"  export PATH={bin}:$PATH"]
    return [
        "What to try next:",
        *path,
        f"  cd {folder}",
        "  headwater topic describe orders",
        "  headwater topic history orders",
        "  headwater query \"SELECT * FROM topic('orders') LIMIT 5\"",
        "  headwater run        # keeps taking in what lands in landing/, until Ctrl-C",
    ]
