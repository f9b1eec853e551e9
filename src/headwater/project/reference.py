"""Tables for the documentation, from the models and codes themselves, so that the pages can't fall behind."""

from __future__ import annotations

import re
from datetime import timedelta
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headwater.core.errors import Code
from headwater.core.registry import Registry
from headwater.core.secret import Secret
from headwater.core.spec import Definition, Settings
from headwater.core.spec.base import Count, Duration, Interval, Names, Options, Share, Size, Trigger
from headwater.core.spec.settings import State
from headwater.core.units import format_duration
from headwater.formats.matrix import matrix_markdown
from headwater.project.load.build import KINDS
from headwater.sources.kafka.config import Start
from headwater.sources.table.config import Start as TableStart

_BLOCK = re.compile(r"<!-- (codes|formats|keys \w+) -->.*?<!-- end -->", re.DOTALL)

_WORDS: list[tuple[Any, str]] = [
    (Trigger, "`continuous`, `once` or a duration"),
    (Start, "`earliest`, `latest`, a time or offsets"),
    (TableStart, "`present`, `latest`, a version or a time"),
    (State, "text"),
    (Duration, "duration"),
    (Interval, "duration"),
    (Size, "size"),
    (Share, "number or percentage"),
    (Count, "number"),
    (Names, "name or list of names"),
    (Options, "mapping of texts"),
    (Secret, "secret"),
    (bool, "`true` or `false`"),
    (int, "number"),
    (str, "text"),
]


def documented_models() -> dict[str, type[BaseModel]]:
    """Every model of the project file by its name, those inside others included."""
    found: dict[str, type[BaseModel]] = {}

    def visit(model: type[BaseModel]) -> None:
        if model.__name__ in found:
            return
        found[model.__name__] = model
        for hint in get_type_hints(model).values():
            for inner in _models_in(hint):
                visit(inner)

    visit(Settings)
    for kind in KINDS.values():
        for model in kind if isinstance(kind, Registry) else (kind,):
            visit(model)
    return found


def key_table(model: type[BaseModel]) -> str:
    """The keys of a model. What every definition has stands once, in the table of Definition."""
    hints = get_type_hints(model, include_extras=True)
    common = set() if model is Definition or not issubclass(model, Definition) else set(Definition.model_fields)
    rows = [
        f'<a id="keys-{model.__name__.lower()}"></a>',
        "",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for name, field in model.model_fields.items():
        if name not in common:
            cells = (
                f"`{field.alias or name}`",
                type_words(hints[name]),
                _default(name, field),
                field.description or "",
            )
            rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def refreshed(page: str) -> str:
    """A page with its tables rebuilt, those between `<!-- keys Topic -->` and `<!-- end -->`."""
    models: dict[str, type[BaseModel]] = {**documented_models(), Definition.__name__: Definition}

    def table(found: re.Match[str]) -> str:
        whole = {"codes": error_table, "formats": matrix_markdown}
        text = whole[found[1]]() if found[1] in whole else key_table(models[found[1].split()[1]])
        return f"<!-- {found[1]} -->\n{text}\n<!-- end -->"

    return _BLOCK.sub(table, page)


def error_table() -> str:
    """Every stable code with what it means."""
    return "\n".join(["| code | meaning |", "|---|---|", *(f"| `{code}` | {code.value} |" for code in Code)])


def type_words(hint: Any) -> str:
    """A type as a person would call it."""
    for known, words in _WORDS:
        if hint == known:
            return words
    origin = get_origin(hint)
    if origin is Annotated:
        return type_words(get_args(hint)[0])
    if origin in (Union, UnionType):
        return " or ".join(type_words(arm) for arm in get_args(hint) if arm is not type(None))
    if origin is Literal:
        return ", ".join(
            f"`{str(choice).lower() if isinstance(choice, bool) else choice}`" for choice in get_args(hint)
        )
    if origin is tuple:
        return "list"
    if origin is dict:
        return f"{type_words(get_args(hint)[1])} by name"
    return f"[mapping](#keys-{hint.__name__.lower()})"


def _models_in(hint: Any) -> list[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return [hint]
    return [model for arm in get_args(hint) for model in _models_in(arm)]


def _default(name: str, field: FieldInfo) -> str:
    # A source's or catalog's own type stands in its model, and has to be written in the file.
    if field.is_required() or (name == "type" and get_origin(field.annotation) is Literal):
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}, "") or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{format_duration(value) if isinstance(value, timedelta) else value}`"
