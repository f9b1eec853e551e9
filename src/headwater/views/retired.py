"""Tables that a view had before the one that it has: they stay for a while, for those who still read them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from headwater.core.errors import HeadwaterError
from headwater.core.logs import get_logger
from headwater.core.storage import Files
from headwater.exports.interop.targets import records
from headwater.formats.base import Address, LakeContext
from headwater.formats.registry import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GRACE = timedelta(hours=1)
"""For so long who began to read a table that was replaced can read it to its end."""

log = get_logger(__name__)


@dataclass(frozen=True)
class _Table:
    format: str
    path: str | None
    table: str | None
    at: str


class Retired:
    """Those of one flow, in a list in its folder."""

    def __init__(self, files: Files, flow: str) -> None:
        self._files = files
        self._list = f"_headwater/flows/{flow}/retired.json"

    def add(self, format: str, address: Address) -> None:
        """From now on nobody begins to read it."""
        at = datetime.now(timezone.utc).isoformat()
        self._write([*self._all(), _Table(format, address.path, address.table, at)])

    def forget(self, address: Address) -> None:
        """There is going to be another table in its place."""
        tables = self._all()
        kept = [one for one in tables if (one.path, one.table) != (address.path, address.table)]
        if kept != tables:
            self._write(kept)

    def drop(self, spark: SparkSession, context: LakeContext, *, at_once: bool = False) -> None:
        """Drop those whose time is over; `at_once`: all of them. What fails is tried again with the next refresh."""
        tables = self._all()
        named = frozenset() if at_once else frozenset(record.root for record in records(self._files))
        going = [one for one in tables if at_once or (_is_over(one) and one.path not in named)]
        kept = [one for one in tables if one not in going or not _dropped(one, spark, context)]
        if kept != tables:
            self._write(kept)

    def _all(self) -> list[_Table]:
        text = self._files.find(self._list)
        return [] if text is None else [_Table(**one) for one in json.loads(text)]

    def _write(self, tables: list[_Table]) -> None:
        self._files.write_atomic(self._list, json.dumps([asdict(one) for one in tables], sort_keys=True))


def _is_over(table: _Table) -> bool:
    return datetime.now(timezone.utc) - datetime.fromisoformat(table.at) >= GRACE


def _dropped(table: _Table, spark: SparkSession, context: LakeContext) -> bool:
    address = Address(table.path, table.table)
    try:
        FORMATS.get(table.format).spark(spark, address, context).drop()
    except HeadwaterError as error:
        log.warning("a table that was replaced is still there", table=str(address), reason=str(error))
        return False
    return True
