"""Decorators for the project's `code:`. They only register: the function comes back unchanged."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

Role = Literal["mapper", "upcaster", "filter", "transform"]
OutputMode = Literal["append", "update"]


@dataclass(frozen=True)
class Registered:
    """A function of the project's code and what it is there for."""

    role: Role
    name: str
    function: Callable[..., Any]
    file: str
    line: int
    group: str = ""
    """Mappers: what a topic's `mappers` names; the file's name by default."""
    events: tuple[str, ...] = ()
    """Mappers and upcasters: the event types; none is the default for all others."""
    from_version: int | None = None
    schema: str | type | None = None
    """Mappers and upcasters: the fields that they give, as `id bigint, name string` or a class with annotations."""
    streaming: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Transforms: parameters that are not named after what they take, and what that is: `topic('clicks')`."""
    changes: tuple[str, ...] = ()
    """Streaming transforms: parameters that get signed changes."""
    output_mode: OutputMode | None = None


_collected: ContextVar[list[Registered] | None] = ContextVar("headwater_collected", default=None)


@contextmanager
def collecting() -> Iterator[list[Registered]]:
    """While this is open, decorated functions are noted in the list it gives."""
    found: list[Registered] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


@overload
def mapper(event: F, /) -> F: ...
@overload
def mapper(
    event: str, /, *more: str, group: str | None = None, schema: str | type | None = None
) -> Callable[[F], F]: ...
@overload
def mapper(*, group: str | None = None, schema: str | type | None = None) -> Callable[[F], F]: ...
def mapper(event: Any = None, /, *more: str, group: str | None = None, schema: str | type | None = None) -> Any:
    """From an event to a row: `@mapper("OrderPlaced")`; without a type, for all events that have no other.

    How it runs is told by the annotation of its parameter: `headwater.Event` or none, by Column expressions;
    `dict`, one event at a time; `pyarrow.RecordBatch` or `pandas.DataFrame`, many at once.
    """
    if callable(event):
        return _note(event, "mapper", group=group)
    events = () if event is None else (event, *more)
    return lambda function: _note(function, "mapper", events=events, group=group, schema=schema)


def upcaster(event: str, /, *, from_version: int, schema: str | type | None = None) -> Callable[[F], F]:
    """Lifts an event of an old version by one: `@upcaster("OrderPlaced", from_version=1)`.

    It gives the fields that change: as Column expressions, or from the payload as a `dict`.
    """
    return lambda function: _note(function, "upcaster", events=(event,), from_version=from_version, schema=schema)


@overload
def filter(name: F, /) -> F: ...
@overload
def filter(name: str | None = None, /) -> Callable[[F], F]: ...
def filter(name: Any = None, /) -> Any:
    """A condition that a topic's `filter` can name: from a `headwater.Event` to a Column."""
    if callable(name):
        return _note(name, "filter")
    return lambda function: _note(function, "filter", name=name)


@overload
def transform(name: F, /) -> F: ...
@overload
def transform(
    name: str | None = None,
    /,
    *,
    streaming: bool = False,
    inputs: Mapping[str, str] | None = None,
    changes: Sequence[str] = (),
    output_mode: OutputMode | None = None,
) -> Callable[[F], F]: ...
def transform(
    name: Any = None,
    /,
    *,
    streaming: bool = False,
    inputs: Mapping[str, str] | None = None,
    changes: Sequence[str] = (),
    output_mode: OutputMode | None = None,
) -> Any:
    """From DataFrames to a DataFrame, for a table's `transform`; parameters are named after topics and tables.

    `streaming` runs it as a streaming query. `inputs` says what a parameter takes that is named otherwise; the
    parameters in `changes` get signed changes; `output_mode` is Spark's, by default `update` for a table with keys.
    """
    if callable(name):
        return _note(name, "transform")
    return lambda function: _note(
        function,
        "transform",
        name=name,
        streaming=streaming,
        inputs=dict(inputs or {}),
        changes=(changes,) if isinstance(changes, str) else tuple(changes),
        output_mode=output_mode,
    )


def _note(
    function: F,
    role: Role,
    *,
    name: str | None = None,
    events: tuple[str, ...] = (),
    group: str | None = None,
    from_version: int | None = None,
    schema: str | type | None = None,
    streaming: bool = False,
    inputs: Mapping[str, str] | None = None,
    changes: tuple[str, ...] = (),
    output_mode: OutputMode | None = None,
) -> F:
    collected = _collected.get()
    if collected is not None:
        code = getattr(inspect.unwrap(function), "__code__", None)
        file = code.co_filename if code else "?"
        collected.append(
            Registered(
                role=role,
                name=name or str(getattr(function, "__name__", role)),
                function=function,
                file=file,
                line=code.co_firstlineno if code else 0,
                group=(group or Path(file).stem) if role == "mapper" else "",
                events=events,
                from_version=from_version,
                schema=schema,
                streaming=streaming,
                inputs=inputs or {},
                changes=changes,
                output_mode=output_mode,
            )
        )
    return function
