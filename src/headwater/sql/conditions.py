"""The columns that a condition names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from sqlglot import exp

from headwater.sql.references import parse_condition

Path = tuple[str, ...]
"""A column and the way into it: ('customer', 'address', 'city')."""

_ALIKE = 0.85


def column_paths(sql: str) -> list[Path]:
    """Every column of a condition, with the fields that are taken from it; what lambdas name is not one."""
    paths: list[Path] = []
    for named in parse_condition(sql).find_all(exp.Column):
        path = path_of(named)
        if path[0] not in _bound(named):
            paths.append(path)
    return list(dict.fromkeys(paths))


def path_of(column: exp.Column) -> Path:
    """The names that a column is asked for by, down to the last field that is taken from it."""
    parts = [part.name for part in column.parts]
    above: exp.Expression = column
    while isinstance(above.parent, exp.Dot) and above.parent.this is above:
        above = above.parent
        if not isinstance(above.expression, exp.Identifier):
            break
        parts.append(above.expression.name)
    return tuple(parts)


def misspelt(path: Path, known: Iterable[str]) -> str | None:
    """A hint where a name looks like one of the known columns, and is none."""
    name = path[0].lower()
    choices = [choice for choice in known if not choice.startswith("_")]
    if len(path) > 1 or name in choices:
        return None
    near = difflib.get_close_matches(name, choices, n=1, cutoff=_ALIKE)
    return f"did you mean '{near[0]}'? A key of the payload is payload.{path[0]}" if near else None


def _bound(expression: exp.Expression) -> set[str]:
    """Names that the lambdas around an expression bind."""
    names: set[str] = set()
    above = expression.parent
    while above is not None:
        if isinstance(above, exp.Lambda):
            names |= {argument.name for argument in above.expressions}
        above = above.parent
    return names
