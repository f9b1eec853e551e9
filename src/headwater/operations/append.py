"""Rows handed to a topic by a program: durable first, then, if the caller likes to wait, in the topic."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headwater.core.errors import Code, HeadwaterError, TerminalError, UsageError
from headwater.core.model import Kind, Version
from headwater.core.record import Record
from headwater.core.spec import Topic
from headwater.core.storage import Files
from headwater.flows.ledger import flow_name
from headwater.formats.base import Address
from headwater.formats.registry import SYSTEM_FORMAT
from headwater.sources.append.inbox import Inbox, Receipt
from headwater.sources.append.records import Rows, records
from headwater.warehouse import Warehouse

POLL = 0.03
"""Seconds between two looks whether the rows have been taken."""
ASK_EVERY = 0.5
"""Seconds between two questions to the state database about who runs the flow."""
GIVEN_UP = 3.0
"""Seconds for which a flow has to be said to have failed: a new runner's first word takes a moment."""


@dataclass(frozen=True)
class Appended(Record):
    """What became of rows that were appended."""

    topic: str
    rows: int
    rejected: int | None
    """How many became dead letters; None: not known yet."""
    key: str | None
    version: Version | None
    """The topic's version that has them; None: not known."""
    repeated: bool
    """They were handed over before, with the same key."""
    committed: bool
    """The topic has them; else they are kept, and it takes them in when its flow runs."""


@dataclass
class Outcome:
    """What is known of an append by now; None is 'not known'."""

    committed: bool = False
    version: Version | None = None
    rejected: int | None = None


def append(warehouse: Warehouse, topic: str, rows: Rows, *, key: str | None, wait: bool) -> Appended:
    """Keep the rows, and wait until the topic has them if asked to."""
    definition = warehouse.definition(Kind.TOPIC, topic)
    assert isinstance(definition, Topic)
    source = warehouse.project.sources[definition.from_]
    if not source.takes_rows:
        raise UsageError(
            Code.USAGE,
            f"topic '{topic}' can't be appended to: it is fed by source '{source.name}' of type {source.type}",
            where=definition.where,
            hint="a topic that takes rows has a source of `type: append`",
        )
    warehouse.state.require_own()
    warehouse.require_lake()
    flow = flow_name(topic)
    inbox = Inbox(Files(warehouse.files.join("_headwater/flows", flow), warehouse.context.storage))
    receipt = inbox.put(records(rows), key, limit=source.max_record_size)
    outcome = Outcome(committed=not inbox.holds(receipt.name))
    if wait:
        outcome = _Waiter(warehouse, flow, inbox, receipt).outcome()
        if outcome.committed and outcome.rejected is None:
            outcome.rejected = _rejected(warehouse, topic, receipt)
    return Appended(topic, receipt.rows, outcome.rejected, key, outcome.version, receipt.repeated, outcome.committed)


class _Waiter:
    """Waits for whoever runs the flow; where nobody does, takes its steps here."""

    def __init__(self, warehouse: Warehouse, flow: str, inbox: Inbox, receipt: Receipt) -> None:
        self._warehouse = warehouse
        self._flow = flow
        self._inbox = inbox
        self._receipt = receipt
        self._failed_since: float | None = None
        self._found = Outcome()

    def outcome(self) -> Outcome:
        while self._waits():
            if self._is_run_elsewhere():
                self._look_on()
                if self._is_paused() and self._waits():
                    return self._found
            elif not self._run():
                return self._found
        self._found.committed = True
        return self._found

    def _waits(self) -> bool:
        return self._inbox.holds(self._receipt.name)

    def _is_run_elsewhere(self) -> bool:
        from headwater.runner.leases import held

        state = self._warehouse.state
        record = state.lease(self._flow)
        return record is not None and held(record, state.now()).live

    def _look_on(self) -> None:
        """For a while, or until the rows are taken; an error if whoever runs the flow has given it up."""
        until = time.monotonic() + ASK_EVERY
        while time.monotonic() < until and self._waits():
            time.sleep(POLL)
        status = self._warehouse.state.statuses().get(self._flow, {})
        if status.get("state") != "failed" or not self._waits():
            self._failed_since = None
            return
        now = time.monotonic()
        self._failed_since = self._failed_since or now
        if now - self._failed_since > GIVEN_UP:
            raise TerminalError(
                Code.COMMIT_FAILED,
                f"{self._flow} was given up: {status.get('error')}",
                hint=f"the rows are stored, and ingested when you resume it: headwater flow resume {self._flow}",
            )

    def _is_paused(self) -> bool:
        control = self._warehouse.state.controls().get(self._flow)
        return control is not None and control.paused

    def _run(self) -> bool:
        """Take all steps that can be taken; False if the flow is paused."""
        from headwater.runner.reports import FlowEvent, FlowState
        from headwater.runner.runner import Runner

        def listen(event: FlowEvent) -> None:
            if event.event == "step" and self._found.version is None and not self._waits():
                version = event.details["version"]
                self._found.version = version if isinstance(version, int) else None
                if not event.details["rejected"]:
                    self._found.rejected = 0

        [report] = Runner(self._warehouse, once=True, on_event=listen, select=[self._flow]).run()
        error: HeadwaterError | None = report.error
        if error is not None and error.code is not Code.FLOW_HELD and self._waits():
            raise error
        return report.state is not FlowState.PAUSED


def _rejected(warehouse: Warehouse, topic: str, receipt: Receipt) -> int:
    """How many of the rows became dead letters."""
    from headwater.ingest.dead_letter_list import PATH

    open_native = SYSTEM_FORMAT.native
    assert open_native is not None
    dead_letters = open_native(Address(path=warehouse.files.join(PATH)), warehouse.context)
    if dead_letters.version() is None:
        return 0
    begin = f"{receipt.position}#"
    found = 0
    for batch in dead_letters.read(columns=["topic", "position"]):
        pairs = zip(batch.column("topic").to_pylist(), batch.column("position").to_pylist(), strict=True)
        found += sum(1 for name, position in pairs if name == topic and str(position).startswith(begin))
    return found
