"""The one place where commands render: tables for people, JSON for programs, errors for both.

Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.core.errors import HeadwaterError, Problem

if TYPE_CHECKING:
    from rich.console import Console  # loaded where something is printed for people: programs wait for less

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_SPOKEN_TO_TERMINALS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, of which escape sequences are made, but for tabs and ends of lines; and those that turn the
direction of what follows."""
_WIDE = 400
"""Columns of a table that goes to a file or program."""


def console() -> Console:
    """Where results are printed, as wide as whoever reads them."""
    from rich.console import Console

    return Console(width=getattr(sys.stdout, "columns", None) if sys.stdout.isatty() else _WIDE)


def visible(text: str) -> str:
    """A text whose characters are shown by a terminal, and not obeyed: `\\x1b` for what begins an escape sequence."""
    return _SPOKEN_TO_TERMINALS.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    number = ord(match[0])
    return "\\r" if number == 13 else f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def show_records(
    records: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str = "nothing"
) -> None:
    """A list of like things: a table, or a JSON array."""
    if as_json:
        print_json(list(records))
        return
    if not records:
        note(empty)
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(escape(visible(name)), overflow="fold", justify="right" if _numeric(records, name) else "left")
    for record in records:
        table.add_row(*(escape(visible(shown(record.get(name)))) for name in columns))
    console().print(table)


def show_record(record: Mapping[str, Any], *, as_json: bool) -> None:
    """One thing with its properties."""
    if as_json:
        print_json(record)
        return
    from rich.markup import escape
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for key, value in record.items():
        grid.add_row(f"[bold]{escape(visible(key))}[/]", escape(visible(shown(value))))
    console().print(grid)


def show_described(found: dict[str, Any], *lists: tuple[str, Sequence[str], str | None], as_json: bool) -> None:
    """One thing with its properties, and the lists among them as tables: name, columns, heading if it needs one."""
    if as_json:
        print_json(found)
        return
    parts = [(found.pop(name), columns, heading) for name, columns, heading in lists]
    show_record(found, as_json=False)
    for records, columns, heading in parts:
        if heading is not None:
            note(heading)
        show_records(records, columns, as_json=False, empty="none yet")


COLUMNS = ("columns", ["name", "type"], None)
"""A relation's columns, as `show_described` takes a list."""


def print_json(value: Any) -> None:
    sys.stdout.write(json_text(value, indent=2) + "\n")
    sys.stdout.flush()


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON that every program reads, whatever is in it."""
    try:
        text = json.dumps(value, default=plain, indent=indent, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError):
        text = json.dumps(_with_words(value), default=plain, indent=indent, ensure_ascii=False)
    # JSON escapes the others itself, and in it they stand in texts alone.
    return _SPOKEN_TO_TERMINALS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _with_words(value: Any) -> Any:
    """JSON has no NaN and no infinity, and keys are texts: their names stand for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else shown(key): _with_words(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_words(inner) for inner in value]
    return value


def print_line(text: str) -> None:
    """A line of an answer for people."""
    sys.stdout.write(visible(text) + "\n")


def note_cut(shown: int, message: str, *, as_json: bool) -> None:
    """Say that a list was cut, and how to get the rest; the list itself stays a list, so it goes to standard error."""
    if as_json:
        sys.stderr.write(json.dumps({"cut": {"shown": shown, "message": message}}) + "\n")
    else:
        note(message)


def note(text: str) -> None:
    """Something to know that is not the result."""
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, soft_wrap=True).print(escape(visible(text)))


def show_error(error: HeadwaterError, *, as_json: bool) -> None:
    if as_json:
        sys.stderr.write(json.dumps({"errors": [described(p) for p in error.problems]}, indent=2) + "\n")
        return
    from rich.console import Console
    from rich.markup import escape

    for problem in error.problems:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]error[/] {escape(visible(str(problem)))}")
        if problem.excerpt is not None:
            Console(stderr=True, soft_wrap=True, highlight=False).print(escape(visible(problem.excerpt)))


def described(problem: Problem) -> dict[str, Any]:
    """A problem as programs read it."""
    where = problem.where
    return {
        "code": str(problem.code),
        "message": problem.message,
        "file": where and where.file,
        "line": where and where.line,
        "path": where and where.path,
        "hint": problem.hint,
        **({} if problem.excerpt is None else {"column": where and where.column, "excerpt": problem.excerpt}),
    }


def plain(value: Any) -> Any:
    """A value as JSON has it: times in ISO 8601 and UTC, decimals as text, bytes in base 64."""
    if isinstance(value, datetime):
        return (
            (value if value.tzinfo else value.astimezone()).astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
        )
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    return str(value)


def shown(value: Any) -> str:
    """A value as people read it in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.astimezone()
        return aware.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S") + (
            f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
        )
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, default=plain, ensure_ascii=False)
    return str(plain(value))


def _numeric(records: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [record.get(name) for record in records]
    return all(
        value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)) for value in values
    )
