"""Whether a run that is to come to an end has anything to do, told without Spark.

Most runs of a schedule find nothing new. A flow is idle if its last step has landed, is of today's definition, and ends
where its input ends. Whatever can't be told so counts as something to do: then Spark is started, and the flow itself
looks. It takes no step, so nothing here has to be exact but the word "idle".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from headwater.core.logs import get_logger
from headwater.core.model import Kind
from headwater.core.spec import Table, Topic
from headwater.flows.ledger import Intent, Ledger, flow_name
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import streaming_tables
from headwater.runner.setups.topics import made_by_topic, reader_context
from headwater.sources.reader import open_reader
from headwater.tables.forward import made_by
from headwater.views.status import has_all_of, is_up_to_date, last_landed
from headwater.warehouse import Warehouse, fingerprint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = get_logger(__name__)


class _SessionNeeded(BaseException):
    """No `Exception`: what a reader takes for a fault of its source and passes over must not hide it."""


class _NoSession:
    """Stands where a reader of a source is given a session: one that needs it can't be asked without Spark."""

    def __getattr__(self, name: str) -> Any:
        raise _SessionNeeded(f"its source is asked with Spark alone ({name})")


def are_idle(warehouse: Warehouse, flows: Sequence[str]) -> bool:
    """Whether none of these flows has anything to do now."""
    return all(_is_idle(warehouse, flow) for flow in flows)


def _is_idle(warehouse: Warehouse, flow: str) -> bool:
    plural, _, name = flow.partition(".")
    kind = next((kind for kind in Kind if kind.plural == plural), None)
    if kind is None:  # an export: its target is asked with Spark
        return False
    try:
        if kind is Kind.VIEW:
            return is_up_to_date(warehouse, name)
        definition = warehouse.definition(kind, name)
        return _has_read_all(warehouse, definition) if isinstance(definition, Topic) else _is_kept(warehouse, name)
    except (Exception, _SessionNeeded) as error:  # the flow itself says what is wrong
        log.info("flow not known to be idle", flow=flow, error=str(error))
        return False


def _has_read_all(warehouse: Warehouse, topic: Topic) -> bool:
    intent = last_landed(warehouse, Kind.TOPIC, topic.name, made_by_topic(warehouse, topic))
    if intent is None:
        return False
    ledger = Ledger(warehouse.files, flow_name(topic.name))
    context = reader_context(warehouse, topic, ledger, cast("SparkSession", _NoSession()))
    with closing(open_reader(warehouse.project.sources[topic.from_], context)) as reader:
        reader.freeze()
        if reader.next(intent.end.get(topic.from_)) is not None:
            return False
        reader.committed(intent.end[topic.from_])  # as a flow does when it is opened: it may not have been told
    return True


def _is_kept(warehouse: Warehouse, name: str) -> bool:
    project = warehouse.project
    table = project.tables[name]
    if name in streaming_tables(project) or table.seed is not None or _may_owe(table):
        return False
    intent: Intent | None = last_landed(warehouse, Kind.TABLE, name, _definition_of(warehouse, table))
    reads = [each.of for each in graph_of(project).inputs[Name(Kind.TABLE, name)]]
    return intent is not None and has_all_of(warehouse, intent, reads, table.sql or "")


def _definition_of(warehouse: Warehouse, table: Table) -> str:
    """As its flow writes it into its intents."""
    return fingerprint(table) if table.apply is not None else made_by(warehouse.project, table)


def _may_owe(table: Table) -> bool:
    """Whether a step may be due though nothing has come: a history that an earlier release wrote."""
    return table.apply is not None and table.apply.history == "all"
