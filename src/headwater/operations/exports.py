"""Exports by statement: what one would do, and whether it can."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from headwater.sql.blame import fragment
from headwater.sql.conditions import column_paths
from headwater.sql.places import InvalidSql, pointed
from headwater.sql.statements import ExportStatement

_CATALOG = re.compile(r"(rest|glue|hive|jdbc|hadoop)://([^/]+)/(.+)/([^/]+)")
_NAME = re.compile(r"\w+(\.\w+){1,2}")


def checked(export: ExportStatement, text: str, columns: Sequence[str]) -> None:
    """Refuse an export that can't be: its format, its codec, its partitions, its place.

    `columns` are those of what is exported, as far as they are known.
    """
    places = export.places
    known = sorted(format.name for format in FORMATS)
    if export.format not in known:
        raise InvalidSql(
            f"there is no format '{export.format}'",
            text=text,
            span=places["format"],
            hint=did_you_mean(export.format, known),
            code=Code.UNKNOWN_FORMAT,
        )
    format = FORMATS.get(export.format)
    try:
        if any("(" in one for one in export.partition_by):
            format.require(Capability.PARTITION_TRANSFORMS)
    except UsageError as error:
        raise pointed(error, text, places["format"]) from None
    try:
        if "compression" in export.options:
            format.require_codec(export.options["compression"])
    except UsageError as error:
        raise pointed(error, text, places["compression"]) from None
    for partition in export.partition_by if columns else ():
        _check_columns(partition, text, columns)
    if _CATALOG.fullmatch(export.destination) and not format.in_catalogs:
        raise InvalidSql(
            f"{format.title} tables are kept in folders, not in such a catalog",
            text=text,
            span=places["destination"],
            hint="give a folder, or take ICEBERG",
            code=Code.UNSUPPORTED,
        )


def _check_columns(partition: str, text: str, columns: Sequence[str]) -> None:
    for name, *_ in column_paths(partition):
        if name.lower() not in {column.lower() for column in columns}:
            raise InvalidSql(
                f"there is no column '{name}'",
                text=text,
                span=fragment(partition, text),
                hint=did_you_mean(name, columns),
                code=Code.UNKNOWN_COLUMN,
            )


def explained(export: ExportStatement) -> list[dict[str, Any]]:
    """What the export would do, line by line."""
    found = _CATALOG.fullmatch(export.destination)
    told: dict[str, Any] = {"export": str(export.what), "format": export.format}
    if found:
        kind, catalog, namespace, table = found.groups()
        told |= {"catalog": f"{catalog} ({kind})", "namespace": namespace.replace("/", "."), "table": table}
    elif _NAME.fullmatch(export.destination):
        told["table"] = export.destination
    else:
        told["folder"] = export.destination
    told["mode"] = export.options.get("mode", "snapshot")
    told["partition_by"] = ", ".join(export.partition_by) or None
    told |= {key: value for key, value in export.options.items() if key not in ("mode", "format")}
    return [{"property": key, "value": value} for key, value in told.items() if value is not None]
