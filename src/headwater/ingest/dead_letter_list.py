"""Dead letters as people look at them: read without Spark, which is only started to do something with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import Code, UsageError
from headwater.formats.base import Address, LakeContext
from headwater.formats.registry import SYSTEM_FORMAT

if TYPE_CHECKING:
    from headwater.formats.native import NativeTable

PATH = "_headwater/dead_letters"
SHOWN = ("id", "topic", "reason", "message", "position", "at")
_BY = [("at", "descending"), ("position", "ascending")]


class DeadLetterList:
    """The dead letters of a lake; Unsupported where their table can't be read without Spark."""

    def __init__(self, context: LakeContext) -> None:
        native = SYSTEM_FORMAT.native
        assert native is not None
        self._table: NativeTable = native(address_in(context), context)

    def list(
        self, topic: str | None = None, limit: int | None = None, reason: str | None = None
    ) -> list[dict[str, Any]]:
        """The newest first, without their bytes; all of them without a `limit`."""
        if not self._table.exists():
            return []
        letters = self._table.read(columns=SHOWN).read_all()
        for column, wanted in (("topic", topic), ("reason", reason)):
            if wanted is not None:
                letters = letters.filter(pc.equal(letters[column], wanted))
        rows: list[dict[str, Any]] = letters.sort_by(_BY).slice(0, limit).to_pylist()
        return rows

    def ids(self, version: int) -> frozenset[tuple[str, str]]:
        """Topic and id of each, as they were at a version."""
        letters = self._table.read(version, columns=["topic", "id"]).read_all()
        return frozenset((row["topic"], row["id"]) for row in letters.to_pylist())

    def find(self, id: str) -> dict[str, Any]:
        """One of them with its bytes, by its id or the beginning of it."""
        whole = _beginning_with(self._table.read(columns=["id"]).read_all(), id) if self._table.exists() else []
        if not whole:
            raise unknown_letter(id)
        if len(whole) > 1:
            raise UsageError(Code.NO_SUCH_DEAD_LETTER, f"more than one dead letter begins with '{id}'")
        matches = (row for batch in self._table.read() for row in _beginning_with(pa.Table.from_batches([batch]), id))
        return next(matches)


def _beginning_with(letters: pa.Table, id: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = letters.filter(pc.starts_with(letters["id"], id)).to_pylist()
    return rows


def address_in(context: LakeContext) -> Address:
    return Address(path=f"{context.warehouse.rstrip('/')}/{PATH}")


def unknown_letter(id: str) -> UsageError:
    return UsageError(Code.NO_SUCH_DEAD_LETTER, f"there is no dead letter '{id}'", hint="`headwater dlq list` has them")
