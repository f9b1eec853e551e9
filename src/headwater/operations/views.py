"""What people do with views: make, refresh, explain, verify, read, drop."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from sqlglot import exp

from headwater.core.errors import Code, TerminalError, UsageError, Where
from headwater.core.model import Kind
from headwater.core.spec import Refresh, View
from headwater.core.spec.base import placed
from headwater.exports.interop.sync import drop_targets
from headwater.flows.ledger import Ledger, flow_name
from headwater.formats.registry import FORMATS
from headwater.incremental.relations import current_versions
from headwater.operations import tags
from headwater.operations.view_lookups import refreshes_of, require_view, views_below, views_read_by
from headwater.query import gathered
from headwater.query.settings import Stale
from headwater.query.spark.safety import require_safe_text, with_windows_inside
from headwater.runner.holds import alone, holding
from headwater.spark.errors import spark_errors
from headwater.spark.session import activate, fork
from headwater.sql.dialect import Headwater
from headwater.sql.parse import parse_query
from headwater.sql.schemas import without_schema
from headwater.views.compile import bind_query, compiled
from headwater.views.descriptions import DroppedView
from headwater.views.explain import Explanation, explained
from headwater.views.flow import ViewFlow, open_flow
from headwater.views.records import Refreshed, now, record_of
from headwater.views.retired import Retired
from headwater.views.status import compiled_of
from headwater.views.verify import Verified, verify
from headwater.warehouse import Warehouse, fingerprint

NAME = re.compile(r"[a-z][a-z0-9_]*")


def refresh_of(
    *,
    mode: str | None = None,
    every: str | timedelta | None = None,
    max_staleness: str | timedelta | None = None,
    policy: str = "auto",
) -> Refresh:
    """When and how a view is refreshed, as a project file would say it."""
    given = {"mode": mode, "every": every, "max_staleness": max_staleness, "policy": policy}
    try:
        return Refresh.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        raise UsageError(Code.INVALID_VALUE, error.errors()[0]["msg"].removeprefix("Value error, ")) from error


def create_view(
    warehouse: Warehouse,
    name: str,
    sql: str,
    refresh: Refresh | None = None,
    *,
    replace: bool = False,
    format: str | None = None,
    partition_by: Sequence[str] = (),
    z_order_by: Sequence[str] = (),
    description: str = "",
) -> Refreshed:
    """Make a view by a statement and build it; with `replace` alongside the one of its name, whose place it takes."""
    if not NAME.fullmatch(name):
        raise UsageError(Code.INVALID_NAME, f"'{name}' is no name", hint="a name is [a-z][a-z0-9_]*")
    sql = without_schema(sql, warehouse.project.name)
    if name in warehouse.project.views:
        raise UsageError(
            Code.DUPLICATE_NAME,
            f"view '{name}' is defined by the project",
            where=warehouse.project.views[name].where,
            hint="change it there",
        )
    if warehouse.record(Kind.VIEW, name) is not None and not replace:
        raise UsageError(
            Code.ALREADY_EXISTS, f"view '{name}' exists already", hint="--replace, or CREATE OR REPLACE, rebuilds it"
        )
    if format is not None:
        FORMATS.get(format)
    try:
        made = View(
            sql=sql,
            refresh=refresh or Refresh(),
            format=format,
            partition_by=tuple(partition_by),
            z_order_by=tuple(z_order_by),
            description=description,
        )
    except ValidationError as error:
        raise UsageError(Code.INVALID_VALUE, error.errors()[0]["msg"]) from error
    definition = placed(made, name, Where("statement"))
    with _opened(warehouse, name, definition) as flow:
        _require_no_circle(warehouse, name, flow)
        if definition.refresh.policy == "incremental_strict":
            end = current_versions(flow.refresher.view_query.inputs())
            refused = compiled(flow.refresher.view_query, flow.refresher.spark, end).refused
            if refused is not None:
                raise UsageError(Code.NOT_INCREMENTAL, refused.message(), hint=refused.hint or None)
        return _done(flow, full="it is the first build" if flow.ledger.last() is None else "it was rebuilt")


def refresh_view(
    warehouse: Warehouse,
    name: str,
    policy: str | None = None,
    *,
    rebuild: bool = False,
    unless: Callable[[], bool] = lambda: False,
) -> Refreshed:
    """Bring a view up to date now, by its policy or by another; `rebuild`: as if it had never been built. `unless`:
    asked when its turn has come, as somebody else may have refreshed it meanwhile."""
    require_view(warehouse, name)
    with _opened(warehouse, name) as flow:
        if unless():
            return refreshes_of(warehouse, name)[-1]
        if rebuild:
            flow.ledger.restart(empty=False)
            return _done(flow, full="it is rebuilt")
        flow.refresher.policy = policy
        return _done(flow, full="it was asked for" if policy == "full" else None)


def refresh_with_sources(
    warehouse: Warehouse, name: str, policy: str | None = None, unless: Callable[[], bool] = lambda: False
) -> list[Refreshed]:
    """Bring a view up to date after the views that it reads, in their order."""
    done: list[Refreshed] = []
    for each in [*views_below(warehouse, name), name]:
        done.append(refresh_view(warehouse, each, policy if each == name else None, unless=unless))
    return done


def explain_view(warehouse: Warehouse, name: str) -> Explanation:
    """The maintenance plan of a view, and what the next refresh would do."""
    require_view(warehouse, name)
    definition = warehouse.definition(Kind.VIEW, name)
    assert isinstance(definition, View)
    with _session(warehouse) as spark:
        flow = open_flow(warehouse, name, spark)
        end = current_versions(flow.refresher.view_query.inputs())
        made = explained(name, definition.refresh.policy, flow.refresher.compiled(end), flow.outlook())
        if not warehouse.project.problems:
            flow.refresher.notes.put_explanation(compiled_of(warehouse, definition), made)
        return made


def explain_query(warehouse: Warehouse, sql: str, *, read_only: bool = False) -> Explanation:
    """How a query would be kept as a view."""
    with _session(warehouse) as spark:
        parsed = parse_query(sql)
        if read_only:
            sql = with_windows_inside(parsed).sql(dialect=Headwater)
        query = bind_query(warehouse, sql, spark)
        if read_only:
            names = {cte.alias for cte in parsed.find_all(exp.CTE)}
            require_safe_text(spark, query.text, names.union(query.relations))
        return explained("query", "auto", compiled(query, spark, current_versions(query.inputs())))


def verify_view(warehouse: Warehouse, name: str, limit: int = 20) -> Verified:
    """Compare a view with its query at the versions that it names."""
    require_view(warehouse, name)
    with _session(warehouse) as spark:
        return verify(open_flow(warehouse, name, spark), limit)


def drop_view(warehouse: Warehouse, name: str, *, if_exists: bool = False) -> DroppedView:
    """Drop a view with its table; refused while another one reads it."""
    if name not in warehouse.names(Kind.VIEW):
        if if_exists:
            return DroppedView(name, dropped=False)
        raise warehouse.unknown(Kind.VIEW, name)
    readers = [
        other for other in warehouse.names(Kind.VIEW) if other != name and name in views_read_by(warehouse, other)
    ]
    if readers:
        raise UsageError(Code.USAGE, f"view '{name}' is read by {', '.join(readers)}", hint="drop those first")
    flow = flow_name(name, Kind.VIEW)
    with alone(warehouse, flow, wait=True):
        _open.get(warehouse, {}).pop(name, None)
        drop_targets(warehouse, Kind.VIEW, name)
        Ledger(warehouse.files, flow).restart(empty=True)
        if warehouse.record(Kind.VIEW, name) is not None:
            warehouse.table(Kind.VIEW, name).drop()
            Retired(warehouse.files, flow).drop(warehouse.spark, warehouse.context, at_once=True)
        warehouse.state.remove(Kind.VIEW, name)
        tags.forget(warehouse, Kind.VIEW, name)
        gathered.forget(warehouse, Kind.VIEW, name)
        warehouse.files.delete(f"_headwater/flows/{flow}")
    return DroppedView(name, dropped=True, defined=name in warehouse.project.views)


def freshen(warehouse: Warehouse, name: str, stale: Stale = "refresh", *, may_refresh: bool = True) -> None:
    """Before a view is read: one of mode `on_query` that is older than its `max_staleness` is refreshed, taken as it
    is, or refused; the reader chooses, and needs the permission to refresh it."""
    require_view(warehouse, name)
    definition = warehouse.definition(Kind.VIEW, name)
    assert isinstance(definition, View)
    if definition.refresh.mode != "on_query" or stale == "serve":
        return
    longest = definition.refresh.max_staleness or timedelta(0)

    def is_fresh() -> bool:
        age = staleness(warehouse, name)
        return age is not None and age <= longest

    if is_fresh():
        return
    if stale == "fail":
        age = staleness(warehouse, name)
        told = "has never been refreshed" if age is None else f"was refreshed {int(age.total_seconds())} s ago"
        raise TerminalError(Code.VIEW_STALE, f"view '{name}' {told}", hint=f"refresh it: headwater mv refresh {name}")
    warehouse.project.require_whole()
    if not may_refresh:
        raise UsageError(
            Code.NOT_ALLOWED,
            f"view '{name}' is older than its max_staleness, and this read-only query may not refresh it",
            hint="allow it with --may-refresh, or take the rows as they are: --set headwater.stale=serve",
        )
    refresh_with_sources(warehouse, name, unless=is_fresh)


def staleness(warehouse: Warehouse, name: str) -> timedelta | None:
    """How long ago a view was looked at; None if it never was."""
    last = next(reversed(refreshes_of(warehouse, name)), None)
    return None if last is None else datetime.now(timezone.utc) - datetime.fromisoformat(last.at)


# --- parts


def _done(flow: ViewFlow, full: str | None) -> Refreshed:
    done = flow.refresh(full=full)
    if done is None:
        recorded = {label: {"before": p.version, "after": p.version} for label, p in flow.recorded().items()}
        nothing = Refreshed(flow.name, "none", "nothing is new", 0, 0, watermarks=recorded, at=now())
        flow.refresher.notes.add(nothing)
        flow.refresher.storage.warehouse.state.note(record_of(nothing))
        return nothing
    return done


_open: WeakKeyDictionary[Warehouse, dict[str, ViewFlow]] = WeakKeyDictionary()
"""Views that commands have refreshed: what Spark has found out about their queries is known the next time."""


@contextmanager
def _opened(warehouse: Warehouse, name: str, definition: View | None = None) -> Iterator[ViewFlow]:
    """A view's flow while nobody else refreshes it: other threads of this process wait for their turn. With another
    `definition` no runner has it meanwhile: it would build the view by the old one again."""
    held = holding if definition is None else alone
    with held(warehouse, flow_name(name, Kind.VIEW), wait=True) as guard:
        known = _open.setdefault(warehouse, {})
        flow, found = known.pop(name, None), definition or warehouse.definition(Kind.VIEW, name)
        outer = warehouse.spark
        fits = flow is not None and flow.definition == fingerprint(found)
        if flow is None or not fits or flow.refresher.spark.sparkContext is not outer.sparkContext:
            flow = open_flow(warehouse, name, fork(outer), guard, definition)
        flow.refresher.guard, flow.refresher.policy = guard, None
        activate(flow.refresher.spark)
        try:
            with spark_errors(f"view '{name}'"):
                yield flow
        finally:
            activate(outer)
        known[name] = flow  # one that failed is opened again


@contextmanager
def _session(warehouse: Warehouse) -> Iterator[Any]:
    """A session of its own: the query's names for its relations are views in it."""
    outer = warehouse.spark
    spark = fork(outer)
    activate(spark)
    try:
        with spark_errors():
            yield spark
    finally:
        activate(outer)


def _require_no_circle(warehouse: Warehouse, name: str, flow: ViewFlow) -> None:
    for relation in flow.refresher.view_query.inputs():
        if relation.kind is not Kind.VIEW:
            continue
        if relation.name == name or name in views_below(warehouse, relation.name):
            raise UsageError(Code.CYCLE, f"view '{name}' would read itself, by way of {relation.label}")
