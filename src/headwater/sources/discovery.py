"""The seam for `headwater init --from ADDRESS`: what a type of source makes of an address, by looking there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FoundColumn:
    """A column that is known without reading records."""

    name: str
    type: str
    """As its own home calls it."""


@dataclass(frozen=True)
class Discovered:
    """A source that an address leads to, as a project file will have it."""

    name: str
    """Of the source and of its topic."""
    keys: Mapping[str, Any]
    """The source's keys, the type first. Secrets stand as `${VARIABLE}`; a local path is absolute."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """What to say alongside a key."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What the variables in the keys stand for: to read now, and never written anywhere."""
    sampled_by: Mapping[str, Any] = field(default_factory=dict)
    """Keys with which only a little is read, for a look."""
    topic: Mapping[str, Any] = field(default_factory=dict)
    """What its topic has alongside `from`."""
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tables that go with it."""
    columns: Sequence[FoundColumn] | None = None
    """None: the records have to be looked at."""
    before: Sequence[str] = ()
    """Commands of Headwater to run before the first run."""
