"""In which order the flows of a lake are backed up: each before what it reads.

A flow says up to which version of its inputs it has read. What is copied after it holds that version, or a later one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from headwater.core.errors import HeadwaterError
from headwater.core.model import Kind
from headwater.core.spec import Topic, View
from headwater.flows.ledger import flow_name
from headwater.project.graph import graph_of
from headwater.sources.table.config import TableSource
from headwater.sql.references import parse_query, references, resolve
from headwater.warehouse import Warehouse


def downstream_first(warehouse: Warehouse, flows: Iterable[str]) -> list[str]:
    """The flows, each before those that it reads; what is not in the project goes by its kind."""
    inputs = _inputs(warehouse)
    reading = {flow_name(name) for name, topic in warehouse.project.topics.items() if _reads_tables(warehouse, topic)}
    wanted = sorted(flows, key=lambda flow: (flow in reading, _rank(flow), flow))
    done: dict[str, None] = {}

    def visit(flow: str, above: Collection[str]) -> None:
        for each in sorted(inputs.get(flow, ())):
            if each not in above:
                visit(each, {*above, flow})
        if flow in wanted:
            done.setdefault(flow)

    for flow in wanted:
        visit(flow, ())
    return list(done)[::-1]


def _rank(flow: str) -> int:
    kinds = [kind.plural for kind in Kind]
    kind = flow.partition(".")[0]
    return kinds.index(kind) if kind in kinds else len(kinds)


def _reads_tables(warehouse: Warehouse, topic: Topic) -> bool:
    return isinstance(warehouse.project.sources.get(topic.from_), TableSource)


def _inputs(warehouse: Warehouse) -> Mapping[str, frozenset[str]]:
    known = {kind: warehouse.names(kind) for kind in Kind}
    graph = graph_of(warehouse.project, known).inputs
    found = {str(name): frozenset(str(each.of) for each in reads) for name, reads in graph.items()}
    for record in warehouse.state.relations(Kind.VIEW):
        if record.statement is None:
            continue
        sql = View.model_validate_json(record.statement).sql
        try:
            reads = [flow_name(each.name, resolve(each, known)) for each in references(parse_query(sql))]
        except HeadwaterError:  # what it reads has been dropped
            continue
        found[flow_name(record.name, Kind.VIEW)] = frozenset(reads)
    return found
