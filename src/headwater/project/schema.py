"""The JSON Schema of the project file, from the models that read it: for editors, and for other programs."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headwater.core.registry import Registry
from headwater.core.spec import Settings
from headwater.project.load.build import KINDS, TARGETS

_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}"}
_TYPED = ("integer", "number", "boolean")


def project_schema() -> dict[str, Any]:
    """The whole file. Where a number, a flag or a choice is wanted, a `${VARIABLE}` may stand too."""
    models: list[type[BaseModel]] = [Settings]
    for kind in KINDS.values():
        models.extend(_models(kind))
    _, schema = models_json_schema([(model, "validation") for model in models], by_alias=True)
    definitions: dict[str, Any] = schema["$defs"]
    for kind in KINDS.values():
        if isinstance(kind, Registry):
            for model in _models(kind):
                # The type decides which model reads the rest: it has to be written.
                definition = definitions[model.__name__]
                definition["required"] = sorted({*definition.get("required", ()), "type"})
    settings = definitions.pop(Settings.__name__)
    sections = {section: _section(kind) for section, kind in KINDS.items()}
    overrides = {"type": "object", "description": "What is different: any key of the file, in part."}
    definitions["Variable"] = _VARIABLE
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "headwater.yml",
        "type": "object",
        "required": settings["required"],
        "additionalProperties": False,
        "properties": {
            **{key: _with_variable(value) for key, value in settings["properties"].items()},
            **sections,
            TARGETS: {
                "type": "object",
                "description": "Overrides by name.",
                "additionalProperties": overrides,
            },
        },
        "$defs": {name: _with_variables(definition) for name, definition in definitions.items()},
    }


def _models(kind: type[BaseModel] | Registry[Any]) -> list[type[BaseModel]]:
    return list(cast(Registry[type[BaseModel]], kind)) if isinstance(kind, Registry) else [kind]


def _section(kind: type[BaseModel] | Registry[Any]) -> dict[str, Any]:
    models = _models(kind)
    references = [{"$ref": f"#/$defs/{model.__name__}"} for model in models]
    return {
        "type": ["object", "null"],
        "propertyNames": {"pattern": "^[a-z][a-z0-9_]*$"},
        "additionalProperties": references[0] if len(references) == 1 else {"oneOf": references},
    }


def _with_variables(definition: dict[str, Any]) -> dict[str, Any]:
    if "properties" not in definition:
        return definition
    properties = {key: _with_variable(value) for key, value in definition["properties"].items()}
    return {**definition, "properties": properties}


def _with_variable(schema: dict[str, Any]) -> dict[str, Any]:
    """A property that is more than text takes a variable too, and null as if it was not given."""
    notes: dict[str, Any] = {key: schema[key] for key in schema if key in ("description", "default")}
    core = {key: value for key, value in schema.items() if key not in (*notes, "title", "anyOf")}
    choices = schema.get("anyOf") or [core]
    more: list[dict[str, Any]] = []
    if any(arm.get("type") in _TYPED or "enum" in arm for arm in choices):
        more.append({"$ref": "#/$defs/Variable"})
    if {"type": "null"} not in choices and "const" not in core:
        more.append({"type": "null"})
    return {**notes, "anyOf": [*choices, *more]}
