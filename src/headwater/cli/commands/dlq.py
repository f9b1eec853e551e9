"""`headwater dlq`: events that could not be taken in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headwater.api.lake import Lake
from headwater.cli.options import ProjectPath, Target
from headwater.cli.output import AsJson, note_cut, show_record, show_records
from headwater.cli.served import warm
from headwater.core.errors import Code, UsageError

app = typer.Typer(help="Dead letters: events that could not be taken in.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option("--topic", help="Only this topic's, or a table's: tables.x.")]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Only those of a reason: decode, schema, mapper, too_large, late, …")
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this one; the beginning of its id will do.")]


SHOWN = 100
"""How many dead letters are listed if nothing else is said."""


@app.command("list")
@warm
def list_(
    topic: Topic = None,
    reason: Reason = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help=f"How many, newest first; {SHOWN} if not given.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first."""
    if all_ and limit is not None:
        raise UsageError(Code.USAGE, "give --limit or --all, not both")
    most = None if all_ else limit or SHOWN
    with Lake.open(project, target) as lake:
        found = lake.dead_letters(topic, None if most is None else most + 1, reason)
    shown = found[:most]
    if not as_json:
        shown = [{**letter, "id": letter["id"][:12]} for letter in shown]
    show_records(
        shown, ["id", "topic", "reason", "message", "position", "at"], as_json=as_json, empty="no dead letters"
    )
    if len(found) > len(shown):
        note_cut(len(shown), f"the newest {len(shown)} of more; --all or a larger --limit shows them", as_json=as_json)


@app.command()
@warm
def show(
    id: Annotated[str, typer.Argument(help="Its id, or the beginning of it.")],
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Show a dead letter whole: why, where from, and its bytes."""
    with Lake.open(project, target) as lake:
        found = lake.dead_letter(id)
    show_record({**found, **_bytes(found.pop("raw"))}, as_json=as_json)


@app.command()
@warm
def replay(
    topic: Annotated[str | None, typer.Argument(help="The topic, or tables.x; all with dead letters if unset.")] = None,
    ids: Ids = None,
    reason: Reason = None,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Run dead letters through today's pipeline; what comes through is no dead letter any more."""
    with Lake.open(project, target) as lake:
        done = lake.replay_dead_letters(topic, ids=ids or (), reason=reason)
    columns = ["topic", "tried", "came_through", "rows", "still_dead"]
    show_records(done, columns, as_json=as_json, empty="no dead letters")


@app.command()
@warm
def drop(
    topic: Annotated[str | None, typer.Argument(help="The topic.")] = None,
    ids: Ids = None,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    project: ProjectPath = Path(),
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Forget dead letters for good."""
    if topic is None and not ids and reason is None:
        raise UsageError(Code.USAGE, "say which: a topic, --id or --reason")
    if not yes:
        raise UsageError(Code.USAGE, "dead letters that are dropped are gone for good", hint="say so with --yes")
    with Lake.open(project, target) as lake:
        dropped = lake.drop_dead_letters(topic, ids=ids or (), reason=reason)
    show_record({"dropped": dropped}, as_json=as_json)


def _bytes(raw: Any) -> dict[str, Any]:
    """The bytes as text where they are text."""
    if raw is None:
        return {"raw": None, "encoding": None}
    try:
        return {"raw": bytes(raw).decode("utf-8"), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"raw": bytes(raw), "encoding": "base64"}
