"""A table's rows, and then its changes as they are committed: a range is a part of the server's log."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from headwater.core.errors import Code, IntegrityError, TerminalError
from headwater.core.logs import get_logger
from headwater.sources.decoders.base import Decoder
from headwater.sources.postgres.cdc import snapshot, tables
from headwater.sources.postgres.cdc.acknowledged import Acknowledged
from headwater.sources.postgres.cdc.changes import position
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.cdc.copied import require_own_slot
from headwater.sources.postgres.cdc.database import CdcDatabase, Lost, show_lsn
from headwater.sources.postgres.cdc.decoder import RELATION, CdcDecoder
from headwater.sources.postgres.cdc.frames import Staged, staged_frame
from headwater.sources.postgres.cdc.hub import Hub, close_hub, open_hub
from headwater.sources.postgres.cdc.positions import LOST, WANTED, CdcPosition
from headwater.sources.postgres.cdc.relations import RelationLog, TypeCatalog
from headwater.sources.reader import POSITION, RAW, Lag, OffsetRange, Position, Reader, ReaderContext
from headwater.spark.arrow_bridge import local_frame

XID, COMMITTED_AT = "_xid", "_committed_at"
ADVANCE_EVERY = 1.0
"""Seconds between two times that the slot lets go of the log."""
LOOK_EVERY = 10.0
"""Seconds between two looks at whether slot and table are still what they were, and between two notes that nothing
came."""
POLL = 0.1
"""Seconds between two looks at where the log ends."""

log = get_logger(__name__)


class PostgresCdcReader(Reader):
    """The position is a dict; a record's `_position` is `<place of its commit>/<number in the transaction>`."""

    def __init__(self, spec: PostgresCdcSource, context: ReaderContext) -> None:
        sharing = context.sharing
        assert sharing is not None
        self._spec = spec
        self._spark = context.spark
        self._flow = context.flow
        self._notes = context.notes
        self._flows = sharing.flows
        self._table = sharing.table or spec.tables[0]
        self._is_later_epoch = context.lasting is not None and context.lasting.root != context.notes.root
        self._database = CdcDatabase(spec, sharing.project)
        require_own_slot(sharing.files, self._database.slot, spec.where)
        self._relations = RelationLog(context.lasting or context.notes)
        self._decoder = CdcDecoder(self._relations)
        self._acknowledged = Acknowledged(sharing.files)
        self._hub: Hub | None = None
        self._looked_at = 0.0
        self._noted = (0.0, 0)
        self._passed = 0
        """Up to here there was nothing for this flow after its position; written down now and then."""
        self._advanced_at = 0.0
        self._advanced_to = 0
        self._frozen: int | None = None
        self._looked_over = 0
        """The connection of the hub's over which it was last looked what has become of the source."""
        self._timeline: int | None = None
        """Of the server when it was last looked at: all that was read since lies on it."""

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def raw_decoder(self) -> Decoder:
        return CdcDecoder(self._relations)

    @property
    def metadata_columns(self) -> StructType:
        return StructType([StructField(XID, LongType()), StructField(COMMITTED_AT, TimestampType())])

    @property
    def hidden(self) -> StructType:
        return StructType([StructField(RELATION, StringType())])

    # --- ranges

    def next(self, start: Position | None) -> OffsetRange | None:
        place = CdcPosition.of(start) or self._begun()
        if place is None:
            return self._snapshot_ahead()
        try:
            if (lost := self._notes.find(LOST)) is not None:
                raise Lost(json.loads(lost))
            self._look(place)
            after = self._after(place)
            if self._frozen is not None and after >= self._frozen:
                return None
            found, tip = self._open_hub().next(self._flow, self._table, after, self._spec.max_rows, self._frozen)
            self._look(place, only_anew=True)
        except Lost as lost:
            return self._lost(lost)
        if found is None:
            self._nothing_until(tip)
            return None
        end = CdcPosition(found.end, place.system, self._timeline or place.timeline, place.table, place.member)
        return OffsetRange(end.to_json(), found.rows, found.bytes, found.full)

    def fix_range(self, start: Position | None, ahead: OffsetRange) -> Position:
        if ahead.end != WANTED:
            return ahead.end
        return self._take_snapshot(again=start is not None or self._is_later_epoch).to_json()

    def read(self, start: Position | None, end: Position) -> DataFrame:
        place = CdcPosition.of(end)
        assert place is not None
        if place.snapshot is not None:
            return self._snapshot_rows(place)
        begun = CdcPosition.of(start) or self._begun()
        assert begun is not None
        try:
            self._look(begun)
            frame = self._changes(self._after(begun), place.lsn)
            self._look(begun, only_anew=True)
            return frame
        except Lost as lost:
            if self._spec.on_data_loss == "fail":
                raise self._data_loss(lost) from lost
            # What was fixed can't be had any more, and to begin again is a range of its own, the next one.
            self._notes.write_atomic(LOST, json.dumps(str(lost)))
            self._decoder.narrow(None)
            return self._records(staged_frame(self._spark, [], self._notes, "changes/none"))

    def freeze(self) -> None:
        self._frozen = self._open_hub().ask(self._database.log_end)

    def wait(self, stopping: threading.Event, seconds: float) -> None:
        until = time.monotonic() + seconds
        hub = self._open_hub()
        while (left := until - time.monotonic()) > 0 and not stopping.wait(min(left, POLL)):
            if hub.has_grown():
                return

    def committed(self, end: Position) -> None:
        place = CdcPosition.of(end)
        assert place is not None
        self._acknowledge(place.lsn, place.timeline)
        if self._hub is not None:
            self._hub.moved(self._flow, place.lsn)
        if place.snapshot is not None:
            self._notes.delete(LOST)
        for folder in ("snapshot", "changes"):
            self._notes.delete(folder)
        if time.monotonic() - self._advanced_at > ADVANCE_EVERY:
            self._advance()

    def lag(self, start: Position | None) -> Lag | None:
        hub = self._open_hub()
        end = hub.ask(self._database.log_end)
        state = hub.ask(self._database.look)
        held = self._acknowledged.least(self._flows)
        detail: dict[str, Any] = {"slot": self._database.slot}
        if state is not None and state.restart is not None:
            detail |= {"wal_held_back": end - state.restart, "wal_status": state.wal_status}
        if held is not None:
            detail["held_by"] = held[1]
        place = CdcPosition.of(start)
        return Lag(bytes=None if place is None else max(0, end - self._after(place)), detail=detail)

    def close(self) -> None:
        hub, self._hub = self._hub, None
        if hub is None:
            return
        try:
            self._advance(hub)
        finally:
            hub.leave(self._flow)
            close_hub(hub)

    # --- where the flow stands

    def _open_hub(self) -> Hub:
        if self._hub is None:
            self._hub = open_hub(self._database)
        return self._hub

    def _after(self, place: CdcPosition) -> int:
        """What comes next was committed after this: there may have been nothing for the flow since its position."""
        return max(self._written_down(place)[0], self._passed)

    def _written_down(self, place: CdcPosition) -> tuple[int, int]:
        """How far the flow is by what is in the lake, and on which timeline that lies."""
        done, timeline = self._acknowledged.done(self._flow) or (0, None)
        return (place.lsn, place.timeline) if done <= place.lsn else (done, timeline or place.timeline)

    def _begun(self) -> CdcPosition | None:
        """Without a snapshot: where the log ended when the flow was first started."""
        if self._spec.snapshot != "never":
            return None
        kept = self._notes.find("begun.json")
        if kept is not None:
            return CdcPosition.of(json.loads(kept))
        hub = self._open_hub()
        found = hub.ask(lambda connection: tables.prepare(connection, self._database, self._table))
        state = hub.ask(self._database.make_slot)
        assert state.confirmed is not None
        self._acknowledged.claim(self._flow, state.confirmed)
        server = hub.ask(self._database.server)
        listed = hub.ask(self._published) or {}
        place = CdcPosition(server.end, server.system, server.timeline, found.oid, int(listed.get("member", 0)))
        self._notes.write_atomic("begun.json", json.dumps(place.to_json()))
        self._acknowledge(place.lsn, place.timeline)
        return place

    def _acknowledge(self, lsn: int, timeline: int) -> None:
        """Never back: a last step that is found to have landed may lie before what the slot has let go of since."""
        done, _ = self._acknowledged.done(self._flow) or (0, None)
        if lsn > done:
            self._acknowledged.put(self._flow, lsn, timeline)
        self._noted = (time.monotonic(), max(lsn, done))

    def _nothing_until(self, tip: int) -> None:
        """There was nothing for this flow: others' changes must not be held for it."""
        at, lsn = self._noted
        if tip > lsn and (time.monotonic() - at > LOOK_EVERY or self._frozen is not None):
            assert self._timeline is not None
            self._acknowledge(tip, self._timeline)
            self._advance()
        self._passed = max(self._passed, tip)
        if self._hub is not None:
            self._hub.moved(self._flow, tip)

    def _advance(self, hub: Hub | None = None) -> None:
        """Let the slot go of what all flows of the source have in the lake."""
        hub = hub or self._open_hub()
        least = self._acknowledged.least(self._flows)
        self._advanced_at = time.monotonic()
        if least is None or least[0] <= self._advanced_to:
            return
        try:
            hub.ask(lambda connection: self._database.advance(connection, least[0]))
            self._advanced_to = least[0]
        except Lost:
            self._looked_at = 0.0  # told with the next range

    # --- what may have become of the source

    def _look(self, place: CdcPosition, *, only_anew: bool = False) -> None:
        """Whether server, slot, publication and table are still what they were; Lost if not.

        Now and then, and over each new connection: another flow may have made it after the server went away.
        """
        hub, database = self._open_hub(), self._database
        lately = self._looked_at > 0 and (only_anew or time.monotonic() - self._looked_at < LOOK_EVERY)
        if lately and hub.connections == self._looked_over:
            return
        over, server = hub.ask(lambda connection: (hub.connections, database.server(connection)))
        after = self._after(place)
        if server.system != place.system:
            raise Lost(f"this is another server: its system is {server.system}, and not {place.system}")
        if server.end < after:
            raise Lost(f"the server's log ends at {show_lsn(server.end)}, before {show_lsn(after)}: it was put back")
        before = self._timeline or self._written_down(place)[1]
        if server.timeline != before:
            self._look_at_branch(before, server.timeline, after)
        state = hub.ask(database.usable)
        if state is None or state.confirmed is None:
            raise Lost(f"the replication slot '{database.slot}' is gone")
        if state.is_lost:
            raise Lost(f"the replication slot '{database.slot}' was invalidated ({state.invalidation or 'lost'})")
        if state.confirmed > after:
            raise Lost(f"the slot '{database.slot}' begins at {show_lsn(state.confirmed)}, after {show_lsn(after)}")
        self._look_at_table(hub, place)
        self._timeline, self._looked_over, self._looked_at = server.timeline, over, time.monotonic()

    def _look_at_branch(self, before: int, now: int, after: int) -> None:
        """A standby has taken over: it may not have had the last changes of the server before, and its log goes on
        from there with others."""
        branch = self._database.branches(now).get(before) if now > before else None
        if branch is None:
            raise Lost(f"this server's log is of timeline {now}, which does not come from the {before} that was read")
        if branch < after:
            raise Lost(
                f"the server that has taken over had the log up to {show_lsn(branch)} only,"
                f" and this flow has read up to {show_lsn(after)}"
            )
        log.warning("another server has taken over", source=self._spec.name, timeline=now, branch=show_lsn(branch))

    def _look_at_table(self, hub: Hub, place: CdcPosition) -> None:
        found = hub.ask(lambda connection: tables.find(connection, self._table))
        if found is None:
            behind, _ = hub.next(self._flow, self._table, self._after(place), 1, hub.ask(self._database.log_end))
            if behind is None:  # what was changed before it was dropped comes first
                hub.ask(lambda connection: tables.require(connection, self._database, self._table))
            return
        if found.oid != place.table:
            raise Lost(f"the table {self._table} was dropped and made again")
        listed = hub.ask(self._published)
        if listed is None or int(listed["member"]) != place.member:
            raise Lost(f"the table {self._table} was taken out of the publication '{self._database.publication}'")

    def _published(self, connection: Any) -> dict[str, Any] | None:
        return tables.published(connection, self._database, self._table)

    def _lost(self, lost: Lost) -> OffsetRange:
        if self._spec.on_data_loss == "fail":
            raise self._data_loss(lost)
        log.warning("changes are gone; all rows are read again", source=self._spec.name, lost=str(lost))
        return self._snapshot_ahead()

    def _data_loss(self, lost: Lost) -> TerminalError:
        flow = self._flow.partition(".")[2]
        return TerminalError(
            Code.DATA_LOSS,
            f"{self._database.server_name}: changes of {self._table} are gone before they were read: {lost}",
            where=self._spec.where,
            hint=f"`headwater flow rebuild {flow} --yes` begins again with all rows; `on_data_loss: resnapshot` does"
            " so by itself, and keeps the rows that are there",
        )

    # --- rows

    def _snapshot_ahead(self) -> OffsetRange:
        def prepare(connection: Any) -> int:
            found = tables.prepare(connection, self._database, self._table)
            state = self._database.usable(connection)
            if state is not None and state.is_lost:
                self._database.drop_slot(connection)  # it can't be read any more, by nobody
            self._database.make_slot(connection)
            size = connection.execute("SELECT pg_table_size(%s::oid::regclass)", [found.oid]).fetchone()
            return int(size[0])

        return OffsetRange(WANTED, bytes=self._open_hub().ask(prepare), full=True)

    def _take_snapshot(self, *, again: bool) -> CdcPosition:
        hub, database = self._open_hub(), self._database
        state = hub.ask(database.make_slot)
        assert state.confirmed is not None
        # From here on the slot holds the log for this flow, too: the snapshot is taken after that.
        self._acknowledged.claim(self._flow, state.confirmed)
        server = hub.ask(database.server)
        folder = f"snapshot/{time.time_ns()}"
        self._notes.delete("snapshot")
        taken = snapshot.take(self._spark, database, self._table, TypeCatalog(), self._notes.spark_uri(folder))
        self._relations.add(taken.relation)
        self._timeline, self._looked_at, self._passed, self._advanced_to = server.timeline, 0.0, 0, 0
        return CdcPosition(taken.lsn, server.system, server.timeline, taken.oid, taken.member, folder, again)

    def _snapshot_rows(self, place: CdcPosition) -> DataFrame:
        folder = place.snapshot or ""
        if not self._notes.exists(folder):
            raise IntegrityError(
                Code.LEDGER_CORRUPT,
                f"the rows of {self._table} that {self._flow} was taking in are gone: {self._notes.join(folder)}",
                hint=f"`headwater flow rebuild {self._flow.partition('.')[2]} --yes` begins again with all rows",
            )
        self._decoder.narrow(None)
        rows = self._spark.read.schema(f"{snapshot.RAW_TEXT} string, {snapshot.NUMBER} long").parquet(
            self._notes.spark_pattern(folder)
        )
        taken_at = F.timestamp_micros(F.lit(int(folder.rpartition("/")[2]) // 1000))
        before = position(place.lsn - 1, 0).rpartition("/")[0]
        number = F.lpad((F.col(snapshot.NUMBER) + 1).cast("string"), 20, "0")
        raw = F.col(snapshot.RAW_TEXT)
        records = rows.select(
            raw.cast("binary").alias(RAW),
            F.concat(F.lit(f"{before}/"), number).alias(POSITION),
            F.substring(raw, len('{"relation":"') + 1, 12).alias(RELATION),
            F.lit(None).cast(LongType()).alias(XID),
            taken_at.alias(COMMITTED_AT),
        )
        return records.unionByName(self._taken_back(place, taken_at)) if place.again else records

    def _taken_back(self, place: CdcPosition, at: Any) -> DataFrame:
        """What the topic has of before is void."""
        newest = self._relations.all()[-1]
        raw = json.dumps({"relation": newest.id, "op": "t"}).encode()
        one = pa.table({RAW: [raw], POSITION: [position(place.lsn - 1, 0)], RELATION: [newest.id]})
        frame = local_frame(self._spark, one)
        return frame.select("*", F.lit(None).cast(LongType()).alias(XID), at.alias(COMMITTED_AT))

    def _changes(self, after: int, end: int) -> DataFrame:
        hub = self._open_hub()
        with closing(hub.read(self._flow, self._table, after, end)) as records:
            found = staged_frame(self._spark, records, self._notes, f"changes/{end}")
        for id in found.relations:
            self._relations.add(hub.relation(id))
        self._decoder.narrow(found.relations)
        return self._records(found)

    def _records(self, found: Staged) -> DataFrame:
        return found.frame.select(RAW, POSITION, RELATION, XID, COMMITTED_AT)
