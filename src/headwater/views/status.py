"""Where a view stands, told without Spark: what its rows were made of, whether anything is new, how it is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import Kind, Version
from headwater.core.spec import View
from headwater.flows.ledger import Intent, Ledger, flow_name
from headwater.project.graph import Name
from headwater.sql.references import parse_query, references, resolve
from headwater.views.explanation import Explanation
from headwater.views.records import Notes
from headwater.warehouse import Warehouse, fingerprint

FULL = "full"
"""In an intent's end: why this step recomputes the view."""
EMPTY = "empty"
"""In an intent's end: the step came to nothing, and there is no commit of it."""
_FIXED = re.compile(r"\bAS\s+OF\b|\bchanges\s*\(", re.IGNORECASE)
"""What a query may read otherwise than as it is now."""


def read_by(warehouse: Warehouse, sql: str) -> list[Name]:
    """The relations that a query names, in the order of its text."""
    known = {kind: warehouse.names(kind) for kind in Kind}
    return [Name(resolve(one, known), one.name) for one in references(parse_query(sql))]


def made_of(warehouse: Warehouse, name: str) -> dict[str, Version | None]:
    """The versions of its sources that a view's last commit names; NO_SUCH_RELATION before there is one."""
    flow = flow_name(name, Kind.VIEW)
    history = warehouse.lookup(Kind.VIEW, name).history() if warehouse.record(Kind.VIEW, name) is not None else []
    for commit in history:
        if commit.commit_tag is not None and commit.commit_tag.flow == flow:
            return {label: place["version"] for label, place in _places(commit.commit_tag.positions).items()}
    raise UsageError(Code.NO_SUCH_RELATION, f"view '{name}' has no data yet", hint=f"headwater mv refresh {name}")


def is_up_to_date(warehouse: Warehouse, name: str) -> bool:
    """Whether a refresh would find nothing new; False also where only a refresh can tell."""
    definition = warehouse.definition(Kind.VIEW, name)
    assert isinstance(definition, View)
    now = fingerprint(definition)
    record, intent = warehouse.record(Kind.VIEW, name), last_landed(warehouse, Kind.VIEW, name, now)
    if record is None or record.definition != now or intent is None:
        return False
    return has_all_of(warehouse, intent, read_by(warehouse, definition.sql), definition.sql)


def has_all_of(warehouse: Warehouse, intent: Intent, reads: Iterable[Name], sql: str = "") -> bool:
    """Whether a step ended where the relations are that it read; False also where that can't be told by versions."""
    if _FIXED.search(sql):
        return False
    try:
        now = _places_now(warehouse, reads)
        return {label: intent.end.get(label) for label in now} == now
    except HeadwaterError:
        return False  # the next step says what is wrong


def last_landed(warehouse: Warehouse, kind: Kind, name: str, definition: str) -> Intent | None:
    """The last step of a flow since it was last started over, if it is of this definition and has landed in the table
    that is there."""
    flow = flow_name(name, kind)
    intent = Ledger(warehouse.files, flow).last()
    if warehouse.record(kind, name) is None or intent is None or intent.definition != definition:
        return None
    landed = warehouse.lookup(kind, name).landed(intent.commit_tag(flow))
    return None if landed is None else intent


def noted_explanation(warehouse: Warehouse, name: str) -> Explanation | None:
    """How a view is kept, where it was noted of just this query over just these tables."""
    definition = warehouse.definition(Kind.VIEW, name)
    assert isinstance(definition, View)
    return _notes(warehouse, name).explanation(compiled_of(warehouse, definition))


def compiled_of(warehouse: Warehouse, definition: View) -> str:
    """What an explanation is of: the query, and the tables that it reads."""
    read = {(str(one), warehouse.record(one.kind, one.name)) for one in read_by(warehouse, definition.sql)}
    tables = sorted(f"{label}={'' if at is None else (at.format, at.path, at.table, at.shown)}" for label, at in read)
    return f"{fingerprint(definition)} {' '.join(tables)}"


def _places_now(warehouse: Warehouse, reads: Iterable[Name]) -> dict[str, Any]:
    positions: dict[str, Any] = {}
    for one in reads:
        table = warehouse.lookup(one.kind, one.name)
        version = table.version()
        made = None if version is None else table.committed_at(version)
        positions[str(one)] = {"version": version, "at": None if made is None else made.isoformat()}
    return positions


def _places(positions: Mapping[str, Any]) -> dict[str, Any]:
    return {label: place for label, place in positions.items() if label not in (FULL, EMPTY)}


def _notes(warehouse: Warehouse, name: str) -> Notes:
    flow = flow_name(name, Kind.VIEW)
    return Notes(warehouse.files, flow, Ledger(warehouse.files, flow).epoch().number)
