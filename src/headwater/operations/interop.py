"""Tables of other formats over a relation's files: synced, listed and dropped by command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.core.errors import Code, HeadwaterError, UsageError, did_you_mean
from headwater.core.model import Kind, Version
from headwater.core.record import Record
from headwater.exports.interop import targets
from headwater.exports.interop.sync import SyncResult, drop_target, sync
from headwater.flows.ledger import flow_name
from headwater.formats.registry import FORMATS
from headwater.runner.holds import holding
from headwater.warehouse import Warehouse


@dataclass(frozen=True)
class InteropTargetState(Record):
    """A target, and how far it is."""

    target: targets.TargetRecord
    latest_version: Version | None
    """The relation's own; None: it is gone."""

    @property
    def current(self) -> bool:
        """Whether the target has the relation's latest version."""
        return self.target.source_version is not None and self.target.source_version == self.latest_version

    def to_dict(self) -> dict[str, object]:
        """One level, as tables show it."""
        return {**self.target.to_dict(), "latest_version": self.latest_version, "current": self.current}


def sync_relation(
    warehouse: Warehouse, name: str, to: Sequence[str] = (), *, full: bool = False, replace_target: bool = False
) -> list[SyncResult]:
    """Bring a relation's targets up to date, those of its definition if none is named; one that fails does not keep the
    others from theirs, and is raised at the end."""
    kind, name = relation_named(warehouse, name)
    formats = list(dict.fromkeys(to)) or list(warehouse.definition(kind, name).interop)
    if not formats:
        hint = f"say which with --to, or write `interop: [...]` at {kind.plural}.{name}"
        raise UsageError(Code.MISSING_KEY, f"{kind.value} '{name}' has no `interop`", hint=hint)
    for format in formats:
        require_format(format)
    if warehouse.record(kind, name) is None:
        raise warehouse.without_data(kind, name)
    done: list[SyncResult] = []
    failed: list[HeadwaterError] = []
    with holding(warehouse, flow_name(name, kind), wait=True) as guard:
        for format in formats:
            try:
                done.append(sync(warehouse, kind, name, format, full=full, replace_target=replace_target, guard=guard))
            except HeadwaterError as error:
                failed.append(error)
    if failed:
        raise failed[0]
    return done


def drop_relation_targets(warehouse: Warehouse, name: str, formats: Sequence[str]) -> list[str]:
    """Take targets away, and none of the files that they name; those that there were."""
    kind, name = relation_named(warehouse, name)
    with holding(warehouse, flow_name(name, kind), wait=True):
        return [format for format in formats if drop_target(warehouse, kind, name, require_format(format))]


def target_states(warehouse: Warehouse) -> list[InteropTargetState]:
    """All targets of the lake, without Spark."""
    found = []
    for record in targets.records(warehouse.files):
        plural, _, name = record.relation.partition(".")
        kind = next(one for one in Kind if one.plural == plural)
        found.append(InteropTargetState(record, _version(warehouse, kind, name)))
    return found


def require_format(name: str) -> str:
    if name not in FORMATS:
        hint = did_you_mean(name, FORMATS.names())
        raise UsageError(Code.UNKNOWN_FORMAT, f"unknown format '{name}'", hint=hint)
    return name


def relation_named(warehouse: Warehouse, name: str) -> tuple[Kind, str]:
    """The relation of a name, with or without its kind."""
    known = [(kind, each) for kind in Kind for each in warehouse.names(kind)]
    found = [(kind, each) for kind, each in known if name in (each, flow_name(each, kind))]
    if len(found) == 1:
        return found[0]
    labels = [flow_name(each, kind) for kind, each in found or known]
    if found:
        hint = f"write {' or '.join(labels)}"
        raise UsageError(Code.NO_SUCH_RELATION, f"'{name}' is not one relation", hint=hint)
    hint = did_you_mean(name, [*labels, *(each for _, each in known)])
    raise UsageError(Code.NO_SUCH_RELATION, f"there is no topic, table or view '{name}'", hint=hint)


def _version(warehouse: Warehouse, kind: Kind, name: str) -> Version | None:
    record = warehouse.record(kind, name)
    format = None if record is None else FORMATS.get(record.format)
    if format is None or format.native is None:
        return None
    return format.native(warehouse.address(kind, name), warehouse.context).version()
