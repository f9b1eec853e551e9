"""Brings a table of another format to a relation's latest version: the same files, no row copied.

Each sync compares which files the relation has with those that the target names, so that one that was cut off is made
good by the next. It costs a listing of both, and the footers and one reading of the files that are new. What a reader
that is not ours sees of the change is compared with the source's rows before anybody else sees it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from headwater.core.errors import Code, IntegrityError, Unsupported, UsageError
from headwater.core.logs import get_logger
from headwater.core.model import Kind, Version
from headwater.core.record import Record
from headwater.core.storage import Files
from headwater.exports.interop import targets
from headwater.exports.interop.checksum import RowSum, measure
from headwater.exports.interop.layout import is_plain, require_readable, rows_of
from headwater.exports.interop.targets import TargetRecord, label_of, open_target
from headwater.flows.ledger import flow_name
from headwater.formats.base import Format
from headwater.formats.footers import read_metadata
from headwater.formats.interop.choices import possible_targets, refusal
from headwater.formats.interop.seam import (
    SEE,
    SharedVersion,
    StagedChange,
    SyncNote,
    TargetChange,
    TargetState,
    changed_by_others,
)
from headwater.formats.registry import FORMATS
from headwater.warehouse import Warehouse

SYNCED, UNCHANGED = "synced", "unchanged"

log = get_logger(__name__)


@dataclass(frozen=True)
class SyncResult(Record):
    """What a sync has done to one target."""

    relation: str
    format: str
    location: str
    outcome: str
    source_version: Version
    target_version: Version
    files: int
    """How many the target names now."""
    files_added: int
    files_removed: int
    rows: int | None
    """Those that were read back: of the whole table where `full`, else of the new files."""
    checksum: str | None
    full: bool
    duration_ms: int


def sync(
    warehouse: Warehouse,
    kind: Kind,
    name: str,
    to: str,
    *,
    full: bool = False,
    replace_target: bool = False,
    guard: Callable[[], None] = lambda: None,
) -> SyncResult:
    """Bring one target up to date; `full`: read the whole of it back, `replace_target`: whoever has written to it."""
    begun, format, target_format = time.monotonic(), warehouse.format(kind, name), FORMATS.get(to)
    why = refusal(format, target_format)
    if why is not None or format.shared is None:
        possible = possible_targets(format)
        hint = f"{format.title} can be read as {', '.join(possible)}" if possible else None
        raise Unsupported(f"{kind.value} '{name}' as {to}: {why}", hint=hint)
    source = _as_shown(warehouse, kind, name, format.shared(warehouse.address(kind, name), warehouse.context))
    target = open_target(warehouse, kind, name, target_format, source.root)
    before = None if replace_target else target.state()
    label = label_of(kind, name)
    if before is not None:
        _require_ours(target.address, before, label)
    note = SyncNote(label, source.version, columns=_digest(source))
    change = _change(warehouse, source, note, before, widens=target_format.widens_files)
    location = str(target.address)
    known = targets.record_of(warehouse.files, label, to) or TargetRecord(label, to, location, source.root, ())
    if before is not None and not full and _is_done(change, note, before):
        if known.source_version != source.version or set(known.held) != before.held:  # a backup has no such records
            known = replace(known, location=location, root=source.root, held=tuple(sorted(before.held)))
            targets.put(warehouse.files, replace(known, source_version=source.version, target_version=before.version))
        return SyncResult(
            label, to, location, UNCHANGED, source.version, before.version, len(source.files), 0, 0, None, None, False,
            _since(begun),
        )  # fmt: skip
    if replace_target:  # now that its files are known to be readable
        target.drop()
    held = frozenset({source.version}) | (frozenset() if before is None else before.held)
    known = replace(known, location=location, root=source.root, held=tuple(sorted(held)))
    targets.put(warehouse.files, known)
    whole = full or before is None or _is_redefined(source, note, before) or not is_plain(source)
    staged = target.stage(change, before)
    try:
        seen = _read_back(warehouse, kind, name, format, change, staged, whole)
        guard()
        version = staged.commit()
    finally:
        staged.discard()
    target.tidy()
    after = target.state()
    if after is None or after.files.keys() != source.files.keys():
        raise IntegrityError(
            Code.READ_BACK_DIFFERS, f"{target.address} names other files than version {source.version} of {label} has"
        )
    targets.put(
        warehouse.files,
        replace(
            known, held=tuple(sorted(after.held)), source_version=source.version, target_version=version,
            rows=_total(after), checksum=seen.checksum, synced_at=targets.now(),
        ),
    )  # fmt: skip
    log.info("interop", relation=label, format=to, version=source.version, files=len(change.added))
    return SyncResult(label, to, location, SYNCED, source.version, version, len(source.files), len(change.added),
                      len(change.removed), seen.rows, seen.checksum, whole, _since(begun))  # fmt: skip


def _as_shown(warehouse: Warehouse, kind: Kind, name: str, source: SharedVersion) -> SharedVersion:
    """Without the columns that people don't see; refused where a view shows other rows than are stored."""
    record = warehouse.record(kind, name)
    if record is None:
        return source
    if record.shown is not None:
        import sqlglot
        from sqlglot import exp

        query = sqlglot.parse_one(record.shown, dialect="spark")
        kept = ("where", "limit", "offset", "distinct", "group", "having", "joins", "qualify")
        columns = query.expressions if isinstance(query, exp.Select) else []
        plain = columns and all(isinstance(one, (exp.Column, exp.Star)) for one in columns)
        if not plain or any(query.args.get(part) for part in kept):
            raise Unsupported(
                f"{kind.value} '{name}' stores other rows than it shows, and its files hold those",
                hint=SEE,
            )
    shown = [one for one in source.schema if one.name not in record.hidden]
    return replace(source, schema=pa.schema(shown))


