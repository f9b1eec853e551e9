"""What people ask of views and Spark need not be started for: how they are, how they are kept, that nothing is new."""

from __future__ import annotations

from dataclasses import replace

from headwater.core.model import Column, Kind
from headwater.core.spec import View
from headwater.flows.ledger import flow_name
from headwater.operations.shown_columns import shown_columns
from headwater.runner.holds import holding
from headwater.views.descriptions import ViewDescription, ViewSummary
from headwater.views.explanation import Explanation
from headwater.views.records import Notes, Refreshed, now, record_of
from headwater.views.status import is_up_to_date, made_of, noted_explanation, read_by
from headwater.warehouse import Warehouse


def summary_of(warehouse: Warehouse, name: str) -> ViewSummary:
    """How a view is kept and how its last refresh went."""
    definition = _definition(warehouse, name)
    record = warehouse.record(Kind.VIEW, name)
    last = next(reversed(refreshes_of(warehouse, name)), None)
    return ViewSummary(
        name=name,
        format=warehouse.format(Kind.VIEW, name).name,
        mode=definition.refresh.mode,
        policy=definition.refresh.policy,
        origin="project" if name in warehouse.project.views else "statement",
        location=None if record is None else str(warehouse.address(Kind.VIEW, name)),
        refreshed_at=None if last is None else last.at,
        last_refresh=None if last is None else last.refresh_type,
        description=definition.description,
    )


def list_views(warehouse: Warehouse) -> list[ViewSummary]:
    """Every view: how it is kept and how its last refresh went."""
    return [summary_of(warehouse, name) for name in warehouse.names(Kind.VIEW)]


def describe_view(warehouse: Warehouse, name: str) -> ViewDescription:
    """What a view is: its query, columns, versions of its sources, and its last refreshes."""
    require_view(warehouse, name)
    summary, sql = vars(summary_of(warehouse, name)), _definition(warehouse, name).sql
    if warehouse.record(Kind.VIEW, name) is None:
        return ViewDescription(**summary, sql=sql)
    return ViewDescription(
        **summary,
        sql=sql,
        columns=tuple(Column(one.name, one.short_type) for one in shown_columns(warehouse, Kind.VIEW, name)),
        version=warehouse.lookup(Kind.VIEW, name).version(),
        watermarks=made_of(warehouse, name),
        refreshes=tuple(reversed(refreshes_of(warehouse, name)[-10:])),
    )


def explained_without_spark(warehouse: Warehouse, name: str) -> Explanation | None:
    """How a view is kept, where that was noted when it was compiled and nothing is new; else None.

    NO_SUCH_RELATION where it was not, and something that the view reads has no data.
    """
    require_view(warehouse, name)
    noted = noted_explanation(warehouse, name)
    if noted is None:
        for one in read_by(warehouse, _definition(warehouse, name).sql):
            warehouse.lookup(one.kind, one.name)  # one without data is an error that needs no Spark
    if noted is None or not is_up_to_date(warehouse, name):
        return None
    return replace(noted, policy=_definition(warehouse, name).refresh.policy, next="nothing is new")


def refreshed_without_spark(warehouse: Warehouse, name: str) -> Refreshed | None:
    """The outcome of a refresh that finds nothing new in a view and in those that it reads; else None."""
    require_view(warehouse, name)
    below = views_below(warehouse, name)
    if not all(is_up_to_date(warehouse, each) for each in [*below, name]):
        return None
    for each in below:
        _note_nothing(warehouse, each)
    return _note_nothing(warehouse, name)


def _note_nothing(warehouse: Warehouse, name: str) -> Refreshed:
    places = {label: {"before": at, "after": at} for label, at in made_of(warehouse, name).items()}
    nothing = Refreshed(name, "none", "nothing is new", 0, 0, watermarks=places, at=now())
    with holding(warehouse, flow_name(name, Kind.VIEW), wait=True):
        Notes(warehouse.files, flow_name(name, Kind.VIEW), 0).add(nothing)
    warehouse.state.note(record_of(nothing))
    return nothing


def views_below(warehouse: Warehouse, name: str) -> list[str]:
    """The views that a view reads, directly or not, each after those that it reads itself."""
    order: dict[str, None] = {}

    def visit(one: str) -> None:
        for below in views_read_by(warehouse, one):
            visit(below)
            order.setdefault(below)

    visit(name)
    return list(order)


def refreshes_of(warehouse: Warehouse, name: str) -> list[Refreshed]:
    """How its refreshes went, newest last."""
    return Notes(warehouse.files, flow_name(name, Kind.VIEW), 0).refreshes()


def require_view(warehouse: Warehouse, name: str) -> None:
    if name not in warehouse.names(Kind.VIEW):
        raise warehouse.unknown(Kind.VIEW, name)


def views_read_by(warehouse: Warehouse, name: str) -> list[str]:
    """The views that a view reads."""
    sql = _definition(warehouse, name).sql
    return [one.name for one in read_by(warehouse, sql) if one.kind is Kind.VIEW]


def _definition(warehouse: Warehouse, name: str) -> View:
    definition = warehouse.definition(Kind.VIEW, name)
    assert isinstance(definition, View)
    return definition
