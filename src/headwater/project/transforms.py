"""The `@transform` functions that make tables: what they take, read from their parameters. Nothing is run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.core.errors import Code, Problem, UsageError, Where, did_you_mean
from headwater.core.spec import Table
from headwater.project.decorators import Registered
from headwater.project.definition import ProjectDefinition
from headwater.project.load.code import shown

_HINT = "a parameter is named after the topic or table that it takes: def visits(clicks, customers)"
_MODES = ("append", "update")


def transform_of(project: ProjectDefinition, table: Table) -> Registered | None:
    """The function that makes a table; None where it is made otherwise, or there is no such function."""
    named = (f for f in project.functions if f.role == "transform" and f.name == table.transform)
    return next(named, None)


def streaming_tables(project: ProjectDefinition) -> dict[str, Registered]:
    """The tables that are kept by a streaming query, with its function."""
    found = {name: transform_of(project, table) for name, table in project.tables.items()}
    return {name: function for name, function in found.items() if function is not None and function.streaming}


def inputs_of(function: Registered, root: Path) -> Mapping[str, str]:
    """What each parameter takes, as a `from:` would name it; INVALID_FUNCTION with the function's line."""
    try:
        parameters = list(inspect.signature(function.function).parameters.values())
    except (TypeError, ValueError):
        raise _refused(function, root, "its parameters can't be read", "write it as a plain function") from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise _refused(function, root, f"its parameter '{parameter.name}' names no input", _HINT)
    taken = {p.name: function.inputs.get(p.name, p.name) for p in parameters if p.default is p.empty}
    if not taken:
        raise _refused(function, root, "it takes nothing", _HINT)
    for key, names in (("inputs", function.inputs), ("changes", function.changes)):
        for name in names:
            if name not in taken:
                raise _refused(function, root, f"`{key}` names no parameter '{name}'", did_you_mean(name, taken))
    if function.output_mode not in (None, *_MODES):
        raise _refused(function, root, f"no output_mode '{function.output_mode}'", f"one of {', '.join(_MODES)}")
    return taken


def transform_problems(project: ProjectDefinition) -> Iterator[Problem]:
    """What is wrong with the functions, and what a table asks for that a streaming one can't be given."""
    for function in project.functions:
        if function.role == "transform":
            try:
                inputs_of(function, project.root)
            except UsageError as error:
                yield error.problem
    for name in streaming_tables(project):
        table = project.tables[name]
        if table.watermark is not None:
            hint = "the function sets it: df.withWatermark(column, delay)"
            yield _unsupported(project, f"tables.{name}.watermark", "watermark", hint)
        if table.expect:
            yield _unsupported(project, f"tables.{name}.expect", "expectations", "filter in the function")


def line_of(function: Registered, root: Path) -> Where:
    return Where(shown(Path(function.file), root), function.line or None)


def _unsupported(project: ProjectDefinition, path: str, what: str, hint: str) -> Problem:
    return Problem(Code.UNSUPPORTED, f"a streaming transform has no {what}", project.where(path), hint)


def _refused(function: Registered, root: Path, why: str, hint: str) -> UsageError:
    message = f"transform '{function.name}': {why}"
    return UsageError(Code.INVALID_FUNCTION, message, where=line_of(function, root), hint=hint)
