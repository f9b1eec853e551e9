"""What a function of the project's code takes and gives, read from its annotations: nothing is run."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from headwater.core.errors import Code, Problem, UsageError, Where
from headwater.core.quotes import backticked
from headwater.core.spec import Topic
from headwater.project.columns import declared_columns
from headwater.project.decorators import Registered
from headwater.project.load.code import shown


class Mode(Enum):
    """How a function is called."""

    COLUMN = "column"
    """Once, with an Event of Column expressions; the work is done in the JVM."""
    EVENT = "event"
    """In Python, for one event at a time, as a dict."""
    PANDAS = "pandas"
    """In Python, for many events at once, as a pandas DataFrame."""
    BATCH = "batch"
    """In Python, for many events at once, as an Arrow RecordBatch."""
    TABLE = "table"
    """In Python, for many events at once, as an Arrow Table."""


@dataclass(frozen=True)
class Signature:
    """How a function is called, and the fields that it says it gives: `id bigint, total decimal(12,2)`."""

    mode: Mode
    schema: str | None = None


_MODES = {"Event": Mode.COLUMN, "dict": Mode.EVENT, "DataFrame": Mode.PANDAS, "RecordBatch": Mode.BATCH}
_MODES["Table"] = Mode.TABLE
_HOMES = {"Event": "headwater.", "dict": "builtins", "DataFrame": "pandas.", "RecordBatch": "pyarrow."}
_HOMES["Table"] = "pyarrow."
_TAKES = "annotate the parameter with headwater.Event, dict, pandas.DataFrame or pyarrow.RecordBatch"
_DECLARE = 'declare it: schema="order_id string, total decimal(12,2)" in the decorator'

_PLAIN: dict[object, str] = {
    str: "string",
    int: "bigint",
    float: "double",
    bool: "boolean",
    bytes: "binary",
    Decimal: "decimal(38,18)",
    datetime: "timestamp",
    date: "date",
}


class _NotAType(Exception):
    """An annotation that no column can have."""


def signature_of(function: Registered) -> Signature:
    """How a function is to be called; INVALID_FUNCTION with its file, line and the hint."""
    parameter = _parameter(function)
    mode = _mode(function, parameter)
    if function.role == "filter" and mode is not Mode.COLUMN:
        raise _refused(function, "a filter works by Column expressions", "take a headwater.Event, give a Column")
    if function.role == "upcaster" and mode not in (Mode.COLUMN, Mode.EVENT):
        raise _refused(function, "an upcaster takes one event", "annotate the parameter with headwater.Event or dict")
    schema = _declared(function)
    if schema is None and mode is Mode.EVENT:
        schema = _returned(function)
    if schema is None and function.role == "mapper" and mode is not Mode.COLUMN:
        more = ", or annotate what it returns with a TypedDict, dataclass or NamedTuple" if mode is Mode.EVENT else ""
        raise _refused(function, "the types of its rows are not known", _DECLARE + more)
    return Signature(mode, schema)


def mappers_of(topic: Topic, functions: Sequence[Registered]) -> list[Registered]:
    """The mappers of a topic's groups; two for one event type are refused."""
    found = [f for f in functions if f.role == "mapper" and f.group in topic.mappers]
    first: dict[str | None, Registered] = {}
    for function in found:
        for event in function.events or (None,):
            other = first.setdefault(event, function)
            if other is not function:
                message = f"a second mapper for {event or 'all other events'} in topics.{topic.name}"
                at = code_location(other)
                hint = f"the groups '{other.group}' and '{function.group}' have one each; the other is at {at}"
                raise UsageError(Code.DUPLICATE_NAME, message, where=code_location(function), hint=hint)
    return found


def function_problems(functions: Sequence[Registered], topics: Sequence[Topic], root: Path) -> Iterator[Problem]:
    """What is wrong with the declarations of mappers, upcasters and filters."""
    for function in functions:
        if function.role != "transform":
            yield from _caught(signature_of, function, root=root)
    for topic in topics:
        yield from _caught(mappers_of, topic, functions, root=root)


def code_location(function: Registered) -> Where:
    """The line of a function, as messages name it."""
    return Where(shown(Path(function.file), Path.cwd()), function.line or None)


def _caught(look: Any, *arguments: Any, root: Path) -> Iterator[Problem]:
    try:
        look(*arguments)
    except UsageError as error:
        told = error.problem
        where = told.where and Where(shown(Path(told.where.file), root), told.where.line)
        yield Problem(told.code, told.message, where, told.hint)


def _refused(function: Registered, why: str, hint: str) -> UsageError:
    message = f"{function.role} '{function.name}': {why}"
    return UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint=hint)


