"""Whether the lake and its state are where they were, and what is done if they are not.

Both hold the lake's id, and the places where they were seen last. A lake with the same id in another place was moved
if the old place is gone, and is a copy if the lake is still there. A copy gets an id of its own.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, UsageError
from headwater.core.logs import get_logger
from headwater.core.private_files import create_private, make_private
from headwater.core.progress import notice
from headwater.core.state import LAKE_FORMAT, LakeRecord, State
from headwater.core.storage import Files
from headwater.formats.relocation import inside
from headwater.project.definition import ProjectDefinition
from headwater.recovery.catalog import has_outdated_catalog
from headwater.recovery.context import Context
from headwater.recovery.identity import LakeIdentity, is_at, is_same_place, require_known_format
from headwater.recovery.manifest import Manifest
from headwater.recovery.unfinished import require_restored

log = get_logger(__name__)


def reconcile(project: ProjectDefinition, state: State, *, making: bool = False, reading: bool = False) -> None:
    """Before a state is used. `making`: the lake is about to be written for the first time; `reading`: it is about to
    be read, so that a store is asked too."""
    lake = Context(project, state)
    require_restored(lake.files, lake.home)
    asked = making or reading or lake.files.is_local
    if (making or reading or _can_be_read(lake)) and not _is_as_it_was(lake, making=making, asked=asked):
        with _alone(lake.home):
            if not _is_as_it_was(lake, making=making, asked=asked):
                _reconcile(lake, making=making)
    state.copy = Manifest(lake.files, partial(_alone, lake.home))
    state.refusal = _refusal(lake)


def require_readable(project: ProjectDefinition, state: State) -> None:
    """Instead of `reconcile` where a lake is only looked at: refuse one of a newer Headwater, put nothing right."""
    lake, known = Context(project, state), state.lake()
    require_restored(lake.files, lake.home)
    require_known_format(lake.files, None if known is None else known.format)
    if lake.files.is_local and _can_be_read(lake) and (told := LakeIdentity.read(lake.files)) is not None:
        require_known_format(lake.files, told.format)


def require_lake(project: ProjectDefinition, state: State) -> None:
    """Raise where the state's lake is not at its place any more: asked before the lake is read, written or planned.

    A disk that is not mounted leaves an empty folder, in which a new lake would be begun.
    """
    lake, known = Context(project, state), state.lake()
    if known is None or known.warehouse != lake.warehouse or not lake.files.is_local or lake.files.exists("_headwater"):
        return
    fresh = f"make the folder {lake.in_warehouse('_headwater')}" if state.is_shared else f"delete {lake.home}"
    there = "nothing of it is in that folder" if lake.files.exists() else "there is no such folder"
    raise TransientError(
        Code.STORAGE_FAILED,
        f"the lake {lake.warehouse} is gone: {there}",
        hint=f"mount its disk, or put the lake back; to begin an empty one there, {fresh}",
    )


def _can_be_read(lake: Context) -> bool:
    """Whether the lake is within reach. Where it is not, whoever needs it says so, and what needs none is done."""
    if not lake.files.is_local:
        return True
    try:
        LakeIdentity.read(lake.files)
    except HeadwaterError as error:
        if error.code is not Code.STORAGE_FAILED:
            raise
        log.warning("the lake can't be read", reason=str(error))
        return False
    return True


def _is_as_it_was(lake: Context, *, making: bool, asked: bool) -> bool:
    """Whether there is nothing to put right. `making`: nor a version of the lake's layout to write down. What needs no
    lake works where its store can't be reached: that is only `asked` when the lake is used."""
    known = lake.state.lake()
    if known is None or known.warehouse != lake.warehouse:
        return False
    require_known_format(lake.files, known.format)
    if lake.lacks_catalog or (making and known.format != LAKE_FORMAT):
        return False
    if known.home != lake.home and not lake.state.is_shared and not _is_another_home(lake, known):
        return False
    if not asked:
        return True
    told = LakeIdentity.read(lake.files)
    if told is None:
        return False
    require_known_format(lake.files, told.format)
    if lake.manifest.revision() != known.revision or has_outdated_catalog(lake):
        return False
    return told.id == known.id and told.warehouse == lake.warehouse and not (making and told.format != LAKE_FORMAT)


