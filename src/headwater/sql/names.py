"""How SQL names the relations of a lake."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.model import Kind
from headwater.sql.places import Span

FUNCTIONS = {"topic": Kind.TOPIC, "table": Kind.TABLE, "mv": Kind.VIEW}
DATABASES = {kind.plural: kind for kind in Kind}

SYSTEM = "system"
"""The schema of what the lake tells of its own work."""

Moment = int | datetime | str
"""A version, a time, or the label of a named snapshot."""


@dataclass(frozen=True)
class Between:
    """The ends of `changes('x', start, end)`: what came after the one, up to and with the other."""

    start: Moment | None
    """None: from nothing."""
    end: Moment | None
    """None: up to the latest version."""


@dataclass(frozen=True)
class Reference:
    """A relation as it is named; `kind` is None for a bare name."""

    name: str
    kind: Kind | None = None
    driving: bool = False
    """Inside `stream(…)`."""
    temporal: bool = False
    """Looked up `FOR SYSTEM_TIME AS OF` a column."""
    latest: bool = False
    """Looked up `FOR SYSTEM_TIME AS OF PROCTIME()`: as it is when the step reads it."""
    foreign: bool = False
    """A name that none of the lake's relations can have: `lake.sales.orders`."""
    system: bool = False
    """A table of the schema `system`."""
    line: int | None = None
    changes: Between | None = None
    """Its signed changes are read, `changes('x', …)`, and not its rows."""
    span: Span | None = field(default=None, compare=False, repr=False)
    """Where the text names it."""

    def __str__(self) -> str:
        if self.system:
            return f"{SYSTEM}.{self.name}"
        if self.kind is None:
            return self.name
        function = next(name for name, kind in FUNCTIONS.items() if kind is self.kind)
        return f"{function}('{self.name}')"


def resolve(reference: Reference, known: Mapping[Kind, Collection[str]]) -> Kind:
    """The kind of relation that a reference means; UNKNOWN_REFERENCE if there is none or more than one."""
    if reference.system:
        raise UsageError(
            Code.UNKNOWN_REFERENCE,
            f"{reference} can't be used here: it has no versions, so queries alone read it",
        )
    if reference.foreign:
        raise UsageError(
            Code.UNKNOWN_REFERENCE,
            f"'{reference.name}' is not in this lake",
            hint="a source of type `table` ingests somebody else's table",
        )
    if reference.kind is not None:
        if reference.name in known[reference.kind]:
            return reference.kind
        raise _unknown(reference, known, reference.kind)
    kinds = [kind for kind in Kind if reference.name in known[kind]]
    if len(kinds) == 1:
        return kinds[0]
    if not kinds:
        raise _unknown(reference, known, None)
    choices = " or ".join(str(Reference(reference.name, kind)) for kind in kinds)
    raise UsageError(Code.UNKNOWN_REFERENCE, f"'{reference.name}' is not unique", hint=f"write {choices}")


def _unknown(reference: Reference, known: Mapping[Kind, Collection[str]], kind: Kind | None) -> UsageError:
    elsewhere = [Reference(reference.name, other) for other in Kind if reference.name in known[other]]
    if elsewhere:
        hint = f"did you mean {elsewhere[0]}?"
    else:
        hint = did_you_mean(
            reference.name, known[kind] if kind else {name for names in known.values() for name in names}
        )
    what = kind.value if kind else "topic, table or view"
    return UsageError(Code.UNKNOWN_REFERENCE, f"there is no {what} '{reference.name}'", hint=hint)
