"""What a source needs at its other end before it is read at its best: SQL that is shown first, and run when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from headwater.core.errors import Code, UsageError
from headwater.core.registry import Registry
from headwater.sources.base import SourceSpec


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


Preparer = Callable[[SourceSpec, str], Preparation]
"""Of a source and the project's name."""

PREPARERS: Registry[Preparer] = Registry("type of source", "headwater.preparers", Code.UNSUPPORTED)


def preparation(spec: SourceSpec, project: str) -> Preparation:
    """What a source needs; an error where its type needs nothing."""
    if spec.type not in PREPARERS.names():
        raise UsageError(
            Code.UNSUPPORTED,
            f"sources.{spec.name} is of type {spec.type}, and there is nothing to prepare for it",
            where=spec.where,
            hint=f"it is for: {', '.join(PREPARERS.names())}",
        )
    return PREPARERS.get(spec.type)(spec, project)


def _late(module: str) -> Preparer:
    def preparer(spec: SourceSpec, project: str) -> Preparation:
        found: Preparation = import_module(f"headwater.sources.{module}").preparation(spec, project)
        return found

    return preparer


PREPARERS.add("postgres_events", _late("postgres.events.setup"))
PREPARERS.add("postgres_cdc", _late("postgres.cdc.setup"))
