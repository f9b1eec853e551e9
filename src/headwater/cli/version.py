"""Which release this is."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version


def version_line(arguments: Sequence[str]) -> str:
    """Which release this is: `headwater 0.1.0`."""
    number = version("headwater")
    return f'{{"version": "{number}"}}' if "--json" in arguments else f"headwater {number}"
