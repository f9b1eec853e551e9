"""`headwater maintain`: look after the lake's files now, or say what is due and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import grid_of, note, print_heading, print_json, print_lines, show_records, warn
from headwater.core.units import readable_size

if TYPE_CHECKING:
    from collections.abc import Mapping

_ACTION = ["relation", "action", "why", "files", "size", "deleted", "outcome"]
_HOLD = ["relation", "version", "holder"]


def register(app: typer.Typer) -> None:
    lake_command(app, served=True)(maintain)


def maintain(
    common: Common,
    names: Annotated[
        list[str] | None, typer.Argument(help="Which relations: orders, views.daily; all if unset.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is due, and who holds which version.")] = False,
) -> None:
    """Compact, cluster, expire and clean up what is due, and say why. Only `retain` removes rows."""
    with common.open() as lake:
        report = lake.maintain(names or (), dry_run=dry_run)
    found = report.to_dict()
    if common.as_json:
        print_json(found)
    else:
        rows = [_row(action.to_dict()) for action in report.actions]
        show_records(rows, _ACTION, as_json=False, empty="nothing is due")
        for action in report.actions:
            if action.error is not None:
                warn(f"{action.relation}: {action.action}: {action.error}")
        if dry_run and report.holds:
            print_heading("old versions that are needed")
            print_lines(grid_of([hold.to_dict() for hold in report.holds], _HOLD).lines())
        elif dry_run:
            note("no old version is needed by a flow, a label or an open query")
    if report.failed:
        raise typer.Exit(1)


def _row(action: Mapping[str, Any]) -> dict[str, Any]:
    partitions = "; ".join(", ".join(f"{k}={v}" for k, v in one.items()) for one in action["partitions"][:2])
    why = f"{action['rule']} ({partitions})" if partitions else action["rule"]
    deleted = action["deleted_files"]
    return {
        "relation": action["relation"],
        "action": action["action"],
        "why": why,
        "files": _change(action["files_before"], action["files_after"]),
        "size": _change(_size(action["bytes_before"]), _size(action["bytes_after"])),
        "deleted": _removed(action) or (f"{deleted} files, {_size(action['deleted_bytes'])}" if deleted else None),
        "outcome": action["outcome"],
    }


def _removed(action: Mapping[str, Any]) -> str | None:
    """What retention takes away."""
    kinds = {"rows": "rows", "dead_letters": "dead letters"}
    return f"{action['rows']} {kinds[action['action']]}" if action["action"] in kinds and action["rows"] else None


def _change(before: object, after: object) -> str | None:
    if before is None:
        return None
    return str(before) if after is None else f"{before} → {after}"


def _size(size: int | None) -> str | None:
    return None if size is None else readable_size(size)


def maintained(event: Mapping[str, Any]) -> str:
    """What maintenance has done, in a line of a run."""
    if event["error"] is not None:
        return f"maintenance could not {event['action']}: {event['error']}"
    row = _row(event)
    parts = [row["files"] and f"{row['files']} files", row["deleted"] and f"deleted {row['deleted']}"]
    return f"{event['action']}, because of {row['why']}: {', '.join(filter(None, parts)) or 'done'}"
