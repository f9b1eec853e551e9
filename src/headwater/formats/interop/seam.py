"""The seam for interop: the data files of a table's latest version, and a table of another format that names them.

A format that can share its files has a `shared` in its `Format`; one whose tables can name another's has an
`interop`. Both sides work without a JVM. The schema between them is Arrow's, in Spark's types: a field's metadata hold
its number in the files (`NUMBER`), where columns are known by that, and its name there (`STORED`), where it differs.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Code, IntegrityError, Unsupported
from headwater.core.model import DataFile, Version
from headwater.core.storage import Files
from headwater.formats.base import Address
from headwater.formats.maintenance.orphans import inside

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

NUMBER = b"PARQUET:field_id"
STORED = b"headwater.stored"
SEE = 'see docs/interop.md, "What is refused"'
"""What to do about a layout that others would show otherwise."""
NOTE = "headwater.interop"
"""Under which a target's commit says what it was made of."""


@dataclass(frozen=True)
class SharedFile:
    """A Parquet file every row of which is a row of the table."""

    path: str
    """From the table's folder on, as the file system has it."""
    bytes: int
    rows: int | None = None
    partition: Mapping[str, Any] = field(default_factory=dict)
    """The values of the partition columns, in Python's types."""


@dataclass(frozen=True)
class SharedVersion:
    """A version of a table as the data files that hold exactly its rows."""

    root: str
    """The table's folder, in full."""
    version: Version
    schema: pa.Schema
    partition_by: tuple[str, ...]
    """The partition columns: each file has a value for each of them."""
    files: Mapping[str, SharedFile]


@dataclass(frozen=True)
class SyncNote:
    """What a commit of a target says of itself."""

    source: str
    """`topics.orders`."""
    version: Version
    columns: str = ""
    """What tells the source's columns from others."""
    mark: str = ""
    """What else tells the target's state that this commit has made, where its format needs that."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | None) -> SyncNote | None:
        """The note in a commit; None where it says something else."""
        try:
            found = json.loads(text or "")
            return SyncNote(str(found["source"]), int(found["version"]), str(found["columns"]), str(found["mark"]))
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True)
class TargetState:
    """What a target names at its latest version."""

    version: Version
    note: SyncNote | None
    """None: that version was made by somebody else."""
    schema: pa.Schema
    partition_by: tuple[str, ...]
    root: str
    """The folder that its files lie in."""
    files: Mapping[str, int | None]
    """Path from that folder on → rows."""
    held: frozenset[Version]
    """The source's versions whose files it still names."""


@dataclass(frozen=True)
class TargetChange:
    """What leads a target to a version of its source; made by the sync, in one commit."""

    to: SharedVersion
    note: SyncNote
    added: tuple[SharedFile, ...]
    removed: tuple[str, ...]
    footers: Mapping[str, pq.FileMetaData]
    """Of the added files, by path."""


class StagedChange(ABC):
    """A change that is written and that nobody sees yet."""

    @abstractmethod
    def read(self, paths: Collection[str] | None) -> pa.RecordBatchReader:
        """The rows that a library of the target's format, which is not ours, would see: of all files, or of some."""

    @abstractmethod
    def commit(self) -> Version:
        """Make it the target's latest version, unless somebody else has written meanwhile."""

    @abstractmethod
    def discard(self) -> None:
        """Take away what was written; also called after the commit."""


class InteropTarget(ABC):
    """A table of another format over the files of one relation. Opened for each sync."""

    address: Address

    @abstractmethod
    def state(self) -> TargetState | None:
        """What is there; None for nothing. Called first, and after a commit to see what it has made."""

    @abstractmethod
    def stage(self, change: TargetChange, before: TargetState | None) -> StagedChange:
        """Write a change such that nobody sees it. What the format can't express is refused (`Unsupported`)."""

    @abstractmethod
    def tidy(self) -> None:
        """Forget old versions of the target, whose readers have had their time. Called after each commit."""

    @abstractmethod
    def drop(self) -> None:
        """Take the target away, and none of the files that it names."""


def number_of(one: pa.Field) -> int | None:
    """The number of a column in the files."""
    found = (one.metadata or {}).get(NUMBER)
    return None if found is None else int(found)


def stored_name(one: pa.Field) -> str:
    """The name of a column in the files."""
    found = (one.metadata or {}).get(STORED)
    return one.name if found is None else str(found.decode())


def described(one: pa.Field, number: int | None, stored: str | None) -> pa.Field:
    """A field that says how files know it."""
    known: dict[bytes, bytes] = {}
    if number is not None:
        known[NUMBER] = str(number).encode()
    if stored is not None and stored != one.name:
        known[STORED] = stored.encode()
    return one.with_metadata(known or None)


def relative(files: Files, path: str) -> str:
    """A data file's path from the table's folder on; a file elsewhere can't be shared."""
    found = inside(files, path)
    if found is None:
        raise Unsupported(f"the data file {path} does not lie in the table's folder {files.root}")
    return found


def changed_by_others(address: object, what: str) -> IntegrityError:
    return IntegrityError(
        Code.TARGET_CHANGED,
        f"{address} is not as the last sync has left it: {what}",
        hint="to make it the source's again, whatever was written: headwater interop sync NAME --to FORMAT --replace",
    )


def shared_of(
    files: Files,
    version: Version,
    schema: pa.Schema,
    partition_by: Sequence[str],
    found: Iterable[DataFile],
    *,
    in_files: bool,
) -> SharedVersion:
    """A version of a table whose partitions are told as texts; `in_files`: its files hold their columns too."""
    found = list(found)
    columns = tuple(partition_by)
    if in_files:  # other formats take an empty text for NULL, and some types have more than one text
        plain = [name for name in partition_by if name in schema.names and _is_exact(schema.field(name).type)]
        columns = tuple(name for name in plain if all((one.partition or {}).get(name) != "" for one in found))
    shared = {}
    for one in found:
        path = relative(files, one.path)
        if not path.endswith(".parquet"):
            raise Unsupported(f"{one.path} is not a Parquet file")
        values = {name: _partition_value(one.partition[name], schema.field(name).type) for name in columns}
        shared[path] = SharedFile(path, one.bytes, one.rows, values)
    return SharedVersion(files.root, version, schema, columns, shared)


def _is_exact(kind: pa.DataType) -> bool:
    import pyarrow as pa

    tests = (pa.types.is_boolean, pa.types.is_integer, pa.types.is_string, pa.types.is_date)
    return any(test(kind) for test in tests)


def _partition_value(text: str | None, kind: pa.DataType) -> Any:
    import pyarrow as pa

    if text is None or pa.types.is_string(kind):
        return text
    try:
        if pa.types.is_timestamp(kind) and kind.tz:
            return pa.scalar(text).cast(pa.timestamp("us")).cast(kind).as_py()  # partitions are named in UTC
        return pa.scalar(text).cast(kind).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError, ValueError) as error:
        raise Unsupported(f"the partition '{text}' can't be told to other formats: {error}") from error
