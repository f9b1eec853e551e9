"""The JSON Schema of the project file, held against real files by a small reader of JSON Schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from headwater.core.errors import Problem
from headwater.project.load.build import known_keys
from headwater.project.load.yaml import parse_yaml
from headwater.project.reference import documented_models
from headwater.project.schema import project_schema
from headwater.project.templates import template_names, write_project

SCHEMA = project_schema()
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "null": type(None)}
READ = {
    "$ref",
    "type",
    "const",
    "enum",
    "anyOf",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "additionalProperties",
    "propertyNames",
    "items",
    "minItems",
    "maxItems",
    "exclusiveMinimum",
    "minimum",
    "maximum",
}
IGNORED = {"description", "default", "title", "examples", "format", "writeOnly", "$schema", "$defs"}


def has_type(value: Any, name: str) -> bool:
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    wanted = TYPES[name]
    return isinstance(value, wanted) and not (name == "number" and isinstance(value, bool))


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what a schema says; a keyword that is not understood fails the test."""
    assert set(schema) <= READ | IGNORED, schema
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    return all(
        (
            not types or any(has_type(value, name) for name in types),
            "const" not in schema or value == schema["const"],
            "enum" not in schema or value in schema["enum"],
            "anyOf" not in schema or any(fits(value, arm) for arm in schema["anyOf"]),
            "oneOf" not in schema or sum(fits(value, arm) for arm in schema["oneOf"]) == 1,
            not isinstance(value, str) or re.search(schema.get("pattern", ""), value) is not None,
            not isinstance(value, list) or all(fits(item, schema.get("items", {})) for item in value),
            not isinstance(value, list)
            or schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)),
            not isinstance(value, (int, float)) or _within(value, schema),
            not isinstance(value, dict) or _object_fits(value, schema),
        )
    )


def _within(value: float, schema: dict[str, Any]) -> bool:
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    return low <= value <= high and value > schema.get("exclusiveMinimum", value - 1)


def _object_fits(value: dict[str, Any], schema: dict[str, Any]) -> bool:
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    if not set(schema.get("required", ())) <= set(value):
        return False
    for key, item in value.items():
        if not fits(key, schema.get("propertyNames", {})):
            return False
        below = properties.get(key, more)
        if below is False or (isinstance(below, dict) and not fits(item, below)):
            return False
    return True


def document(text: str) -> Any:
    """The file as YAML has it, its variables untouched."""
    problems: list[Problem] = []
    node = parse_yaml(text, "x.yml", problems)
    assert node is not None
    return node.plain()


def test_the_design_example_fits() -> None:
    text = (Path(__file__).parent / "shop" / "headwater.yml").read_text()
    assert fits(document(text), SCHEMA)


@pytest.mark.parametrize("template", template_names())
def test_the_templates_fit(template: str, tmp_path: Path) -> None:
    write_project(tmp_path / "p", template)
    assert fits(document((tmp_path / "p" / "headwater.yml").read_text()), SCHEMA)


@pytest.mark.parametrize(
    "wrong",
    [
        "sources: {}",
        "name: x\nwarehose: y",
        "name: x\nsources: {s: {type: files}}",
        "name: x\nsources: {s: {path: y}}",
        "name: x\nsources: {s: {type: fles, path: y}}",
        "name: x\nsources: {S: {type: append}}",
        "name: x\ntopics: {t: {from: s, batch_size: lots}}",
        "name: x\ntopics: {t: {from: s, batch_size: 0}}",
        "name: x\ntopics: {t: {from: s, parquet: {compresion: zstd}}}",
        "name: x\ntopics: {t: {from: s, parquet: {compression: zst}}}",
        "name: x\nserver: {port: 70000}",
        "name: x\nspark: {ui: maybe}",
        "name: x\ntables: {t: {from: s, apply: {keys: [1]}}}",
    ],
)
def test_what_is_wrong_does_not_fit(wrong: str) -> None:
    assert not fits(document(wrong), SCHEMA)


def test_variables_fit_where_more_than_text_is_wanted() -> None:
    assert fits(document("name: x\nserver: {port: '${PORT:-8080}'}\nspark: {ui: '${UI}'}"), SCHEMA)


def test_every_key_of_every_model_is_in_it() -> None:
    assert set(SCHEMA["properties"]) == set(known_keys())
    for name, model in documented_models().items():
        if name != "Settings":
            keys = {field.alias or key for key, field in model.model_fields.items()}
            assert set(SCHEMA["$defs"][name]["properties"]) == keys
            assert issubclass(model, BaseModel)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