def drop_target(warehouse: Warehouse, kind: Kind, name: str, to: str) -> bool:
    """Take a target away, and none of the files that it names; whether there was one."""
    label = label_of(kind, name)
    known = targets.record_of(warehouse.files, label, to)
    if known is None:
        return False
    if warehouse.format(kind, name).name != to:  # else the relation itself has come to be in that format
        open_target(warehouse, kind, name, FORMATS.get(to), known.root).drop()
    targets.forget(warehouse.files, label, to)
    return True


def drop_targets(warehouse: Warehouse, kind: Kind, name: str) -> None:
    """Before a relation is dropped: nothing names its files any more."""
    for record in list(targets.records(warehouse.files)):
        if record.relation == label_of(kind, name):
            drop_target(warehouse, kind, name, record.format)


def _require_ours(address: object, before: TargetState, label: str) -> None:
    if before.note is None:
        raise changed_by_others(address, "somebody else has written to it")
    if before.note.source != label:
        raise UsageError(
            Code.ALREADY_EXISTS,
            f"{address} is made of {before.note.source} already",
            hint="see docs/interop.md",
        )


def _change(
    warehouse: Warehouse, source: SharedVersion, note: SyncNote, before: TargetState | None, *, widens: bool
) -> TargetChange:
    """The files that come and go; each of those that come has been looked at."""
    named = {} if before is None else before.files
    store = Files(source.root, warehouse.context.storage)
    if before is not None and (before.partition_by != source.partition_by or before.root != store.root):
        added, removed = list(source.files.values()), tuple(named)
    else:
        added = [file for path, file in source.files.items() if path not in named]
        removed = tuple(path for path in named if path not in source.files)
    looked_at = source.files if before is None or _is_redefined(source, note, before) else [one.path for one in added]
    footers = read_metadata(store, looked_at)
    for path, footer in footers.items():
        require_readable(source, path, footer, widens=widens)
    return TargetChange(source, note, tuple(added), removed, footers)


def _read_back(
    warehouse: Warehouse, kind: Kind, name: str, format: Format, change: TargetChange, staged: StagedChange, whole: bool
) -> RowSum:
    """What another library sees of the change that nobody sees yet, against what the source has."""
    source = change.to
    paths = None if whole else [file.path for file in change.added]
    seen = measure(staged.read(paths), source.schema)
    expected = _expected(warehouse, kind, name, format, source, paths)
    if seen != expected:
        raise IntegrityError(
            Code.READ_BACK_DIFFERS,
            f"{flow_name(name, kind)} has {expected.rows} rows (checksum {expected.checksum}) at version "
            f"{source.version}{'' if whole else ', in its new files'}, and its target would show {seen.rows} "
            f"(checksum {seen.checksum}): the target is as before",
        )
    return seen


def _expected(
    warehouse: Warehouse, kind: Kind, name: str, format: Format, source: SharedVersion, paths: list[str] | None
) -> RowSum:
    if paths is None and format.native is not None and source.files:
        try:
            rows = format.native(warehouse.address(kind, name), warehouse.context).read(source.version)
            return measure(rows, source.schema, exact=False)
        except Unsupported:
            if not is_plain(source):
                raise
    store = Files(source.root, warehouse.context.storage)
    return measure(rows_of(source, store, source.files if paths is None else paths), source.schema)


def _total(state: TargetState) -> int | None:
    counts = [count for count in state.files.values() if count is not None]
    return sum(counts) if len(counts) == len(state.files) else None


def _is_done(change: TargetChange, note: SyncNote, before: TargetState) -> bool:
    """Whether the target is what it would become."""
    mark = "" if before.note is None else before.note.mark
    return before.note == replace(note, mark=mark) and not change.added and not change.removed


def _is_redefined(source: SharedVersion, note: SyncNote, before: TargetState) -> bool:
    """Whether files that were there already are read otherwise now."""
    return before.note is None or before.note.columns != note.columns or before.partition_by != source.partition_by


def _digest(source: SharedVersion) -> str:
    """What tells one set of columns from another."""
    told = source.schema.to_string(show_field_metadata=True, show_schema_metadata=False)
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
