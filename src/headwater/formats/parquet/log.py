"""The log of a plain Parquet table: one small file per version, and now and then the whole state.

`<table>/_headwater/<version, 20 digits>.json` is written once, when the version's files are in place: with it
the version is there. `….checkpoint.json` holds the state at a version, and `_last.json` names the newest
checkpoint, so that opening a table does not read its whole history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

from headwater.core.errors import Code, IntegrityError, TerminalError, TransientError
from headwater.core.model import At, Commit, CommitTag, Version
from headwater.core.storage import Files

CREATE = "create"
APPEND = "append"
COMPACT = "compact"
ADD_COLUMNS = "add columns"
WIDEN = "widen columns"

FOLDER = "_headwater"
CHECKPOINT_EVERY = 10
POINTER = f"{FOLDER}/_last.json"
_ENTRY = ".json"
_CHECKPOINT = ".checkpoint.json"

T = TypeVar("T")
Schema = Mapping[str, Any]
"""A schema as Spark writes it in JSON."""


@dataclass(frozen=True)
class TableLogFile:
    """A data file as the log knows it."""

    path: str
    bytes: int
    rows: int
    partition: Mapping[str, str | None] = field(default_factory=dict)
    generation: int = 0
    """Which of the table's generations of types it was written in."""
    added: str | None = None
    """When its version was committed; states tell it, entries have it once for all their files."""


@dataclass(frozen=True)
class LogEntry:
    """One version: what made it and what it changed."""

    version: Version
    committed_at: datetime
    operation: str
    attempt: str
    commit_tag: CommitTag | None = None
    added: tuple[TableLogFile, ...] = ()
    removed: tuple[str, ...] = ()
    schema: Schema | None = None
    layout: Mapping[str, Any] | None = None
    proof: Mapping[str, Any] | None = None
    """Of a rewrite: how many rows it read and wrote, and their checksum."""

    def commit(self) -> Commit:
        appended = self.operation == APPEND
        return Commit(
            version=self.version,
            committed_at=self.committed_at,
            operation=self.operation,
            rows_added=sum(file.rows for file in self.added) if appended else 0,
            rows_removed=0,
            commit_tag=self.commit_tag,
        )

    def to_json(self) -> str:
        values = asdict(self) | {"committed_at": self.committed_at.isoformat()}
        del values["commit_tag"]
        values["mark"] = None if self.commit_tag is None else json.loads(self.commit_tag.to_json())
        return json.dumps({key: value for key, value in values.items() if value not in (None, ())})

    @staticmethod
    def from_json(text: str) -> LogEntry:
        values = json.loads(text)
        return LogEntry(
            version=values["version"],
            committed_at=datetime.fromisoformat(values["committed_at"]),
            operation=values["operation"],
            attempt=values["attempt"],
            commit_tag=CommitTag.from_json(json.dumps(values.get("mark"))),
            added=tuple(TableLogFile(**file) for file in values.get("added", ())),
            removed=tuple(values.get("removed", ())),
            schema=values.get("schema"),
            layout=values.get("layout"),
            proof=values.get("proof"),
        )


