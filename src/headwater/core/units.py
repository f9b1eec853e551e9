"""Durations (`30s`, `1h 30m`), sizes (`128MB`), shares (`10%`) and windows (`22:00-04:00`) as people write them."""

from __future__ import annotations

import re
from datetime import time, timedelta
from fractions import Fraction

_MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_WORDS = {
    "us": ("microsecond", "microseconds"),
    "ms": ("millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "m": ("min", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
    "w": ("week", "weeks"),
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in (unit, *words)}
_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])i?b?|(b))?\s*", re.IGNORECASE)

DURATION_FORM = "a number and a unit: 500ms, 30s, 5m, 6h, 7d, 5 minutes"
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(%)?\s*")
_WINDOW = re.compile(r"\s*(\d{1,2}):(\d\d)\s*[-–]\s*(\d{1,2}):(\d\d)\s*")

SIZE_FORM = "a number of bytes, or with a unit: 64KB, 128MB, 1GB"
SHARE_FORM = "a number between 0 and 1, or a percentage: 0.1, 10%"
WINDOW_FORM = "two times of the day, in UTC: 01:00-05:00"


def parse_duration(text: str) -> timedelta:
    """`1h 30m` → 90 minutes. A bare number is refused: nobody knows of what."""
    total = Fraction(0)
    end = 0
    for part in _PART.finditer(text):
        number, word = part.groups()
        unit = _UNIT_OF.get(word.lower())
        if part.start() != end or unit is None:
            break
        total += Fraction(number) * _MICROSECONDS[unit]
        end = part.end()
    if end == 0 or text[end:].strip():
        raise ValueError(f"'{text}' is not a duration; write {DURATION_FORM}")
    try:
        return timedelta(microseconds=round(total))
    except OverflowError:
        raise ValueError(f"'{text}' is too long a duration") from None


def format_duration(duration: timedelta) -> str:
    """The shortest exact form: `90m` rather than `5400s`. Reading it gives the same duration back."""
    microseconds = (duration.days * 86_400 + duration.seconds) * 1_000_000 + duration.microseconds
    if microseconds < 0:
        raise ValueError("a duration is not negative")
    for unit in ("d", "h", "m", "s", "ms"):
        if microseconds % _MICROSECONDS[unit] == 0:
            return f"{microseconds // _MICROSECONDS[unit]}{unit}" if microseconds else "0s"
    return f"{microseconds}us"


def parse_size(text: str) -> int:
    """`128MB` → bytes. KB, MB, GB are powers of 1024, as Spark and Parquet take them."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a size; write {SIZE_FORM}")
    number, unit, _ = match.groups()
    return round(Fraction(number) * _BYTES[(unit or "b").lower()])


def format_size(size: int) -> str:
    """The largest unit that is exact: `128MB`. Reading it gives the same size back."""
    if size < 0:
        raise ValueError("a size is not negative")
    for unit in ("t", "g", "m", "k"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit.upper()}B"
    return f"{size}B"


def readable_size(size: int) -> str:
    """About so much, for people: `1.2 MB`, in the units of `parse_size`."""
    if size < 1024:
        return f"{size} B"
    units = ["KB", "MB", "GB", "TB"]
    amount, unit = size / 1024, units.pop(0)
    while amount >= 999.5 and units:
        amount, unit = amount / 1024, units.pop(0)
    return f"{amount:.{0 if amount >= 99.95 else 1}f} {unit}"


def parse_share(text: str) -> float:
    """`10%` → 0.1."""
    match = _SHARE.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a share; write {SHARE_FORM}")
    number, percent = match.groups()
    return float(Fraction(number) / (100 if percent else 1))


def parse_window(text: str) -> tuple[time, time]:
    """`22:00-04:00` → from ten in the evening to four in the morning; 24:00 is midnight."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a window; write {WINDOW_FORM}")
    hour, minute, end_hour, end_minute = map(int, match.groups())
    start, end = _time_of_day(hour, minute), _time_of_day(end_hour, end_minute)
    if start == end:
        raise ValueError(f"'{text}' begins when it ends; leave `window` out for any time")
    return start, end


def _time_of_day(hour: int, minute: int) -> time:
    if hour > 24 or minute > 59 or (hour == 24 and minute):
        raise ValueError(f"{hour:02}:{minute:02} is no time of the day; write {WINDOW_FORM}")
    return time(hour % 24, minute)
