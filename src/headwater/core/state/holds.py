"""What keeps versions from being expired while something open reads them: a query, or whatever else has an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import datetime, timezone

from headwater.core.errors import HeadwaterError
from headwater.core.logs import get_logger
from headwater.core.model import Kind, Version
from headwater.core.state.lake import State
from headwater.core.state.records import HoldRecord

HELD_AFTER = 2.0
"""Seconds after which a reader registers what it reads. Most are over by then, and cost the state nothing; whoever
expires versions waits for longer than that between the choice of versions and their end."""
LONGEST = 24 * 3600.0
"""Seconds after which a hold is void, unless its reader says for how long: one that is killed lets go of nothing."""

log = get_logger(__name__)


class VersionHolds:
    """The versions that one reader reads, from when it begins until `release`."""

    def __init__(self, state: State, reader: str, seconds: float | None = None) -> None:
        """`reader` is its name in messages; `seconds`: how long it may last at most."""
        self._state = state
        begun = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        self._reader = f"{reader} since {begun}"
        self._until = time.time() + (LONGEST if seconds is None else seconds)
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._wanted: dict[str, Version] = {}
        self._registered: dict[str, str] = {}
        self._over = False

    def hold(self, versions: Mapping[str, Version | None]) -> None:
        """It reads these versions too, by their relations: `topics.orders`."""
        with self._lock:
            self._wanted.update({name: version for name, version in versions.items() if version is not None})
            if self._timer is None and self._wanted and not self._over:
                self._timer = threading.Timer(HELD_AFTER, self._register)
                self._timer.daemon = True
                self._timer.name = "holds"
                self._timer.start()

    def release(self) -> None:
        """It has come to its end."""
        with self._lock:
            self._over = True
            if self._timer is not None:
                self._timer.cancel()
            registered, self._registered = self._registered, {}
        for id in registered.values():
            try:
                self._state.drop_hold(id)
            except HeadwaterError as error:  # it is void after its time
                log.info("hold not dropped", reader=self._reader, error=str(error))

    def _register(self) -> None:
        with self._lock:
            self._timer = None
            if self._over:
                return
            for relation, version in self._wanted.items():
                kind, _, name = relation.partition(".")
                known = next((one for one in Kind if one.plural == kind), None)
                if known is None or relation in self._registered:
                    continue
                record = HoldRecord(known, name, version, self._reader, self._until)
                try:
                    self._state.put_hold(record)
                    self._registered[relation] = record.id
                except HeadwaterError as error:
                    log.warning("hold not registered", reader=self._reader, error=str(error))
