"""Headwater: a streaming lakehouse on Spark.

`Lake.open(".")` is where to begin; docs/python.md has the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.api.lake import Lake
    from headwater.core.errors import HeadwaterError
    from headwater.ingest.code.event import Event
    from headwater.project.decorators import filter, mapper, transform, upcaster
    from headwater.project.load.python import Project

_HOMES = {
    "Event": "headwater.ingest.code.event",
    "HeadwaterError": "headwater.core.errors",
    "Lake": "headwater.api.lake",
    "Project": "headwater.project.load.python",
    "filter": "headwater.project.decorators",
    "mapper": "headwater.project.decorators",
    "transform": "headwater.project.decorators",
    "upcaster": "headwater.project.decorators",
}

__all__ = ["Event", "HeadwaterError", "Lake", "Project", "filter", "mapper", "transform", "upcaster"]


def __getattr__(name: str) -> Any:
    """What users import from here is loaded on first use, so that a command starts quickly."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headwater' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
