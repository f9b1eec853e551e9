"""Draws the pipeline for the README: `python tools/draw_pipeline.py` writes docs/pipeline-light.svg and -dark.svg.

A picture of boxes and arrows needs no library, and is the same to the byte wherever it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
WIDTH, HEIGHT = 880, 300


@dataclass(frozen=True)
class Theme:
    """The colours of one picture."""

    name: str
    text: str
    quiet: str
    line: str
    fills: Sequence[str]
    """Of sources, topics, tables, views, and what reads them."""


THEMES = (
    Theme("light", "#1f2328", "#59636e", "#8c959f", ("#f6f8fa", "#fdf1e3", "#eef1f4", "#fff8d6", "#ddf4ff")),
    Theme("dark", "#e6edf3", "#9198a1", "#6e7681", ("#161b22", "#3a2a1a", "#262c36", "#3b3310", "#0c2d4b")),
)


@dataclass(frozen=True)
class Box:
    """A step of the way, left to right."""

    x: int
    width: int
    title: str
    lines: Sequence[str]
    note: str = ""
    """What happens on the way into it."""


BOXES = (
    Box(
        10,
        138,
        "Sources",
        ("files", "Kafka", "Postgres events", "Postgres changes", "tables of others", "your program"),
    ),
    Box(200, 130, "Topics", ("every event,", "as it came", "", "immutable,", "replayable"), "exactly once"),
    Box(384, 130, "Tables", ("cleaned, joined,", "checked", "", "current state,", "or its history"), "step by step"),
    Box(568, 130, "Views", ("materialized,", "always equal", "to their query"), "only what changed"),
    Box(752, 118, "Read", ("SQL", "Python", "Spark", "any reader of", "the format")),
)
TOP, BOTTOM = 44, 214
LAKE = (186, 710)
TITLE = "Sources flow into topics, tables and views of a lake; SQL, Python and Spark read them"
FORMATS = "Delta Lake · Apache Iceberg · Apache Hudi · Apache Paimon · plain Parquet"


def draw(theme: Theme) -> str:
    """The picture, as SVG."""
    left, right = LAKE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title" font-family="system-ui, -apple-system, Segoe UI, sans-serif">',
        f'<title id="title">{TITLE}</title>',
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 8 4 0 8z" fill="{theme.line}"/></marker></defs>',
        f'<rect x="{left}" y="14" width="{right - left}" height="252" rx="12" fill="none" stroke="{theme.line}" '
        'stroke-dasharray="5 5"/>',
        _text(theme, (left + right) // 2, 34, "the lake", size=13, quiet=True),
        _text(theme, (left + right) // 2, 252, FORMATS, size=13, quiet=True),
    ]
    for box, fill in zip(BOXES, theme.fills, strict=True):
        parts += _box(theme, box, fill)
    for before, after in pairwise(BOXES):
        parts.append(_arrow(theme, before.x + before.width, after.x))
    parts += _dead_letters(theme)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _box(theme: Theme, box: Box, fill: str) -> list[str]:
    middle = box.x + box.width // 2
    parts = [
        f'<rect x="{box.x}" y="{TOP}" width="{box.width}" height="{BOTTOM - TOP}" rx="8" fill="{fill}" '
        f'stroke="{theme.line}"/>',
        _text(theme, middle, TOP + 26, box.title, size=17, bold=True),
    ]
    parts += [_text(theme, middle, TOP + 52 + 19 * n, line, size=14) for n, line in enumerate(box.lines) if line]
    if box.note:
        parts.append(_text(theme, middle, BOTTOM + 18, box.note, size=12, quiet=True))
    return parts


def _arrow(theme: Theme, start: int, end: int) -> str:
    y = (TOP + BOTTOM) // 2
    return (
        f'<line x1="{start + 4}" y1="{y}" x2="{end - 4}" y2="{y}" stroke="{theme.line}" stroke-width="2" '
        'marker-end="url(#tip)"/>'
    )


def _dead_letters(theme: Theme) -> list[str]:
    x, y = BOXES[0].x + BOXES[0].width // 2, HEIGHT - 14
    said = "what can't be read is a dead letter: kept with its reason, and replayed"
    return [
        f'<path d="M{x} {BOTTOM + 4} V{y} H{LAKE[0] + 4}" fill="none" stroke="{theme.line}" stroke-width="1.5" '
        'stroke-dasharray="3 4" marker-end="url(#tip)"/>',
        _text(theme, LAKE[0] + 14, y + 4, said, size=13, quiet=True, at="start"),
    ]


def _text(
    theme: Theme, x: int, y: int, text: str, *, size: int, bold: bool = False, quiet: bool = False, at: str = "middle"
) -> str:
    weight = ' font-weight="600"' if bold else ""
    colour = theme.quiet if quiet else theme.text
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{at}" fill="{colour}"{weight}>{escape(text)}</text>'


def pictures() -> dict[Path, str]:
    """Every picture by the file that it belongs into."""
    return {DOCS / f"pipeline-{theme.name}.svg": draw(theme) for theme in THEMES}


if __name__ == "__main__":
    for file, picture in pictures().items():
        file.write_text(picture, encoding="utf-8")
        print(file)
