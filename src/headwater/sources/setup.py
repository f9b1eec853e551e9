"""What a source needs at its other end before it is read at its best: SQL that is shown first, and run when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """One statement; to run it again changes nothing."""

    sql: str
    why: str
    done: bool = False
    """It is as it should be already."""


@dataclass(frozen=True)
class Preparation:
    """What there is to do, and what to know of it."""

    statements: Sequence[Statement]
    run: Callable[[], None]
    """Do what is not done yet."""
    notes: Sequence[str] = ()