def _reconcile(lake: Context, *, making: bool) -> None:
    from headwater.recovery.relocation import relocate_lake  # hardly ever needed

    told, known = LakeIdentity.read(lake.files), lake.state.lake()
    if told is None:
        told = _unnamed(lake, known, making=making)
        if told is None:
            return
    require_known_format(lake.files, told.format)
    if known is not None and known.id != told.id:
        _leave(lake, known)
        known = None
    moved = told.warehouse != lake.warehouse
    elsewhere = moved and not is_same_place(told.warehouse, lake.warehouse)
    copied = elsewhere and is_at(
        partial(_at, lake, told.warehouse), told.id, unreachable=True
    )  # a copy touches nothing of it
    is_new = known is None and not lake.state.relations()
    if copied and known is not None and lake.state.is_shared:
        raise TerminalError(
            Code.LAKE_COPIED,
            f"the lake {lake.warehouse} is a copy of {told.warehouse}, and the state that they share is the original's",
            hint="give the copy's project a `state` of its own",
        )
    if copied and known is not None and known.home == lake.home:
        require_idle(lake.state, lake.home, known.warehouse)
    if moved:
        notice(f"the lake {lake.warehouse} {'is a copy of' if copied else 'was moved from'} {told.warehouse}")
        relocate_lake(lake, told.warehouse, known.home if known is not None else told.home, copied=copied)
    elif known is not None and known.home != lake.home and not (lake.state.is_shared or _is_another_home(lake, known)):
        relocate_lake(lake, told.warehouse, known.home, copied=False)
    if copied:
        lake.state.forget_runners()
        told = LakeIdentity.new(lake.warehouse, lake.home, copied_from=told.id)
    if is_new and not _is_kept_elsewhere(lake, told):
        _rebuild(lake)
    elif lake.lacks_catalog or (moved and known is None):
        _register(lake)
    if known is not None and lake.manifest.revision() != known.revision:
        _renew(lake)
    _update_catalog(lake)
    _write_identity(lake, told)


def _unnamed(lake: Context, known: LakeRecord | None, *, making: bool) -> LakeIdentity | None:
    """The identity of a lake that has none yet; None where there is no lake."""
    if not making and not lake.files.exists("_headwater"):
        if known is not None and known.warehouse != lake.warehouse and _is_there(lake, known):
            _leave(lake, known)
        return None
    if known is not None and known.warehouse == lake.warehouse:
        return LakeIdentity(known.id, lake.warehouse, known.home)
    if known is not None:
        return LakeIdentity.new(lake.warehouse, lake.home)
    from headwater.recovery.relocation import old_place, relocate_lake

    before = old_place(lake)
    if before is None:
        return LakeIdentity.new(lake.warehouse, lake.home)
    home = str(Path(before).parent / Path(lake.home).name)
    found = LakeIdentity.new(before, home)
    if _at(lake, before).exists("_headwater"):
        found.write(lake.files)  # for a moment both have the id: this one is the copy
        if LakeIdentity.read(_at(lake, before)) is None:
            notice(f"the lake {lake.warehouse} is a copy of {before}")
            relocate_lake(lake, before, home, copied=True)
            lake.state.forget_runners()
            return LakeIdentity.new(lake.warehouse, lake.home)
    return found


def _leave(lake: Context, known: LakeRecord) -> None:
    """The state is of another lake than the one that the project names now: begin with an empty one."""
    require_idle(lake.state, lake.home, known.warehouse)
    notice(f"the project's state was that of the lake {known.warehouse}, and is now that of {lake.warehouse}")
    lake.state.clear()
    lake.catalog.remove(row for row in lake.catalog.rows() if inside(row.metadata, known.warehouse) is not None)


def require_idle(state: State, home: str, warehouse: str) -> None:
    """Refuse while a runner keeps the lake that the state is of."""
    now = state.now()
    for flow, lease in state.leases().items():
        if now < lease.expires_at:
            raise UsageError(
                Code.FLOW_HELD,
                f"{Path(home).name} holds the state of the lake {warehouse}, where {flow} is being run",
                hint="stop that runner before you go to another lake",
            )


