"""The nodes of a lake that selectors choose among: its sources, and every relation that is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.core.errors import Code, HeadwaterError, UsageError
from headwater.core.model import Kind
from headwater.core.spec import View
from headwater.core.spec.base import Definition
from headwater.exports.definitions import streams
from headwater.flows.ledger import flow_name
from headwater.project.selectors import FlowSelection, Node, Selector
from headwater.runner.setups.setup import EXPORTS, flow_names
from headwater.warehouse import Warehouse

BY_ITSELF = ("immediate", "periodic")
"""Modes of views that a runner refreshes without being told their names."""


def select_flows(
    warehouse: Warehouse, wanted: Sequence[str], exclude: Sequence[str] = (), *, strict: bool = True
) -> FlowSelection:
    """The flows that are meant; all for none. What selects nothing is an error, unless not `strict`."""
    flows = flow_names(warehouse)
    if not exclude and (plain := _by_name(flows, wanted)) is not None:
        return plain
    return Selector({node.name: node for node in _nodes(warehouse, flows)}).select(wanted, exclude, strict=strict)


def _by_name(flows: Sequence[str], wanted: Sequence[str]) -> FlowSelection | None:
    """Without a look at what reads what, which takes longer: all flows, or those whose names are given."""
    named = [[flow for flow in flows if one in (flow, flow.partition(".")[2])] for one in wanted]
    if any(len(some) != 1 for some in named):
        return None
    chosen = frozenset(some[0] for some in named)
    return FlowSelection(tuple(flow for flow in flows if not wanted or flow in chosen), chosen)


def flows_to_run(
    warehouse: Warehouse, wanted: Sequence[str], exclude: Sequence[str] = (), *, strict: bool = True
) -> frozenset[str]:
    """The same for a run: views that wait to be asked are left out where they are not given by name."""
    selected = select_flows(warehouse, wanted, exclude, strict=strict)
    waiting = {flow for flow in selected.flows if flow not in selected.by_name and _waits(warehouse, flow)}
    if strict and waiting == set(selected.flows):
        raise UsageError(
            Code.UNKNOWN_FLOW,
            f"{', '.join(sorted(waiting))}: views that wait to be asked run only where they are given by name",
        )
    return frozenset(selected.flows) - waiting


def _waits(warehouse: Warehouse, flow: str) -> bool:
    kind, _, name = flow.partition(".")
    if kind != Kind.VIEW.plural:
        return False
    definition = warehouse.definition(Kind.VIEW, name)
    return isinstance(definition, View) and definition.refresh.mode not in BY_ITSELF


def _nodes(warehouse: Warehouse, flows: Sequence[str]) -> Iterator[Node]:
    from headwater.project.graph import graph_of  # with what parses SQL: a name needs none of it

    project = warehouse.project
    for name, source in project.sources.items():
        yield Node(f"sources.{name}", "source", *_described(source), is_flow=False)
    inputs = {str(name): frozenset(str(each.of) for each in reads) for name, reads in graph_of(project).inputs.items()}
    seen = set[str]()
    for kind in Kind:
        views = warehouse.views() if kind is Kind.VIEW else []
        for name in dict.fromkeys([*project.relations(kind), *views]):
            flow = flow_name(name, kind)
            definition = warehouse.definition(kind, name)
            reads = inputs.get(flow)
            if reads is None and kind is Kind.TOPIC:
                reads = frozenset({f"sources.{getattr(definition, 'from_', '')}"})
            seen.add(flow)
            yield Node(
                flow,
                kind.value,
                *_described(definition),
                format=warehouse.format(kind, name).name,
                inputs=_read_by(warehouse, definition) if reads is None else reads,
                is_flow=flow in flows,
            )
    copies = streams(warehouse)
    for flow in flows:
        of = copies.get(flow.removeprefix(f"{EXPORTS}.")) if flow.startswith(f"{EXPORTS}.") else None
        if of is not None:
            from headwater.exports.selection import relation_named  # with Spark's side, which a name does without

            kind_read, name_read = relation_named(warehouse, of.from_)
            reads = frozenset({flow_name(name_read, kind_read)})
            yield Node(flow, "export", *_described(of), format=of.format, inputs=reads, is_flow=True)
        elif flow not in seen:  # of a project with mistakes, whose definition could not be read
            yield Node(flow, next((kind.value for kind in Kind if flow.startswith(f"{kind.plural}.")), ""))


def _described(definition: Definition) -> tuple[Sequence[str], str | None]:
    return tuple(definition.tags), definition.owner


def _read_by(warehouse: Warehouse, definition: Definition) -> frozenset[str]:
    """What the query of a view that a statement made reads."""
    from headwater.sql.references import parse_query, references, resolve

    sql = getattr(definition, "sql", None)
    if sql is None:
        return frozenset()
    known = {kind: warehouse.names(kind) for kind in Kind}
    try:
        return frozenset(flow_name(one.name, resolve(one, known)) for one in references(parse_query(sql)))
    except HeadwaterError:  # what it reads has been dropped
        return frozenset()
