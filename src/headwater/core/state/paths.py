"""Paths as the state keeps them: relative to the warehouse or the project, so that both can be moved."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROJECT = "project:"
"""What a stored path begins with that lies in the project's folder and outside of the warehouse."""

_ABSOLUTE = re.compile(r"/|file:/|[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True)
class Roots:
    """The folders that stored paths start from."""

    warehouse: str
    project: str

    def stored(self, path: str | None) -> str | None:
        """`topics/orders` for what lies in the warehouse, `project:other/orders` alongside it, else the path as it
        is."""
        if path is None:
            return None
        inside = below(path, self.warehouse)
        if inside:
            return inside
        in_project = below(path, self.project)
        return f"{PROJECT}{in_project}" if in_project else path

    def resolved(self, stored: str | None) -> str | None:
        """The path that a stored one stands for; older releases have stored absolute ones."""
        if stored is None:
            return None
        if stored.startswith(PROJECT):
            return f"{self.project.rstrip('/')}/{stored.removeprefix(PROJECT)}"
        if is_absolute(stored):
            return stored
        return f"{self.warehouse.rstrip('/')}/{stored}"


def is_absolute(path: str) -> bool:
    """Whether a path says by itself where it is; one in the project's folder does not."""
    return _ABSOLUTE.match(path) is not None


def below(path: str, folder: str) -> str | None:
    """The rest of a path that lies in a folder."""
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None
