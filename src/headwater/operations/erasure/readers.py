"""What is made of a topic, in order: who it is, and how it is brought up to date while no runner has it."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.core.errors import HeadwaterError, TerminalError, TransientError
from headwater.core.model import Kind
from headwater.core.spec import Table, Topic
from headwater.flows.flow import Steps
from headwater.flows.ledger import Ledger, flow_name
from headwater.incremental.relations import relation_of
from headwater.operations.restore import readers
from headwater.project.graph import Name
from headwater.project.runnable import kept_tables
from headwater.project.transforms import streaming_tables
from headwater.runner.setups.setup import FlowSetup, Guard
from headwater.runner.setups.streams import stream_setup
from headwater.runner.setups.tables import table_setup
from headwater.runner.setups.topics import topic_setup
from headwater.runner.setups.views import view_setups
from headwater.spark.errors import as_headwater_error
from headwater.spark.session import activate, fork
from headwater.warehouse import Warehouse

TRIES = 4
"""A flow that finds its input changed starts again, and is opened again."""


def made_from(warehouse: Warehouse, topic: str) -> list[Name]:
    """Tables and views that are made of a topic, each after what it reads itself."""
    order: dict[Name, None] = {}

    def visit(name: Name, path: tuple[Name, ...]) -> None:
        for reader in readers(warehouse, name):
            if reader not in path:
                visit(reader, (*path, reader))
        if name.kind is not Kind.TOPIC:
            order.setdefault(name)

    start = Name(Kind.TOPIC, topic)
    visit(start, (start,))
    return [name for name in reversed(order) if warehouse.record(name.kind, name.name) is not None]


def is_kept(warehouse: Warehouse, name: Name) -> bool:
    """Whether a flow keeps it; a reference table is loaded by hand."""
    return name.kind is Kind.VIEW or name.name in kept_tables(warehouse.project)


def catch_up(warehouse: Warehouse, name: Name, guard: Guard) -> None:
    """Take every step that the relation's flow can take now."""
    try:
        take_all(warehouse, _setup(warehouse, name), guard)
    except HeadwaterError as error:
        raise TerminalError(
            error.code,
            f"{name} could not be brought up to date, so it still holds what is to be forgotten:"
            f" {error.problem.message}",
            where=error.problem.where,
            hint="put that right and give the command again: it goes on where it was",
        ) from error


def take_all(warehouse: Warehouse, setup: FlowSetup, guard: Guard) -> None:
    """Take every step that a flow can take now."""
    outer = warehouse.spark
    error: HeadwaterError | None = None
    for _ in range(TRIES):
        spark = fork(outer)
        activate(spark)
        flow: Steps | None = None
        try:
            flow = setup.open(spark, guard)
            flow.recover()
            flow.freeze()
            while flow.step() is not None:
                pass
            return
        except Exception as caught:
            error = as_headwater_error(caught)
            if not isinstance(error, TransientError):
                break
        finally:
            if flow is not None:
                flow.close()
            activate(outer)
    assert error is not None
    raise error


def reads_only_now(warehouse: Warehouse, name: Name) -> bool:
    """Whether a flow's last step names the present versions of all that it reads: nothing older is needed for it."""
    last = Ledger(warehouse.files, flow_name(name.name, name.kind)).last()
    if last is None:
        return True
    for label, position in last.end.items():
        kind, _, rest = label.partition(".")
        relation = next((one for one in Kind if one.plural == kind), None)
        if relation is None or not isinstance(position, dict) or "version" not in position or "@" in rest:
            continue
        now = relation_of(warehouse, relation, rest, warehouse.spark).current()
        if now is not None and position["version"] != now.version:
            return False
    return True


def old_checkpoints(warehouse: Warehouse, name: Name) -> Iterator[str]:
    """Checkpoints of a streaming query that a newer epoch has taken the place of: their state may hold anything."""
    if name.kind is not Kind.TABLE or name.name not in streaming_tables(warehouse.project):
        return
    flow = flow_name(name.name, name.kind)
    present = Ledger(warehouse.files, flow).epoch()
    for number in range(1, present.number):
        yield "/".join(["_headwater/flows", flow, *([] if number == 1 else [f"epoch-{number}"]), "checkpoint"])


def _setup(warehouse: Warehouse, name: Name) -> FlowSetup:
    if name.kind is Kind.TOPIC:
        topic = warehouse.definition(Kind.TOPIC, name.name)
        assert isinstance(topic, Topic)
        return topic_setup(warehouse, topic)
    if name.kind is Kind.VIEW:
        flow = flow_name(name.name, Kind.VIEW)
        return next(setup for setup in view_setups(warehouse, {flow}) if setup.flow == flow)
    definition = warehouse.definition(Kind.TABLE, name.name)
    assert isinstance(definition, Table)
    setup = stream_setup if name.name in streaming_tables(warehouse.project) else table_setup
    return setup(warehouse, name.name)