def _parameter(function: Registered) -> inspect.Parameter:
    try:
        parameters = list(inspect.signature(function.function).parameters.values())
    except (TypeError, ValueError):
        raise _refused(function, "its parameters can't be read", "write it as a plain function") from None
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(needed) > 1 or not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
        raise _refused(function, "it should take one parameter, the event", _TAKES)
    return parameters[0]


def _mode(function: Registered, parameter: inspect.Parameter) -> Mode:
    given = parameter.annotation
    if given is parameter.empty:
        return Mode.COLUMN
    try:
        found = _resolved(given, function)
    except NameError:
        # Imported for type checkers only: the name says enough.
        bare = str(given).partition("[")[0].rpartition(".")[2]
        if bare not in _MODES:
            raise _refused(function, f"its parameter's annotation '{given}' can't be resolved", _TAKES) from None
        return _MODES[bare]
    if typing.is_typeddict(found):
        return Mode.EVENT
    found = typing.get_origin(found) or found
    name, module = getattr(found, "__name__", str(found)), getattr(found, "__module__", "")
    if name not in _MODES or not f"{module}.".startswith(_HOMES[name]):
        raise _refused(function, f"its parameter is annotated with '{name}'", _TAKES)
    return _MODES[name]


def _declared(function: Registered) -> str | None:
    if function.schema is None:
        return None
    if not isinstance(function.schema, str):
        return _fields(function, function.schema)
    try:
        declared_columns(function.schema)
    except UsageError as error:
        raise _refused(function, error.problem.message, error.problem.hint or _DECLARE) from None
    return function.schema


def _returned(function: Registered) -> str | None:
    given = inspect.signature(function.function).return_annotation
    if given is inspect.Signature.empty:
        return None
    try:
        found = _resolved(given, function)
    except NameError as error:
        raise _refused(function, f"what it returns can't be resolved: {error}", _DECLARE) from None
    return _fields(function, found) if _is_record(found) else None


def _fields(function: Registered, record: type) -> str:
    if not _is_record(record):
        raise _refused(function, f"{record!r} has no fields", "take a TypedDict, dataclass or NamedTuple")
    try:
        return ", ".join(f"{backticked(name)} {ddl}" for name, ddl in _record_types(record, _names_of(function)))
    except (_NotAType, NameError) as error:
        raise _refused(function, f"{record.__name__}: {error}", _DECLARE) from None


def _is_record(found: Any) -> bool:
    named_tuple = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    return typing.is_typeddict(found) or (isinstance(found, type) and dataclasses.is_dataclass(found)) or named_tuple


def _record_types(record: type, names: dict[str, Any]) -> Iterator[tuple[str, str]]:
    own = sys.modules.get(record.__module__)
    hints = typing.get_type_hints(record, {**names, **(vars(own) if own else {})}, include_extras=True)
    for name, hint in hints.items():
        try:
            yield name, _ddl(hint, names)
        except _NotAType as error:
            raise _NotAType(f"'{name}' is annotated with {error}") from None


def _ddl(hint: Any, names: dict[str, Any]) -> str:
    """A type as Spark writes it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(arguments, names)
    if getattr(origin, "_name", None) in ("Required", "NotRequired", "ReadOnly"):
        return _ddl(arguments[0], names)
    if origin in (typing.Union, types.UnionType):
        others = [one for one in arguments if one is not type(None)]
        if len(others) == 1:
            return _ddl(others[0], names)
    elif origin in (list, Sequence) and len(arguments) == 1:
        return f"array<{_ddl(arguments[0], names)}>"
    elif origin is dict and arguments[0] is str:
        return f"map<string, {_ddl(arguments[1], names)}>"
    elif hint in _PLAIN:
        return _PLAIN[hint]
    elif _is_record(hint):
        return f"struct<{', '.join(f'{backticked(name)}: {ddl}' for name, ddl in _record_types(hint, names))}>"
    raise _NotAType(getattr(hint, "__name__", None) if isinstance(hint, type) else str(hint))


def _annotated(arguments: tuple[Any, ...], names: dict[str, Any]) -> str:
    """`Annotated[Decimal, (12, 2)]` is decimal(12,2), `Annotated[int, "int"]` is what the text says."""
    for note in arguments[1:]:
        if isinstance(note, str):
            return note
        if arguments[0] is Decimal and isinstance(note, tuple) and len(note) == 2:
            return f"decimal({int(note[0])},{int(note[1])})"
    return _ddl(arguments[0], names)


def _resolved(annotation: Any, function: Registered) -> Any:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, _names_of(function), include_extras=True)["it"]


def _names_of(function: Registered) -> dict[str, Any]:
    found: dict[str, Any] = getattr(inspect.unwrap(function.function), "__globals__", {})
    return found
