"""Where the table of an export is: a folder, or a name in a catalog."""

from __future__ import annotations

import re
from collections.abc import Callable

from headwater.catalogs.registry import CATALOGS
from headwater.core.errors import Code, Unsupported, UsageError, did_you_mean
from headwater.core.spec import Export
from headwater.formats.base import Address, Format, LakeContext
from headwater.formats.iceberg.names import catalogs

_URI = re.compile(r"([a-z]+)://([^/]+)/(.+)/([^/]+)")
_NAME = re.compile(r"\w+(\.\w+){1,}")


def locate(format: Format, export: Export, absolute: Callable[[str], str], context: LakeContext) -> str:
    """The full path of a folder, or the table's name with its catalog: `rest://X/ns/t` is `X.ns.t`."""
    found = _URI.fullmatch(export.to)
    if found is not None and found[1] in CATALOGS:
        if not format.in_catalogs:
            raise Unsupported(
                f"{format.title} tables are kept in folders, not in such a catalog",
                hint="give a folder, or take ICEBERG",
            )
        catalog = _catalog(found[1], found[2], context)
        return ".".join([catalog, *found[3].split("/"), found[4]])
    if format.in_catalogs and _NAME.fullmatch(export.to):
        name = export.to.partition(".")[0]
        if name not in catalogs(context):
            hint = did_you_mean(name, catalogs(context))
            raise UsageError(Code.UNKNOWN_REFERENCE, f"there is no catalog '{name}'", hint=hint)
        return export.to
    return absolute(export.to)


def address_of(format: Format, location: str) -> Address:
    """The same as the format takes it."""
    named = format.in_catalogs and "/" not in location
    return Address(table=location) if named else Address(path=location)


def _catalog(type: str, name: str, context: LakeContext) -> str:
    """The project's catalog that a URI names, else the only one of its type."""
    known = catalogs(context)
    if name in known:
        if known[name].type != type:
            raise UsageError(
                Code.UNKNOWN_REFERENCE,
                f"the catalog '{name}' is of type {known[name].type}, and not {type}",
                hint=f"write {known[name].type}://{name}/…",
            )
        return name
    alike = [one for one, spec in context.catalogs.items() if spec.type == type]
    if len(alike) == 1:
        return alike[0]
    message = f"there is no catalog '{name}' in `catalogs`, and {len(alike)} of type {type}"
    raise UsageError(Code.UNKNOWN_REFERENCE, message, hint=did_you_mean(name, alike or known))
