"""Headwater: a streaming lakehouse on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.decorators import filter, mapper, transform, upcaster
    from headwater.ingest.event import Event
    from headwater.lake import Lake
    from headwater.project.python import Project

_HOMES = {
    "Event": "headwater.ingest.event",
    "Lake": "headwater.lake",
    "Project": "headwater.project.python",
    "filter": "headwater.decorators",
    "mapper": "headwater.decorators",
    "transform": "headwater.decorators",
    "upcaster": "headwater.decorators",
}

__all__ = ["Event", "Lake", "Project", "filter", "mapper", "transform", "upcaster"]


def __getattr__(name: str) -> Any:
    """What users import from here is loaded on first use, so that a command starts quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
