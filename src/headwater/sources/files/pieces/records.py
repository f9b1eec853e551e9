"""Records while they are put together: what is too large is counted, and only its beginning is kept."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.sources.decoders.base import HEAD


@dataclass(frozen=True)
class Large:
    """A record that is too large."""

    size: int
    head: bytes
    """Its first bytes."""


Record = bytes | Large


class PartialRecord:
    """One record after the other, of parts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._size = 0
        self.begun = False

    def add(self, part: bytes) -> None:
        self.begun = True
        self._size += len(part)
        if self._size <= self._limit:
            self._data += part
        elif len(self._data) < HEAD:
            self._data += part[: HEAD - len(self._data)]
        elif len(self._data) > HEAD:
            del self._data[HEAD:]

    def take(self) -> Record:
        """The record; the next one begins."""
        small = self._size <= self._limit
        found = bytes(self._data) if small else Large(self._size, bytes(self._data[:HEAD]))
        self._data, self._size, self.begun = bytearray(), 0, False
        return found
