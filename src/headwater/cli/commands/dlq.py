"""`headwater dlq`: events that could not be ingested."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.dead_letters import show_letters
from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, note_cut, print_json, show_record, show_records
from headwater.core.errors import Code, UsageError

app = typer.Typer(help="Dead letters: events that could not be ingested.", no_args_is_help=True)

Topic = Annotated[str | None, typer.Option("--topic", help="Only this topic's, or a table's: tables.x.")]
Reason = Annotated[
    str | None, typer.Option("--reason", help="Only those of a reason: decode, schema, mapper, too_large, late, …")
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this one; a prefix of its id is enough.")]


SHOWN = 100
"""How many dead letters are listed if nothing else is said."""


@lake_command(app, "list", served=True)
def list_(
    common: Common,
    topic: Topic = None,
    reason: Reason = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help=f"How many, newest first; {SHOWN} if not given.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """List dead letters, newest first, one per line, with a hint for each kind of failure."""
    if all_ and limit is not None:
        raise UsageError(Code.USAGE, "give --limit or --all, not both")
    most = None if all_ else limit or SHOWN
    with common.look() as lake:
        found = lake.dead_letters(topic, None if most is None else most + 1, reason).to_dicts()
    shown = found[:most]
    if common.as_json:
        print_json(shown)
    elif not shown:
        note("no dead letters")
    else:
        show_letters(shown)
    if len(found) > len(shown):
        note_cut(
            len(shown), f"the newest {len(shown)} of more; --all or a larger --limit shows them", as_json=common.as_json
        )


@lake_command(app, served=True)
def show(
    common: Common,
    id: Annotated[str, typer.Argument(help="Its id, or a prefix of it.")],
) -> None:
    """Show one dead letter: its reason, its source and its bytes."""
    with common.look() as lake:
        found = lake.dead_letter(id)
    show_record(found.to_dict(), as_json=common.as_json)


@lake_command(app, served=True)
def replay(
    common: Common,
    topic: Annotated[str | None, typer.Argument(help="The topic, or tables.x; all by default.")] = None,
    ids: Ids = None,
    reason: Reason = None,
) -> None:
    """Replay dead letters through today's pipeline; those that pass are removed from the list."""
    with common.open() as lake:
        done = lake.replay_dead_letters(topic, ids=ids or (), reason=reason)
    columns = ["topic", "tried", "came_through", "rows", "still_dead"]
    show_records(done.to_dicts(), columns, as_json=common.as_json, empty="no dead letters")


@lake_command(app, served=True)
def drop(
    common: Common,
    topic: Annotated[str | None, typer.Argument(help="The topic.")] = None,
    ids: Ids = None,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
) -> None:
    """Delete dead letters for good."""
    if topic is None and not ids and reason is None:
        raise UsageError(Code.USAGE, "say which: a topic, --id or --reason")
    if not yes:
        raise UsageError(Code.USAGE, "dropped dead letters can't be restored", hint="say so with --yes")
    with common.open() as lake:
        dropped = lake.drop_dead_letters(topic, ids=ids or (), reason=reason)
    show_record({"dropped": dropped}, as_json=common.as_json)
