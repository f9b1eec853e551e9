"""Whether the warehouse is still mounted: a disk that is gone leaves an empty folder, which must not be filled."""

from __future__ import annotations

import uuid

from headwater.core.errors import Code, TransientError
from headwater.core.storage import Files
from headwater.recovery.identity import PATH as LAKE

_MARKER = "_headwater/warehouse.id"


class Mount:
    """A runner's look at the warehouse, before every step and every commit. Object stores are not mounted."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._id: bytes | None = None

    def check(self) -> None:
        """Raise unless the warehouse is the one that the runner began with."""
        if not self._files.is_local:
            return
        if self._id is None:
            self._id = self._begun()
        if self._files.find(_MARKER) != self._id:
            raise self._gone(_MARKER)

    def _gone(self, file: str) -> TransientError:
        return TransientError(
            Code.STORAGE_FAILED,
            f"the warehouse at {self._files.root} is gone: it has no {file} as at the start of the runner",
            hint="mount its disk again; the flow then continues by itself",
        )

    def _begun(self) -> bytes | None:
        if not self._files.exists(LAKE):
            raise self._gone(LAKE)
        self._files.write_new(_MARKER, uuid.uuid4().hex)
        return self._files.find(_MARKER)
