"""Exports by name, by keys and by statement: what each is, and whether it can be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.core.spec import Export
from headwater.core.spec.base import placed
from headwater.exports.destinations import location_of
from headwater.sql.blame import fragment
from headwater.sql.conditions import column_paths
from headwater.sql.places import InvalidSql, Span, pointed
from headwater.sql.references import is_query, parse_reference
from headwater.sql.statements import ExportStatement
from headwater.targets.checks import mistakes, require_right
from headwater.targets.registry import TARGETS
from headwater.warehouse import Warehouse


def definition_of(warehouse: Warehouse, what: str, keys: Mapping[str, object]) -> Export:
    """The export that keys describe; without `format` and `to` the one of the project that `what` names."""
    given = {key: value for key, value in keys.items() if value is not None}
    if "format" not in given and "to" not in given:
        return _named(warehouse, what, given)
    for key in ("format", "to"):
        if key not in given:
            raise UsageError(Code.MISSING_KEY, f"an export needs `{key}`", hint="name a format and a destination")
    definition = _made({"from": what, **given})
    if not is_query(what):
        parse_reference(what)
    require_right(definition)
    return definition


def _named(warehouse: Warehouse, name: str, keys: Mapping[str, object]) -> Export:
    known = warehouse.project.exports
    if name not in known:
        hint = did_you_mean(name, known) if known else "name a format and a destination"
        raise UsageError(Code.UNKNOWN_REFERENCE, f"the project has no export '{name}'", hint=hint)
    if not keys:
        return known[name]
    written = known[name].model_dump(exclude_unset=True)
    return placed(_made({**written, **keys}), name, known[name].where)


def _made(keys: Mapping[str, object]) -> Export:
    try:
        return placed(Export.model_validate(dict(keys)), "", Where("?"))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            names = [field.alias or name for name, field in Export.model_fields.items()]
            raise UsageError(Code.UNKNOWN_KEY, f"an export has no key '{key}'", hint=did_you_mean(key, names)) from None
        message = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(Code.INVALID_VALUE, f"{key}: {message}") from None


# --- statements


def stated(export: ExportStatement, text: str) -> Export:
    """The export that a statement describes; a mistake is shown at its place."""
    options: dict[str, Any] = dict(export.options)
    options.pop("format", None)  # of a table's files, which are Parquet
    if "parquet" in options:
        options["parquet"] = {"row_group_size": options["parquet"]}
    keys = {**options, "from": str(export.what), "format": export.format, "to": export.destination}
    if export.partition_by:
        keys["partition_by"] = list(export.partition_by)
    try:
        return _made(keys)
    except UsageError as error:
        key = error.problem.message.partition(":")[0]
        raise pointed(error, text, export.places.get(key)) from None


def checked(warehouse: Warehouse, export: ExportStatement, text: str, columns: Sequence[str]) -> Export:
    """The export of a statement, if it can be: its format, codec, partitions and place.

    `columns` are those of what is exported, as far as they are known.
    """
    definition = stated(export, text)
    for one in mistakes(definition):
        raise pointed(one.error(), text, export.places.get(_PLACES.get(one.key, one.key), export.places["format"]))
    for partition in export.partition_by if columns else ():
        _check_columns(partition, text, columns)
    try:
        location_of(warehouse, definition)
    except UsageError as error:
        raise pointed(error, text, export.places["destination"]) from None
    return definition


_PLACES: Mapping[str, str] = {"parquet.compression": "compression", "to": "destination"}


def _check_columns(partition: str, text: str, columns: Sequence[str]) -> None:
    for name, *_ in column_paths(partition):
        if name.lower() not in {column.lower() for column in columns}:
            span: Span | None = fragment(partition, text)
            hint = did_you_mean(name, columns)
            message = f"there is no column '{name}'"
            raise InvalidSql(message, text=text, span=span, hint=hint, code=Code.UNKNOWN_COLUMN)


def explained(warehouse: Warehouse, definition: Export) -> list[dict[str, Any]]:
    """What an export would do, line by line."""
    location = location_of(warehouse, definition)
    kind = TARGETS.get(definition.format)
    told: dict[str, Any] = {"export": definition.from_, "format": definition.format}
    if kind.in_catalogs and "/" not in location:
        catalog, _, rest = location.partition(".")
        namespace, _, table = rest.rpartition(".")
        known = warehouse.project.catalogs.get(catalog)
        told |= {"catalog": catalog if known is None else f"{catalog} ({known.type})"}
        told |= {"namespace": namespace, "table": table}
    else:
        told["folder"] = location
    told["mode"] = definition.mode
    shown = definition.model_dump(mode="json", exclude_unset=True)
    hidden = ("from", "format", "to", "mode")
    told |= {key: _text(value) for key, value in shown.items() if key not in hidden and value not in (None, [], {})}
    return [{"property": key, "value": value} for key, value in told.items()]


def _text(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
