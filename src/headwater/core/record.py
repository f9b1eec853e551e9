"""What the Python API gives back: frozen data that people look at, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from html import escape
from typing import Any, cast

LONGEST = 200
"""Characters of a value that a notebook shows."""


class Record:
    """What frozen dataclasses of the API have in common."""

    def to_dict(self) -> dict[str, object]:
        """Its fields by name, as commands print them with `--json`."""
        return {f.name.rstrip("_"): plain(getattr(self, f.name)) for f in fields(cast(Any, self))}

    def _repr_html_(self) -> str:
        """Its fields one below the other: what a notebook shows."""
        return html_record(type(self).__name__, self.to_dict())


def plain(value: object) -> object:
    """A value whose records are dicts and whose tuples are lists, however deep they lie."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def html_record(title: str, record: Mapping[str, object]) -> str:
    """One thing with its properties, for a notebook."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{_cell(value)}</td></tr>'
        for name, value in record.items()
    )
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def html_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]], *, note: str = "") -> str:
    """Like things below each other, for a notebook; `note` stands under them."""
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in columns)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{_cell(row.get(name))}</td>' for name in columns) + "</tr>"
        for row in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def _cell(value: object) -> str:
    text = _text(value)
    return escape(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        at = value.astimezone(timezone.utc).replace(tzinfo=None) if value.tzinfo else value
        return at.isoformat(" ", timespec="auto" if at.microsecond else "seconds")
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:LONGEST]).decode("utf-8", errors="backslashreplace")
    if isinstance(value, (list, tuple)):
        if all(isinstance(one, Mapping) for one in value):
            return "\n".join(map(_text, value))
        return ", ".join(map(_text, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
    return str(value)
