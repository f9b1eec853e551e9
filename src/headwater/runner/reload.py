"""A running runner takes up a changed project: checked and planned first, and only the flows concerned begin again."""

from __future__ import annotations

import glob
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Code, HeadwaterError, ProjectError, TerminalError, UsageError
from headwater.core.logs import get_logger
from headwater.core.record import Record
from headwater.operations.plan import prepare, require_applied
from headwater.project.check import check_project
from headwater.project.definition import ProjectDefinition
from headwater.project.load.code import own_modules, reimported
from headwater.project.load.loader import load_project
from headwater.project.load.sql_files import FOLDERS
from headwater.project.plan import Action, plan
from headwater.runner.reports import FlowEvent
from headwater.runner.supervisor import Supervisor, setups_by_flow
from headwater.spark.errors import as_headwater_error
from headwater.warehouse import Warehouse

if TYPE_CHECKING:
    from headwater.runner.runner import Runner

EVERY = 0.5
"""Seconds between two looks at the files of a project that is watched; a change has to rest for as long."""
_TAKEN_UP = frozenset({"description", "code", "defaults", "format", "trigger", "include", "server"})
"""Settings that a runner needs no new start for."""

log = get_logger(__name__)


@dataclass(frozen=True)
class Reloaded(Record):
    """What a reload did: the flows that began, began again, and ended. All others never noticed."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Reload:
    """One per runner. It is done in the runner's own thread: what it says there goes where the run speaks, and not to
    the command that asks."""

    def __init__(self, runner: Runner, flows: Supervisor) -> None:
        self.asked: queue.SimpleQueue[tuple[bool, Future[Reloaded]]] = queue.SimpleQueue()
        self._runner = runner
        self._flows = flows
        self._warehouse = runner.warehouse

    def ask(self, *, apply: bool) -> Reloaded:
        """Have it done, and wait for that."""
        answer: Future[Reloaded] = Future()
        self.asked.put((apply, answer))
        return answer.result()

    def now(self, *, apply: bool = False) -> Reloaded:
        """Read the project's files and go on by them. A project that is broken, or asks for what has not been allowed,
        is refused, and nothing has changed."""
        project = self._warehouse.project
        with self._flows.changing:
            with reimported(project.root):
                changed = load_project(project.file, project.target)
                problems = check_project(changed)
                if problems:
                    raise ProjectError(problems)
            done = self._take_up(changed, apply=apply or self._runner.apply)
        if self._runner.door is not None:
            self._runner.door.renew(changed)
        self._runner.tell(FlowEvent("reloaded", None, done.to_dict()))
        return done

    def _take_up(self, project: ProjectDefinition, *, apply: bool) -> Reloaded:
        warehouse, flows = self._warehouse, self._flows
        before = warehouse.project
        _require_same_settings(before, project)
        session = _session(project)
        named, warehouse.project = self._runner.named, project
        try:
            self._runner.choose_again()
            setups = {one.flow: one for one in self._runner.chosen()}
            steps = [one for one in plan(project, warehouse.state.relations()) if str(one.name) in setups]
            require_applied(warehouse, steps, apply=apply)
            running = {keeper.setup.flow: keeper.setup for keeper in flows.keepers}
            stepped = {str(one.name) for one in steps if one.action in (Action.CHANGE, Action.REBUILD)}
            rebuilt = {str(one.name) for one in steps if one.action is Action.REBUILD}
            changed = [
                flow
                for flow, old in running.items()
                if flow in setups
                and (setups[flow].made_of != old.made_of or flow in stepped or setups[flow].after & rebuilt)
            ]
            removed = [flow for flow in running if flow not in setups]
            added = [flow for flow in setups if flow not in {*running, *flows.left_out, *flows.lent}]
            flows.stop([*changed, *removed])
            prepare(warehouse, set(setups), apply=apply)
        except BaseException:
            warehouse.project, self._runner.named = before, named  # what was stopped begins again, as it was
            raise
        flows.named = self._runner.named
        flows.follow(setups_by_flow(setups.values(), project.views), session)
        return Reloaded(tuple(added), tuple(changed), tuple(removed))


def _require_same_settings(before: ProjectDefinition, after: ProjectDefinition) -> None:
    """Refuse what a runner takes up only when it starts."""
    old, new = before.settings.model_dump(), after.settings.model_dump()
    changed = [key for key in new if key not in _TAKEN_UP and new[key] != old[key]]
    if _dumped(before.catalogs) != _dumped(after.catalogs):
        changed.append("catalogs")
    if changed:
        raise UsageError(
            Code.RESTART_NEEDED,
            f"`{'`, `'.join(changed)}` {'has' if len(changed) == 1 else 'have'} changed",
            where=after.where(changed[0]),
            hint="a runner takes that up when it starts: stop it, and run it again",
        )


def _dumped(definitions: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.model_dump() for name, one in definitions.items()}


def _session(project: ProjectDefinition) -> Any:
    """A session of the Spark that runs, with what the project needs; refused where that Spark lacks something."""
    warehouse = Warehouse(project)
    try:
        return warehouse.spark
    except UsageError as error:
        if error.code is not Code.SESSION_FAILED:
            raise
        raise UsageError(
            Code.RESTART_NEEDED,
            f"the project needs more than the runner's Spark has: {error.problem.message}",
            hint="stop the runner, and run it again",
        ) from error
    finally:
        warehouse.close()


# --- who asks for it

_reloads: dict[tuple[Path, str | None], Reload] = {}
"""The runners of this process, by project file and target."""


def reload_here(file: Path, target: str | None, *, apply: bool) -> Reloaded:
    """Have the runner of this process take up its project as it is now."""
    running = _reloads.get((file, target))
    if running is None:
        raise TerminalError(
            Code.NO_RUNNER,
            f"no runner is up for {file.parent}"
            + (" without a target" if target is None else f" and the target {target}")
            + ", in an environment like this one",
            hint="`headwater run` starts one with the current project",
        )
    return running.ask(apply=apply)


@contextmanager
def reloadable(runner: Runner, flows: Supervisor) -> Iterator[None]:
    """While this is open commands, a signal and changes of watched files can reload the project."""
    reload, project = Reload(runner, flows), runner.warehouse.project
    key, over = (project.file, project.target), threading.Event()
    _reloads[key] = reload
    listener = threading.Thread(target=_listen, args=(runner, reload, over), name="reload", daemon=True)
    listener.start()
    try:
        yield
    finally:
        if _reloads.get(key) is reload:
            del _reloads[key]
        over.set()
        listener.join()
        while not reload.asked.empty():
            reload.asked.get()[1].set_exception(TerminalError(Code.NO_RUNNER, "the runner has ended meanwhile"))


def _listen(runner: Runner, reload: Reload, over: threading.Event) -> None:
    """Reload where a signal asks for it, or a watched file has changed and then been left alone for a moment."""
    known = seen = _files(runner.warehouse.project) if runner.watch else {}
    while not over.is_set():
        _answer(reload)
        asked = runner.reloading.is_set()
        runner.reloading.clear()
        if runner.watch:
            files = _files(runner.warehouse.project)
            asked = asked or (files != known and files == seen)
            seen = files
            known = files if asked else known
        if asked:
            _reload(runner, reload)


def _answer(reload: Reload) -> None:
    """Do what a command asks for, if one does before it is time to look at the files."""
    try:
        apply, answer = reload.asked.get(timeout=EVERY)
    except queue.Empty:
        return
    try:
        answer.set_result(reload.now(apply=apply))
    except BaseException as caught:
        answer.set_exception(caught)


def _reload(runner: Runner, reload: Reload) -> None:
    """Nobody waits for an answer: what is wrong is said where the run speaks."""
    try:
        reload.now()
    except Exception as caught:
        error: HeadwaterError = as_headwater_error(caught)
        log.error("reload refused", error=str(error), exc_info=caught)
        runner.tell(FlowEvent("reload_refused", None, {"errors": [str(one) for one in error.problems]}))


def _files(project: ProjectDefinition) -> dict[Path, tuple[int, int]]:
    """What the project was read from, and what would be read today, by when it changed and how large it is."""
    files = {}
    for file in _read(project):
        try:
            at = file.stat()
        except OSError:
            continue
        files[file] = (at.st_mtime_ns, at.st_size)
    return files


def _read(project: ProjectDefinition) -> Iterable[Path]:
    root = project.root
    yield project.file
    yield from {root / where.file for where in project.places.values()}
    for folder in FOLDERS:
        yield from (root / folder).glob("*.sql")
    for pattern in project.settings.include:
        yield from map(Path, glob.glob(str(Path(glob.escape(str(root)), pattern)), recursive=True))
    if project.settings.code is not None:
        yield root / project.settings.code
    yield from own_modules(root).values()