@dataclass(frozen=True)
class TableState:
    """A table at one version."""

    version: Version
    committed_at: datetime
    layout: Mapping[str, Any]
    generations: tuple[Schema, ...]
    """The schemas between which a type was widened; the last one is the table's schema."""
    files: Mapping[str, TableLogFile]
    commit_tags: Mapping[str, tuple[int, Version]]
    """Writer → its newest step and the version that it made."""

    @property
    def schema(self) -> Schema:
        return self.generations[-1]

    @property
    def generation(self) -> int:
        return len(self.generations) - 1

    def after(self, entry: LogEntry) -> TableState:
        files = {path: file for path, file in self.files.items() if path not in set(entry.removed)}
        added = entry.committed_at.isoformat()
        files.update({file.path: replace(file, added=added) for file in entry.added})
        commit_tags = dict(self.commit_tags)
        if entry.commit_tag is not None:
            commit_tags[entry.commit_tag.writer] = (entry.commit_tag.step, entry.version)
        generations = self.generations
        if entry.schema is not None:
            # A widened type begins a generation; added columns are simply absent from the older files.
            kept = generations if entry.operation == WIDEN else generations[:-1]
            generations = (*kept, entry.schema)
        return replace(
            self,
            version=entry.version,
            committed_at=entry.committed_at,
            files=files,
            commit_tags=commit_tags,
            generations=generations,
        )

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": self.version,
                "committed_at": self.committed_at.isoformat(),
                "layout": self.layout,
                "generations": self.generations,
                "files": [asdict(file) for file in self.files.values()],
                "marks": self.commit_tags,
            }
        )

    @staticmethod
    def from_json(text: str) -> TableState:
        values = json.loads(text)
        files = [TableLogFile(**file) for file in values["files"]]
        return TableState(
            version=values["version"],
            committed_at=datetime.fromisoformat(values["committed_at"]),
            layout=values["layout"],
            generations=tuple(values["generations"]),
            files={file.path: file for file in files},
            commit_tags={writer: (step, version) for writer, (step, version) in values["marks"].items()},
        )


