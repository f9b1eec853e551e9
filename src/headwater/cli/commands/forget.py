"""`headwater forget`: rows are erased from a topic and everything that was made of them, and proved to be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, print_json, show_record, show_records
from headwater.core.errors import Code, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headwater.api.lake import Lake
    from headwater.operations.erasure.receipt import ErasureReceipt
    from headwater.operations.erasure.search import Holding, UndecodedFile

SHOWN = 20
"""Files that are listed; `--json` has all."""


def register(app: typer.Typer) -> None:
    lake_command(app, "forget", served=True)(forget)


def forget(
    common: Common,
    topic: Annotated[str, typer.Argument(help="The topic.")],
    where: Annotated[str, typer.Option("--where", help="Which rows: \"customer_id = 'c7'\".")],
    check: Annotated[
        bool, typer.Option("--check", help="Only decode every file of the lake, and say which hold the values.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be erased.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it also if all rows meet the condition, or versions with labels go.")
    ] = False,
) -> None:
    """Erase rows from a topic, its past and all that was made of them, and prove that they are gone."""
    if check and (dry_run or yes):
        raise UsageError(Code.USAGE, "--check changes nothing: give it alone, without --dry-run and --yes")
    with common.open() as lake:
        clean = _check(lake, topic, where, common) if check else _forget(lake, topic, where, common, dry_run, yes)
    if not clean:
        raise typer.Exit(1)


def _check(lake: Lake, topic: str, where: str, common: Common) -> bool:
    found = lake.topic(topic).check_forgotten(where)
    if common.as_json:
        print_json(found.to_dict())
        return found.clean
    if found.by_condition_only:
        note("the condition compares no column with a value: only files with its columns could be looked through")
    for path in found.kept_conditions:
        note(f"{path} keeps the condition with its values, so that they are not let in again")
    _show_held(found.held)
    _show_undecoded(found.undecoded)
    if found.clean:
        note(f"{found.files} files were decoded, and none holds the values")
    return found.clean


def _forget(lake: Lake, topic: str, where: str, common: Common, dry_run: bool, yes: bool) -> bool:
    done = lake.topic(topic).forget(where, dry_run=dry_run, yes=yes)
    if common.as_json:
        print_json(done.to_dict())
    else:
        _show_receipt(done)
    return dry_run or not done.held


def _show_receipt(done: ErasureReceipt) -> None:
    if not (done.rows or done.dead_letters or done.relations or done.done):
        note(f"no row of topic '{done.topic}' meets the condition, and no file of its holds the values: nothing to do")
        _show_held(done.held)
        return
    record = done.to_dict()
    relations = [{**one.to_dict(), "labels": ", ".join(one.labels)} for one in done.relations]
    shown = ("topic", "rows", "rows_before", "dead_letters", "files_checked")
    show_record({name: record[name] for name in shown}, as_json=False)
    show_records(
        relations,
        ["name", "rows_found", "rows_removed", "versions_expired", "files_deleted", "labels"],
        as_json=False,
        empty="no relation holds it",
    )
    for copy in done.exports:
        note(f"the copy {copy.export} at {copy.destination}: {copy.outcome}{f' ({copy.error})' if copy.error else ''}")
    if done.legible:
        note("the condition is kept with its values, so that ingest can leave such rows out: see docs/erasure.md")
    _show_held(done.held)
    _show_undecoded(done.undecoded)
    note("the rows are gone, and are not let in again" if done.done else "nothing was changed")


def _show_held(held: Sequence[Holding]) -> None:
    for one in held[:SHOWN]:
        where = f" ({', '.join(one.columns)})" if one.columns else ""
        note(f"{one.path}{where} holds it: {one.records} records" if one.records else f"{one.path} is named after it")
    if len(held) > SHOWN:
        note(f"and {len(held) - SHOWN} more files: --json lists them")


def _show_undecoded(files: Sequence[UndecodedFile]) -> None:
    for one in files[:SHOWN]:
        note(f"{one.path} could not be decoded, so what it holds can't be told: {one.reason}")
    if len(files) > SHOWN:
        note(f"and {len(files) - SHOWN} more files: --json lists them")
