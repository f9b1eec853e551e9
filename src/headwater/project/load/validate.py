"""A tree against a model: pydantic finds the mistakes, here they get their place, their code and a hint."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from headwater.core.errors import Code, Problem, did_you_mean, nearest
from headwater.core.secret import MASK, Secret, is_secret_key
from headwater.project.load.forms import form_of
from headwater.project.load.tree import Key, TreeNode, dotted
from headwater.project.load.variables import UNSET

M = TypeVar("M", bound=BaseModel)

_WANTED = {
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "model_type": "should be a mapping of keys and values",
    "dict_type": "should be a mapping of keys and values",
    "tuple_type": "should be a list",
    "secret_type": "should be text",
    "too_short": "should not be empty",
}
IN_QUOTES = "a comma ends a text between braces: put the text in quotes"
_ALIKE = 0.8
"""From here on an unknown key is taken for the one that it resembles."""
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def validated(model: type[M], node: TreeNode, path: Sequence[Key], problems: list[Problem]) -> M | None:
    """The definition, or None with everything that is wrong with it noted."""
    data = _given(model, node)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = _details(error)
    misspelt = _misspelt(model, data, details)
    meant = {(*loc[:-1], key) for loc, key in misspelt.items()}
    # Unknown keys keep the model from looking at how its keys go together.
    hidden = _errors(model, _without_unknown(data, details, misspelt))
    told = {(detail["loc"], detail["type"]) for detail in details}
    more = [one for one in hidden if (one["loc"], one["type"]) not in told and one["loc"] not in meant]
    for detail in (*details, *more):
        problem = None if detail["loc"] in meant else _problem(model, node, path, detail)
        if problem is not None:
            problems.append(problem)
    return None


def salvaged(model: type[M], node: TreeNode) -> M | None:
    """A wrong definition without its wrong keys, so that the others can be checked; None if it needs them.

    Keys that don't go together stay: each is looked at by itself.
    """
    data = _given(model, node)
    details = _errors(model, data)
    data = _without_unknown(data, details, _misspelt(model, data, details))
    wrong = {detail["loc"][0] for detail in _errors(model, data) if detail["loc"]}
    if not isinstance(data, dict):
        return None
    data = {key: value for key, value in data.items() if key not in wrong}
    left = _errors(model, data)
    if not left:
        return model.model_validate(data)
    return None if any(detail["loc"] for detail in left) else _as_they_are(model, data)


def _as_they_are(model: type[M], data: Mapping[str, Any]) -> M:
    """A definition of values that are right by themselves."""
    values, annotated = {}, cast(Any, Annotated)
    for name, field in model.model_fields.items():
        if (field.alias or name) in data:
            parts = (field.annotation, *field.metadata, None)
            values[name] = TypeAdapter(annotated[parts]).validate_python(data[field.alias or name])
    return model.model_construct(**values)


def _errors(model: type[BaseModel], data: Any) -> list[ErrorDetails]:
    try:
        model.model_validate(data)
    except ValidationError as error:
        return _details(error)
    return []


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_input=False)


def _without_unknown(data: Any, details: Sequence[ErrorDetails], misspelt: Mapping[tuple[Key, ...], str]) -> Any:
    """What was given without the keys that nothing knows; those that are misspelt under their right names."""
    data = copy.deepcopy(data)
    for loc in [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]:
        holder = data
        for key in loc[:-1]:
            holder = holder[key]
        value = holder.pop(loc[-1])
        if loc in misspelt:
            holder[misspelt[loc]] = value
    return data


def _given(model: type[BaseModel], node: TreeNode) -> Any:
    """What was given; null says 'none' where that is not the default, and nothing elsewhere. A key that nothing knows
    stays, whatever stands there: `{sql: SELECT a, b FROM t}` has the key `b FROM t`."""
    data = node.plain()
    if not isinstance(data, dict):
        return data
    for name, field in model.model_fields.items():
        key = field.alias or name
        below = node.entries.get(key)
        if below is None:
            continue
        if isinstance(below.value, dict):
            data[key] = _given_below(field.annotation, below)
        elif below.value is None and field.default is not None and type(None) in get_args(field.annotation):
            data[key] = None
    return data | {key: None for key in node.entries if key not in data and key not in keys_of(model)}


def _given_below(annotation: Any, node: TreeNode) -> Any:
    kind = unwrapped(annotation)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _given(kind, node)
    inner = unwrapped(get_args(kind)[-1]) if get_origin(kind) is dict else None
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return {key: _given(inner, below) for key, below in node.entries.items() if not below.is_blank}
    return node.plain()


def _misspelt(model: type[BaseModel], data: Any, details: Sequence[ErrorDetails]) -> dict[tuple[Key, ...], str]:
    """Unknown keys that surely stand for one which is not given, by their place, and which."""
    missing = {detail["loc"] for detail in details if detail["type"] == "missing"}
    found: dict[tuple[Key, ...], str] = {}
    meant: set[tuple[Key, ...]] = set()
    for loc in [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]:
        holder = data
        for key in loc[:-1]:
            holder = holder[key]
        best = nearest(str(loc[-1]), keys_of(type_at(model, loc[:-1])))
        if best is None or best in holder or (right := (*loc[:-1], best)) in meant:
            continue
        if right in missing or SequenceMatcher(None, str(loc[-1]), best).ratio() > _ALIKE:
            found[loc] = best
            meant.add(right)
    return found


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys that a mapping of this model may have, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]


def type_at(model: type[BaseModel], path: Sequence[Key]) -> Any:
    """The type that stands at a path below a model: a model, Secret, a plain type; None if there is none."""
    found: Any = model
    for key in path:
        found = _below(found, key)
    return found


def _below(kind: Any, key: Key) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, field in kind.model_fields.items():
            if (field.alias or name) == key:
                return unwrapped(field.annotation)
        return None
    if get_origin(kind) in (dict, tuple):
        return unwrapped(get_args(kind)[-1 if get_origin(kind) is dict else 0])
    return None


def unwrapped(kind: Any) -> Any:
    """A type without what was wrapped around it: `Secret | None` → Secret."""
    if get_origin(kind) is Annotated:
        return unwrapped(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        kinds = [unwrapped(arm) for arm in get_args(kind) if arm is not type(None)]
        return Secret if Secret in kinds else kinds[0]
    return kind


def _problem(model: type[BaseModel], node: TreeNode, path: Sequence[Key], detail: ErrorDetails) -> Problem | None:
    inner = detail["loc"]
    at = node.find(inner)
    if at.value is UNSET:
        return None
    where = at.where(dotted((*path, *inner)))
    kind = detail["type"]
    if kind == "extra_forbidden":
        key = str(inner[-1])
        parent = type_at(model, inner[:-1])
        known = keys_of(parent) if parent is not None else []
        cut = at.value is None and not key.isidentifier()
        return Problem(Code.UNKNOWN_KEY, f"unknown key '{key}'", where, IN_QUOTES if cut else did_you_mean(key, known))
    if kind == "missing":
        wanted = type_at(model, inner[:-1]).model_fields
        says = next((f.description for name, f in wanted.items() if (f.alias or name) == inner[-1]), None)
        return Problem(Code.MISSING_KEY, f"'{inner[-1]}' must be given", where, says and says.rstrip("."))
    message, hint = _message(model, path, inner, at, detail)
    return Problem(Code.INVALID_VALUE, message, where, hint)


def _message(
    model: type[BaseModel], path: Sequence[Key], inner: Sequence[Key], at: TreeNode, detail: ErrorDetails
) -> tuple[str, str | None]:
    kind = detail["type"]
    context = detail.get("ctx") or {}
    shown = _shown(model, inner, at)
    if kind == "literal_error":
        choices = [str(choice) for choice in _choices(type_at(model, inner))]
        wrong = "" if shown is None else f"{shown} is not "
        return f"{wrong}one of {', '.join(choices)}", _nearest_choice(shown, choices)
    if kind == "value_error":
        message = str(context["error"])
        secret = type_at(model, inner) is Secret
        if isinstance(at.value, str) and at.value and (at.written is not None or secret):
            message = message.replace(at.value, MASK if secret else at.written or MASK)
        return message, None
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        message = f"should be {words} {context[name]}"
    else:
        message = _WANTED.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])
    hint = None
    if kind in ("model_type", "dict_type", "tuple_type"):
        key = (*path, *inner)[-1]
        hint = form_of(str(key), type_at(model, inner), None if at.written or shown is None else at.value)
    if kind == "string_type" and isinstance(at.value, (int, float)):
        hint = "put it in quotes"
    return (message if shown is None else f"{message}, not {shown}"), hint


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


def _nearest_choice(shown: str | None, choices: list[str]) -> str | None:
    hint = did_you_mean(shown.strip("'"), choices) if shown else None
    return hint if hint and hint.startswith("did") else None


def _shown(model: type[BaseModel], inner: Sequence[Key], at: TreeNode) -> str | None:
    """The value as it may be repeated: never a secret's, never what a variable held."""
    hidden = type_at(model, inner) is Secret or any(isinstance(key, str) and is_secret_key(key) for key in inner)
    if isinstance(at.value, (dict, list)) or hidden:
        return None
    if at.written is not None:
        return f"'{at.written}'"
    if at.value is None or isinstance(at.value, bool):
        return {None: "nothing", True: "true", False: "false"}[at.value]
    text = str(at.value)
    return f"'{text}'" if len(text) <= 60 else f"'{text[:57]}…'"
