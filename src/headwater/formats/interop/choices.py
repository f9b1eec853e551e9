"""Which formats' files can be read as tables of which other formats."""

from __future__ import annotations

from headwater.formats.base import Format
from headwater.formats.registry import FORMATS


def refusal(source: Format, target: Format) -> str | None:
    """Why a relation's files can't be read as a table of another format; None if they can."""
    if source.name == target.name:
        return f"it is {source.title} already"
    if source.shared is None:
        return f"the files of {source.title} can't be read as another format's: {source.not_shared}"
    if target.interop is None:
        return f"{target.title} can't take over the files of another format: {target.not_interop}"
    return None


def possible_targets(source: Format) -> list[str]:
    """The formats that a relation's files can be read as."""
    return [target.name for target in FORMATS if refusal(source, target) is None]
