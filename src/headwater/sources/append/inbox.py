"""The inbox of a topic: appended rows lie here, durably, until the topic has them.

`inbox/<time>-<rows>-<tag>.ndjson` in the flow's folder is one append. Its name sorts in order of arrival; every line
begins with the record's position, and what is told of its decimals after a space. `keys/<tag>.json` remembers an append
that was given a key.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from headwater.core.errors import Code, IntegrityError, UsageError
from headwater.core.storage import Files
from headwater.sources.append.records import JsonRecords
from headwater.sources.decoders.base import HEAD

INBOX = "inbox"
LARGE = "!"
"""Stands before the size of a row of which only the beginning is here."""
KEYS = "keys"
REMEMBERED = 7 * 24 * 3600.0
"""Seconds for which the key of an append is known after its rows are in the topic."""
LONGEST_KEY = 1024
_NAME = re.compile(r"^(\d{20})-(\d+)-(k[0-9a-f]{32}|[0-9a-f]{12})\.ndjson$")


@dataclass(frozen=True)
class Waiting:
    """One append that waits."""

    name: str
    bytes: int

    @property
    def rows(self) -> int:
        return int(self.name.split("-")[1])

    @property
    def tag(self) -> str:
        return self.name.split("-")[2].removesuffix(".ndjson")

    @property
    def since(self) -> float:
        """Seconds since 1970."""
        return int(self.name[:20]) / 1e9


@dataclass(frozen=True)
class Receipt:
    """What became of an append: its rows are durable."""

    name: str
    rows: int
    repeated: bool = False

    @property
    def position(self) -> str:
        """What the positions of its records begin with."""
        return self.name.removesuffix(".ndjson")


@dataclass(frozen=True)
class KeyRecord:
    """An append that was given a key."""

    key: str
    digest: str
    name: str
    rows: int
    committed_at: float | None = None


class Inbox:
    """The inbox in a flow's folder; any number of processes may put into it, one takes out."""

    def __init__(self, folder: Files) -> None:
        self._files = folder

    # --- those who append

    def put(self, rows: JsonRecords, key: str | None = None, *, limit: int | None = None) -> Receipt:
        """Keep the rows. Given again with the same key they are not kept again; other rows are KEY_REUSED. Of a row of
        more bytes than `limit` the beginning is kept."""
        kept = rows.lines
        if key is None:
            receipt = Receipt(_name(len(kept), uuid.uuid4().hex[:12]), len(kept))
            self._write(receipt, rows, limit)
            return receipt
        tag = _tag(key)
        digest = hashlib.sha256("\n".join(kept).encode("utf-8")).hexdigest()
        mine = KeyRecord(key, digest, _name(len(kept), tag), len(kept))
        while True:
            first = self._files.write_new(_key_path(tag), json.dumps(asdict(mine)))
            known = mine if first else self._key(tag)
            if known is not None:  # else it was forgotten this moment
                break
        if known.digest != digest:
            raise UsageError(
                Code.KEY_REUSED,
                f"the key '{key}' was used for other rows",
                hint="give each append a key of its own, and the same key only with the same rows",
            )
        receipt = Receipt(known.name, known.rows, repeated=not first)
        if known.committed_at is None:
            # The first try may have died before its rows were written. If they are there nothing happens; if the
            # topic takes them this moment, the reader knows by the key that it has them.
            self._write(receipt, rows, limit)
        return receipt

    def holds(self, name: str) -> bool:
        """Whether an append still waits for the topic."""
        return self._files.exists(f"{INBOX}/{name}")

    def _write(self, receipt: Receipt, rows: JsonRecords, limit: int | None) -> None:
        told = [f" {one}" if one else "" for one in rows.decimals] or [""] * len(rows.lines)
        lines = enumerate(_bounded(of, line, limit) for of, line in zip(told, rows.lines, strict=True))
        content = "".join(f"{receipt.position}#{n:010d}{of}\t{line}\n" for n, (of, line) in lines)
        self._files.write_new(f"{INBOX}/{receipt.name}", content)

    # --- the one that takes out

    def waiting(self) -> list[Waiting]:
        """What waits, in order of arrival."""
        found = (entry for entry in self._files.list(INBOX) if _NAME.match(entry.name))
        return [Waiting(entry.name, entry.bytes) for entry in found]

    def is_taken(self, one: Waiting) -> bool:
        """Whether the topic has it already: a late try with a key may bring back what was taken."""
        if not one.tag.startswith("k"):
            return False
        known = self._key(one.tag)
        return known is not None and known.committed_at is not None

    def read(self, name: str) -> bytes:
        return self._files.read_bytes(f"{INBOX}/{name}")

    def spark_path(self, name: str) -> str:
        return self._files.spark_pattern(f"{INBOX}/{name}")

    def taken(self, names: Iterable[str]) -> None:
        """The topic has these: keys are told first, so that no try can bring the rows back. May be repeated."""
        for name in names:
            one = Waiting(name, 0)
            known = self._key(one.tag) if one.tag.startswith("k") else None
            if known is not None and known.committed_at is None:
                committed = replace(known, committed_at=time.time())
                self._files.write_atomic(_key_path(one.tag), json.dumps(asdict(committed)))
            self._files.delete(f"{INBOX}/{name}")

    def forget(self, before: float) -> None:
        """Let go of the keys of appends that the topic has had since before then."""
        for tag, known in self._keys():
            if known.committed_at is not None and known.committed_at < before:
                self._files.delete(_key_path(tag))

    # --- keys

    def _keys(self) -> Iterator[tuple[str, KeyRecord]]:
        for entry in self._files.list(KEYS):
            tag = entry.name.removesuffix(".json")
            known = self._key(tag)
            if known is not None:
                yield tag, known

    def _key(self, tag: str) -> KeyRecord | None:
        path = _key_path(tag)
        found = self._files.find(path)
        try:
            return None if found is None else KeyRecord(**json.loads(found))
        except (ValueError, TypeError) as error:
            message = f"the key record {self._files.join(path)} can't be read: {error}"
            raise IntegrityError(Code.LEDGER_CORRUPT, message) from error


def _bounded(told: str, line: str, limit: int | None) -> tuple[str, str]:
    """A row and what is told of it; of one that is too large its beginning, and how large it was."""
    if limit is None or len(line) * 4 <= limit:
        return told, line
    data = line.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return told, line
    return f" {LARGE}{len(data)}", data[:HEAD].decode("utf-8", "ignore")


def _name(rows: int, tag: str) -> str:
    return f"{time.time_ns():020d}-{rows}-{tag}.ndjson"


def _key_path(tag: str) -> str:
    return f"{KEYS}/{tag}.json"


def _tag(key: str) -> str:
    if not key or len(key) > LONGEST_KEY:
        raise UsageError(Code.INVALID_VALUE, f"a key has 1 to {LONGEST_KEY} characters")
    return "k" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
