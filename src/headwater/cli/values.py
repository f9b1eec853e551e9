"""Values as text: for people, in tables, and for programs, in JSON."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from headwater.core.units import readable_size

_SPOKEN_TO_TERMINALS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters, of which escape sequences are made, but for tabs and ends of lines; and those that turn the
direction of what follows."""
_SHORT_BYTES = 16
"""Bytes of a binary value that a table shows."""


def visible(text: str) -> str:
    """A text whose characters are shown by a terminal, and not obeyed: `\\x1b` for what begins an escape sequence."""
    return _SPOKEN_TO_TERMINALS.sub(_spelled, text)


def on_one_line(text: str) -> str:
    """The same, where an end of a line would break a row of a table."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _spelled(match: re.Match[str]) -> str:
    number = ord(match[0])
    return "\\r" if number == 13 else f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def shown(value: Any) -> str:
    """A value as people read it in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return short_bytes(bytes(value))
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    if isinstance(value, (Mapping, list, tuple)):
        return json_text(value)
    return str(plain(value))


def shown_as(key: str, value: Any) -> str:
    """A value of a record of ours, whose names say what it is: a moment (`at`, `watermark`), a size (`bytes`)."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_inside(str(name), inner)}" for name, inner in value.items())
    if isinstance(value, str) and (key in ("at", "watermark") or key.endswith("_at")):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return value
        return time_text(moment) if moment.tzinfo else value
    if isinstance(value, int) and not isinstance(value, bool) and "bytes" in key.split("_"):
        return readable_size(value)
    return shown(value)


def _inside(key: str, value: Any) -> str:
    """A value in a mapping, where nothing would look like a slip."""
    if value is None or value == "":
        return "none"
    text = shown_as(key, value)
    return f"{{{text}}}" if isinstance(value, Mapping) else text


def time_text(moment: datetime) -> str:
    """The one style of times: `2026-10-17 12:30:00Z`, with as much of the second as there is. `--at` takes it, too."""
    found = in_utc(moment).replace(tzinfo=None)
    exact = "seconds" if not found.microsecond else "microseconds" if found.microsecond % 1000 else "milliseconds"
    return found.isoformat(" ", exact) + "Z"


def short_bytes(value: bytes) -> str:
    """The beginning of a binary value, in hex, and how long it is."""
    if len(value) <= _SHORT_BYTES:
        return f"0x{value.hex()}" if value else ""
    return f"0x{value[: _SHORT_BYTES // 2].hex()}… ({readable_size(len(value))})"


def in_utc(value: datetime) -> datetime:
    """One without a zone is what Spark's Python side gives: in that of this machine."""
    return (value if value.tzinfo else value.astimezone()).astimezone(timezone.utc)


# --- for programs


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


def plain(value: Any) -> Any:
    """A value as JSON has it: times in ISO 8601 and UTC, decimals as text, bytes in base 64."""
    if isinstance(value, datetime):
        return in_utc(value).isoformat().replace("+00:00", "Z")
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