def _rebuild(lake: Context) -> None:
    from headwater.recovery.rebuild import rebuild

    names, registered = rebuild(lake)
    if names:
        more = f"; Iceberg tables registered again: {len(registered)}" if registered else ""
        notice(f"there was no state: it was rebuilt from the lake {lake.warehouse}; relations: {len(names)}{more}")


def _register(lake: Context) -> None:
    from headwater.recovery.catalog import register

    registered = register(lake)
    if registered:
        notice(f"the embedded catalog was lost: registered again from the lake: {', '.join(registered)}")


def _renew(lake: Context) -> None:
    """The state is of another time than the lake, a copy of it that was put back: what the lake says is so."""
    from headwater.recovery.rebuild import renew

    changed = renew(lake)
    if changed:
        notice(
            f"the state was not that of the lake {lake.warehouse} as it is now, and was rebuilt from it:"
            f" {', '.join(changed)}; what `flow pause` has told flows may be of that time too"
        )


def _update_catalog(lake: Context) -> None:
    from headwater.recovery.catalog import update

    updated = update(lake)
    if updated:
        notice(f"the embedded catalog was older than the lake: brought up to date from it: {', '.join(updated)}")


def _write_identity(lake: Context, told: LakeIdentity) -> None:
    """Write down where both are now. A lake that can't be written is left without: it can still be read."""
    kept_elsewhere = _is_kept_elsewhere(lake, told)
    here = LakeIdentity(told.id, lake.warehouse, told.home if kept_elsewhere else lake.home, told.copied_from)
    try:
        lake.manifest.add_missing(lake.records())
        if LakeIdentity.read(lake.files) != here:
            here.write(lake.files)
    except HeadwaterError as error:
        if error.code is not Code.WAREHOUSE_UNWRITABLE:
            raise
        return
    known = lake.state.lake()
    home = known.home if known is not None and _is_another_home(lake, known) else lake.home
    lake.state.set_lake(LakeRecord(here.id, lake.warehouse, home, LAKE_FORMAT, lake.manifest.revision()))


def _refusal(lake: Context) -> HeadwaterError | None:
    """A project that was copied without its lake may read that, and not write to it alongside the original."""
    known = lake.state.lake()
    if known is None or lake.state.is_shared or not _is_another_home(lake, known):
        return None
    return TerminalError(
        Code.LAKE_COPIED,
        f"this project is a copy of the one in {Path(known.home).parent}, and the lake {known.warehouse} is that one's",
        hint="copy the lake too and name the copy as `warehouse`, or let both share a `state` in a database",
    )


def _is_another_home(lake: Context, known: LakeRecord) -> bool:
    """Whether the state is a copy of another project's, which is still there and runs the same lake."""
    if lake.state.is_shared or known.home == lake.home or is_same_place(known.home, lake.home):
        return False
    return _runs(known.home, known.id, known.warehouse) and known.warehouse == lake.warehouse


def _is_kept_elsewhere(lake: Context, told: LakeIdentity) -> bool:
    """Whether another project's state, which is still there, is the one of this lake."""
    if told.home == lake.home or is_same_place(told.home, lake.home) or lake.state.is_shared:
        return False
    return told.warehouse == lake.warehouse and _runs(told.home, told.id, told.warehouse)


def _runs(home: str, id: str, warehouse: str) -> bool:
    """Whether the state in a folder is that of a lake."""
    found = State.lake_in(Path(home))
    return found is not None and (found.id, found.warehouse) == (id, warehouse)


def _is_there(lake: Context, known: LakeRecord) -> bool:
    """Whether the lake that the state knows is certainly where it was."""
    return is_at(partial(_at, lake, known.warehouse), known.id, unreachable=False)


def _at(lake: Context, warehouse: str) -> Files:
    return Files(warehouse, lake.context.storage)


@contextmanager
def _alone(home: str) -> Iterator[None]:
    """One thread of one process of this machine at a time; who has it already goes on."""
    with _one:
        if home in _held:
            yield
            return
        file = Path(home) / "lake.lock"
        make_private(file.parent)
        create_private(file)
        with file.open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _held.add(home)
            try:
                yield
            finally:
                _held.discard(home)


_one = threading.RLock()
_held: set[str] = set()
