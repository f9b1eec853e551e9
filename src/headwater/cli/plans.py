"""A plan as people read it: relation by relation what has changed, as a difference of texts, and what comes of that."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from headwater.cli.style import has_colour, style_of, styled
from headwater.cli.values import json_text, on_one_line, visible
from headwater.core.units import readable_size

SHORT = 40
"""Characters of a value that is shown on the line of its key."""
AROUND = 3
"""Lines of an unchanged text that are shown around a change."""
_MARKS = {"+": "green", "-": "red", "@": "cyan"}


def plan_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What a run would do, and below it how much of what."""
    colour = has_colour(sys.stdout)
    longest = max((len(one["action"]) for one in found), default=0)
    for number, one in enumerate(found):
        if number:
            yield ""
        action, name = one["action"], styled(one["relation"], "bold", colour=colour)
        yield f"{styled(action, style_of('action', action), colour=colour)}{' ' * (longest - len(action))}  {name}"
        for line, style in _about(one):
            yield styled(f"  {line}", style, colour=colour)
    yield ""
    yield _sum(found)


def _about(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Lines with their styles."""
    differences = one["differences"]
    for each in differences:
        yield from _difference(one["relation"], each)
    for why in one["why"]:
        if not any(why.startswith(f"{each['key']}: ") for each in differences):
            yield on_one_line(why), ""
    if one["reads"]:
        yield f"reads {', '.join(map(_read, one['reads']))}", ""
    if one["downstream"]:
        yield f"downstream: {', '.join(one['downstream'])}", ""


def _difference(relation: str, difference: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    key, before, after = difference["key"], difference["before"], difference["after"]
    effect = difference["effect"] + ("" if difference["because"] is None else f": {difference['because']}")
    old, new = _text(before), _text(after)
    if max(len(old), len(new)) <= SHORT and "\n" not in old + new:
        yield f"{key}: {on_one_line(old)} → {on_one_line(new)} ({effect})", ""
        return
    yield f"{key}: {on_one_line(effect)}", ""
    heads = (f"{relation}.{key} in the lake", f"{relation}.{key} in the project")
    for line in unified_diff(_lines(before), _lines(after), *heads, n=AROUND, lineterm=""):
        yield "  " + visible(line).rstrip("\n"), _MARKS.get(line[:1], "")


def _text(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    return value if isinstance(value, str) else json_text(value)


def _lines(value: Any) -> list[str]:
    """A text by its lines, anything else by its parts; nothing has none."""
    if value is None or value == [] or value == {}:
        return []
    return (value if isinstance(value, str) else json_text(value, indent=2)).strip("\n").splitlines()


def _read(one: Mapping[str, Any]) -> str:
    return str(one["name"]) + ("" if one["bytes"] is None else f" (at most {readable_size(one['bytes'])})")


def _sum(found: Sequence[Mapping[str, Any]]) -> str:
    """`1 to create, 2 to rebuild`."""
    counts: dict[str, int] = {}
    for one in found:
        counts[one["action"]] = counts.get(one["action"], 0) + 1
    return ", ".join(f"{count} to {action}" for action, count in counts.items())
