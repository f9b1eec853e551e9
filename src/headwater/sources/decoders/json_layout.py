"""Whether a JSON text has an object a line, or objects that span lines, or an array of them. Files and appends ask."""

from __future__ import annotations

import json
import re

BEGINNING = 1 << 16
"""So many bytes of a text say how it is laid out."""

_ARRAY = re.compile(r"\[\s*(?:[{\]]|$)")
_DECODER = json.JSONDecoder()


def is_by_line(beginning: bytes) -> bool:
    """Told by how a text begins: with an array of objects, with an object that ends on another line, or else by line.

    A line that is broken is no reason to read the others otherwise.
    """
    text = beginning[:BEGINNING].decode("utf-8", "ignore").removeprefix("\ufeff").lstrip()
    if _ARRAY.match(text):
        return False
    line = re.split(r"[\r\n]", text, maxsplit=1)[0]
    if line.rstrip() == "{" and len(line) < len(text):
        return False
    if not line.startswith("{") or len(line) == len(text):
        return True
    try:
        _, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return True
    return end <= len(line)
