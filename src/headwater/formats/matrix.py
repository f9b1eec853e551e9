"""What each format can do, as a table: `headwater formats` prints it, the docs embed it."""

from __future__ import annotations

from typing import Any

from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS

CODECS = ("none", "snappy", "gzip", "lz4", "zstd", "brotli")


def capability_matrix() -> list[dict[str, Any]]:
    """A row per capability and codec, a column per format."""
    formats = list(FORMATS)
    rows: list[dict[str, Any]] = [{"capability": c.value, **{f.name: f.can(c) for f in formats}} for c in Capability]
    rows += [{"capability": f"{codec} compression", **{f.name: codec in f.codecs for f in formats}} for codec in CODECS]
    return rows


def matrix_markdown() -> str:
    """The same as a page of docs has it, with the reasons for what is missing and what to mind."""
    rows = capability_matrix()
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    lines += ["| " + " | ".join(_cell(row[name]) for name in names) + " |" for row in rows]
    for format in FORMATS:
        lines += ["", f"**{format.title}** widens {_widenings(format.widenings)}.", ""]
        for capability, note in format.notes.items():
            lines.append(f"- {'' if format.can(capability) else 'no '}*{capability.value}*: {note}")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else "✔" if value else "–"


def _widenings(pairs: frozenset[tuple[str, str]]) -> str:
    return ", ".join(f"{old} → {new}" for old, new in sorted(pairs)) or "no types"