class Log:
    """Reads and adds to the log of one table."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def exists(self) -> bool:
        return self._files.exists(_name(0, _ENTRY)) or self._files.exists(POINTER)

    def latest(self) -> TableState:
        """The state at the newest version: the last checkpoint and the few entries after it."""
        state = self._start()
        while True:
            entry = self.entry(state.version + 1)
            if entry is None:
                return state
            state = state.after(entry)

    def at(self, version: Version) -> TableState:
        """The state at a version that is still there."""
        start = max((v for v in self._numbers(_CHECKPOINT) if v <= version), default=None)
        state = self._checkpoint(start) if start is not None else self._created()
        while state is not None and state.version < version:
            entry = self.entry(state.version + 1)
            state = None if entry is None else state.after(entry)
        if state is None or state.version != version or not self._files.exists(_name(version, _ENTRY)):
            raise self._no_such(version)
        return state

    def between(self, start: Version, end: Version) -> list[LogEntry]:
        """The entries after `start` up to `end`, every one of them, where `start` is still there too."""
        entries = [self.entry(version) for version in range(start, end + 1)]
        found = [entry for entry in entries if entry is not None]
        if len(found) != len(entries) or not found:
            raise self._no_such(start)
        return found[1:]

    def entry(self, version: Version) -> LogEntry | None:
        found = self._files.find(_name(version, _ENTRY))
        return None if found is None else self._parsed(version, found, LogEntry.from_json)

    def versions(self) -> list[Version]:
        """Those that are still there, oldest first."""
        return self._numbers(_ENTRY)

    def version_at(self, at: At) -> Version:
        """The version of that number, or the newest one committed at or before that time."""
        if not isinstance(at, datetime):
            if not self._files.exists(_name(at, _ENTRY)):
                raise self._no_such(at)
            return at
        versions = self.versions()
        low, high = 0, len(versions)
        while low < high:  # commit times grow with versions
            middle = (low + high) // 2
            entry = self.entry(versions[middle])
            if entry is not None and entry.committed_at <= at:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            raise self._no_such(at)
        return versions[low - 1]

    def landed(self, commit_tag: CommitTag) -> Version | None:
        """The version that a step made; where that has been expired, the oldest one still there."""
        newest = self.latest().commit_tags.get(commit_tag.writer)
        if newest is None or commit_tag.step > newest[0]:
            return None
        if commit_tag.step == newest[0]:
            return newest[1]
        versions = self.versions()
        for version in reversed(versions):
            entry = self.entry(version)
            if entry is not None and entry.commit_tag is not None and entry.commit_tag.same_step(commit_tag):
                return version
        return versions[0] if versions[0] > 0 else None

    # --- writing

    def commit(self, entry: LogEntry, before: TableState | None) -> TableState:
        """Make the version there, unless somebody else has made it since `before` was read."""
        if not self._files.write_new(_name(entry.version, _ENTRY), entry.to_json()):
            raise TransientError(
                Code.COMMIT_FAILED,
                f"another writer made version {entry.version} of {self._files.root} first",
                hint="one writer at a time may write a Parquet table",
            )
        state = _first(entry) if before is None else before.after(entry)
        if state.version % CHECKPOINT_EVERY == 0 and state.version > 0:
            self.checkpoint(state)
        return state

    def checkpoint(self, state: TableState) -> None:
        """Keep the whole state at a version; opening starts from the newest of these."""
        self._files.write_atomic(_name(state.version, _CHECKPOINT), state.to_json())
        last = self._pointed()
        if last is None or last < state.version:
            self._files.write_atomic(POINTER, json.dumps({"checkpoint": state.version}))

    def checkpoint_latest(self) -> bool:
        """Keep the newest state, unless it is kept."""
        latest = self.latest()
        if self._pointed() == latest.version:
            return False
        self.checkpoint(latest)
        return True

    def forget(self, versions: list[Version]) -> None:
        """Remove entries, and checkpoints at them; what is needed of their state must be kept before."""
        for version in versions:
            self._files.delete(_name(version, _ENTRY))
            self._files.delete(_name(version, _CHECKPOINT))

    # --- inside

    def _start(self) -> TableState:
        pointed = self._pointed()
        if pointed is not None:
            state = self._checkpoint(pointed)
            if state is not None:
                return state
        # No checkpoint yet, or it was replaced while we looked: the listing tells.
        newest = max(self._numbers(_CHECKPOINT), default=None)
        state = self._created() if newest is None else self._checkpoint(newest)
        if state is not None:
            return state
        if not self._files.exists(FOLDER):
            raise TerminalError(Code.NO_SUCH_RELATION, f"there is no Parquet table at {self._files.root}")
        raise IntegrityError(
            Code.TABLE_CORRUPT,
            f"the log of {self._files.root} has neither its first entry nor a checkpoint",
            hint=f"restore its folder {FOLDER}",
        )

    def _created(self) -> TableState | None:
        entry = self.entry(0)
        return None if entry is None else _first(entry)

    def _pointed(self) -> Version | None:
        found = self._files.find(POINTER)
        return None if found is None else int(json.loads(found)["checkpoint"])

    def _checkpoint(self, version: Version) -> TableState | None:
        found = self._files.find(_name(version, _CHECKPOINT))
        return None if found is None else self._parsed(version, found, TableState.from_json)

    def _numbers(self, suffix: str) -> list[Version]:
        names = [entry.name for entry in self._files.list(FOLDER)]
        numbers = [name.removesuffix(suffix) for name in names if name.endswith(suffix)]
        return sorted(int(number) for number in numbers if number.isdigit())

    def _parsed(self, version: Version, content: bytes, parse: Callable[[str], T]) -> T:
        try:
            return parse(content.decode("utf-8"))
        except (ValueError, KeyError, TypeError) as cause:
            raise IntegrityError(
                Code.TABLE_CORRUPT,
                f"the log of {self._files.root} can't be read at version {version}: {cause!r}",
                hint=f"restore its folder {FOLDER}",
            ) from cause

    def _no_such(self, at: At) -> TerminalError:
        return TerminalError(
            Code.NO_SUCH_VERSION,
            f"Parquet table {self._files.root} has no version {at}",
            hint="its history lists the versions that can be read",
        )


def commit_time(before: TableState | None) -> datetime:
    """Now; but always after the version before, whatever the clock does, so that times find versions."""
    now = datetime.now(timezone.utc)
    return now if before is None else max(now, before.committed_at + timedelta(microseconds=1))


def _first(entry: LogEntry) -> TableState:
    if entry.schema is None or entry.layout is None:
        raise ValueError("a table's first entry has its schema and layout")
    return TableState(entry.version, entry.committed_at, entry.layout, (entry.schema,), {}, {})


def _name(version: Version, suffix: str) -> str:
    return f"{FOLDER}/{version:020d}{suffix}"
