"""The state of a lake, rebuilt from the lake after it was lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone

import sqlglot

from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.quotes import backticked
from headwater.core.state import STORED, RelationRecord
from headwater.flows.ledger import Ledger, flow_name
from headwater.formats.base import Address
from headwater.formats.paimon.format import PAIMON
from headwater.formats.registry import FORMATS
from headwater.project.fingerprint import fingerprint
from headwater.recovery.catalog import register
from headwater.recovery.context import Context

HIDDEN = "_hw_"
"""What the names of columns begin with that people don't see."""

_ENDING = re.compile(r"__\d+(_\d+)?$")


def rebuild(lake: Context) -> tuple[list[str], list[str]]:
    """Record the relations of the lake, and register its Iceberg tables; returns the names of both."""
    records = lake.manifest.records()
    for record in records:
        lake.state.put(record)
    registered = register(lake)
    known = {(record.kind, record.name) for record in records}
    derived = [record for record in _derived(lake) if (record.kind, record.name) not in known]
    for record in derived:
        lake.state.put(record)
    return sorted(flow_name(record.name, record.kind) for record in [*records, *derived]), registered


def renew(lake: Context) -> list[str]:
    """Have the relations in the state that the lake says it has; returns those that were others, or none."""
    stored = {(record.kind, record.name): record for record in lake.state.stored_relations()}
    in_lake = {(record.kind, record.name): record for record in lake.manifest.records()}
    if not in_lake and lake.manifest.revision() is None:
        return []  # a lake of a release that kept no records
    changed = [key for key in {**stored, **in_lake} if stored.get(key) != in_lake.get(key)]
    for kind, name in changed:
        record = in_lake.get((kind, name))
        if record is None:
            lake.state.remove(kind, name)
        else:
            lake.state.put(record)
    return sorted(flow_name(name, kind) for kind, name in changed)


def _derived(lake: Context) -> Iterator[RelationRecord]:
    """What lies in the lake of an earlier release, which recorded relations in the state alone."""
    for kind in Kind:
        found: dict[str, list[tuple[str, str]]] = {}
        for folder, format in _folders(lake, kind):
            base = folder if folder in lake.project.relations(kind) else _ENDING.sub("", folder)
            found.setdefault(base, []).append((folder, format))
        for name, folders in found.items():
            current = _current(lake, kind, name, folders)
            record = None if current is None else _record(lake, kind, name, *current)
            if record is not None:
                yield record


def _folders(lake: Context, kind: Kind) -> Iterator[tuple[str, str]]:
    """Folders of tables, and the format of each."""
    for entry in lake.files.list(kind.plural):
        names = {each.name for each in lake.files.list(entry.path) if each.is_folder} if entry.is_folder else set()
        format = next((format for format in FORMATS if format.marker in names), None)
        if format is not None:
            yield entry.name, format.name
    for entry in lake.files.list(f"{PAIMON.catalog}/{kind.plural}.db"):
        if entry.is_folder:
            yield entry.name, PAIMON.name


def _current(lake: Context, kind: Kind, name: str, folders: list[tuple[str, str]]) -> tuple[str, str] | None:
    """The table that a relation has: not one that was replaced by another."""
    listed = lake.files.find(f"_headwater/flows/{flow_name(name, kind)}/retired.json")
    retired = {(one["path"] or one["table"] or "").rpartition("/")[2].rpartition(".")[2] for one in _json(listed)}
    left = [one for one in folders if one[0] not in retired]
    return max(left, key=lambda one: [int(each) for each in re.findall(r"\d+", one[0][len(name) :])], default=None)


def _json(text: bytes | None) -> list[dict[str, str | None]]:
    found: list[dict[str, str | None]] = [] if text is None else json.loads(text)
    return found


def _record(lake: Context, kind: Kind, name: str, folder: str, format: str) -> RelationRecord | None:
    address = FORMATS.get(format).address(lake.context, kind.plural, folder)
    definition = lake.project.relations(kind).get(name)
    columns = _columns(lake, format, address)
    hidden = tuple(column for column in columns if column.startswith(HIDDEN))
    if hidden and (definition is None or not _is_plain(getattr(definition, "sql", None))):
        return None  # how its rows are shown is not known any more: it is made again
    kept_by = Ledger(lake.files, flow_name(name, kind)).last()
    as_now = definition is not None and kept_by is not None and kept_by.definition == fingerprint(definition)
    return RelationRecord(
        kind,
        name,
        format,
        address.path,
        address.table,
        hidden,
        definition=fingerprint(definition) if definition is not None and as_now else "",
        created_at=datetime.now(timezone.utc),
        shown=_shown(columns) if hidden else None,
        made_from=definition.model_dump_json() if definition is not None and as_now else None,
    )


def _columns(lake: Context, format: str, address: Address) -> list[str]:
    native = FORMATS.get(format).native
    if native is None:
        return []
    try:
        names: list[str] = native(address, lake.context).read().schema.names
        return names
    except HeadwaterError:
        return []


def _is_plain(sql: str | None) -> bool:
    """Whether a query's rows are shown as they are stored: it has no LIMIT at its top."""
    if sql is None:
        return False
    try:
        query = sqlglot.parse_one(sql, dialect="spark")
    except sqlglot.ParseError:
        return False
    return query.args.get("limit") is None and query.args.get("offset") is None


def _shown(columns: list[str]) -> str:
    names = ", ".join(backticked(name) for name in columns if not name.startswith(HIDDEN))
    shown = f"{HIDDEN}shown"
    return f"SELECT {names} FROM {STORED}" + (f" WHERE {backticked(shown)}" if shown in columns else "")
