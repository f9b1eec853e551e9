"""Compaction, clustering, expiry and orphans of a Delta table. The commits are ours, so that each is proved before it
lands: OPTIMIZE and VACUUM take no list of files, and commit by themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.errors import Code, TransientError
from headwater.core.model import Rewrite, Version
from headwater.core.storage import FileEntry
from headwater.formats.delta.log import LiveFile, TransactionLog
from headwater.formats.delta.properties import CLUSTERED
from headwater.formats.locks import writing
from headwater.formats.maintenance.proof import PROOF, Proof, measure, measured_on_the_way, require_same
from headwater.formats.maintenance.rewrite import Group, RewriteScope, described
from headwater.spark.errors import causes
from headwater.spark.frames import settings
from headwater.spark.internals import java, java_frame
from headwater.spark.session import activate

if TYPE_CHECKING:
    from headwater.formats.delta.spark import DeltaTable

NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_CONFLICT = ("DeltaConcurrentModificationException", "ConcurrentModificationException")


@dataclass(frozen=True)
class DeltaRewrite:
    """A rewrite of some files of one snapshot."""

    table: DeltaTable
    log: TransactionLog
    snapshot: Any
    live: Sequence[LiveFile]

    def run(self, groups: Sequence[Group], scope: RewriteScope, columns: Sequence[str] = ()) -> Rewrite | None:
        """Write the groups' rows into new files, prove them, and commit; by z-order if columns are given."""
        if not groups:
            return None
        files = [file for group in groups for file in group]
        with settings(self.table.spark, self.table.file_settings()):
            activate(self.table.spark)
            transaction = self.log.begin(self.snapshot)
            old = self._actions(files)
            read, written = self._write(transaction, groups, old, scope, columns)
        try:
            proof = measure(self.log.rows(self.snapshot, [json.dumps({"add": action}) for action in written]))
            require_same(self.table.address, read(), proof, "the table was left as it is", files)
            after = self._commit(transaction, list(old.values()), written, columns, proof)
        except (TransientError, Py4JJavaError, CapturedException) as error:
            raise self._given_up(error, written) from error
        except BaseException:
            self._discard(written)
            raise
        sizes = [int(action["size"]) for action in written]
        return described(int(self.snapshot.version()), after, files, sizes, proof)

    def _actions(self, files: Iterable[Any]) -> dict[str, dict[str, Any]]:
        """The actions that added files, by the files' whole paths."""
        chosen = {file.path for file in files}
        raw = {live.path: live.file.path for live in self.live if live.file.path in chosen}
        found = [json.loads(action)["add"] for action in self.log.actions(self.snapshot, raw)]
        return {raw[action["path"]]: action for action in found}

    def _write(
        self,
        transaction: Any,
        groups: Sequence[Group],
        old: dict[str, dict[str, Any]],
        scope: RewriteScope,
        columns: Sequence[str],
    ) -> tuple[Callable[[], Proof], list[dict[str, Any]]]:
        """What tells the proof of the rows that were read, and the actions of the files that were written."""
        frames = []
        for group in groups:
            rows = self.log.rows(self.snapshot, [json.dumps({"add": old[file.path]}) for file in group])
            frames.append(self._sorted(rows, columns, scope.files_of(group)) if columns else rows.coalesce(1))
        if columns:  # sorting takes samples, which would be counted too
            everything = self.log.rows(self.snapshot, [json.dumps({"add": action}) for action in old.values()])
            proof = measure(everything)
            written = write_files(self.table, transaction, reduce(DataFrame.union, frames))
            return (lambda: proof), self._unchanged(written, columns)
        rows, told = measured_on_the_way(reduce(DataFrame.union, frames))
        return told, self._unchanged(write_files(self.table, transaction, rows), columns)

    def _sorted(self, rows: DataFrame, columns: Sequence[str], files: int) -> DataFrame:
        spark = self.table.spark
        jvm: Any = java(spark)
        by = jvm.scala.collection.JavaConverters.asScalaBuffer(list(columns)).toSeq()
        clustering = getattr(getattr(jvm.org.apache.spark.sql.delta.skipping, "MultiDimClustering$"), "MODULE$")
        return DataFrame(clustering.cluster(java_frame(rows), files, by, "zorder"), spark)

    def _unchanged(self, actions: Iterable[str], columns: Sequence[str]) -> list[dict[str, Any]]:
        """The actions of new files whose rows are not new."""
        tags = {CLUSTERED: json.dumps(list(columns))} if columns else {}
        found = [json.loads(action)["add"] for action in actions]
        return [{**add, "dataChange": False, "tags": {**(add.get("tags") or {}), **tags}} for add in found]

    def _commit(
        self,
        transaction: Any,
        old: Sequence[dict[str, Any]],
        new: Sequence[dict[str, Any]],
        columns: Sequence[str],
        proof: Proof,
    ) -> Version:
        spark = self.table.spark
        jvm: Any = java(spark)
        now = int(time.time() * 1000)
        actions = [{"remove": _removed(action, now)} for action in old] + [{"add": action} for action in new]
        parsed = [jvm.org.apache.spark.sql.delta.actions.Action.fromJson(json.dumps(action)) for action in actions]
        note = json.dumps({PROOF: json.loads(proof.to_json())})
        with writing(self.table.address), settings(spark, {NOTE: note}):
            activate(spark)
            return int(transaction.commit(_sequence(jvm, parsed), _operation(jvm, columns)))

    def _given_up(self, error: Exception, written: Sequence[dict[str, Any]]) -> Exception:
        """What a failed commit means; where it is not known whether it landed, the new files stay."""
        if isinstance(error, TransientError):
            return error
        if not any(name.endswith(_CONFLICT) or ".Concurrent" in name for name in causes(error)):
            return error
        self._discard(written)
        message = f"a rewrite of {self.table.address} was refused: another writer changed the same files"
        return TransientError(Code.COMMIT_FAILED, message)

    def _discard(self, written: Sequence[dict[str, Any]]) -> None:
        """Delete new files that no commit names."""
        files = self.table.folder()
        for action in written:
            files.delete(unquote(action["path"]))


def write_files(table: DeltaTable, transaction: Any, rows: DataFrame) -> list[str]:
    """Write the rows as files of the table, which belong to it once they are committed; returns their actions."""
    jvm: Any = java(table.spark)
    nothing = jvm.scala.Option.empty()
    written = transaction.writeFiles(java_frame(rows), nothing, True, _sequence(jvm, []))
    return [str(written.apply(i).json()) for i in range(written.size())]


def clustered(live: Iterable[LiveFile], columns: Sequence[str]) -> set[str]:
    """The files that a rewrite has sorted by these columns."""
    by = json.dumps(list(columns))
    return {file.file.path for file in live if file.clustered == by}


def needed_paths(table: DeltaTable, log: TransactionLog, oldest: Version, latest: Version) -> set[str]:
    """What the versions of a range need: data files, change files and deletion vectors, from the folder on."""
    snapshot = log.snapshot() if oldest == latest else log.at(oldest)
    live = DataFrame(snapshot.allFiles().toDF(), table.spark).select("path", "deletionVector")
    rows = live.collect()
    found = {unquote(row["path"]) for row in rows}
    found |= {vector for row in rows if (vector := vector_path(row["deletionVector"])) is not None}
    if latest > oldest:
        found |= named_paths(log, range(oldest + 1, latest + 1))
    return found


def named_paths(log: TransactionLog, versions: range) -> set[str]:
    """The files that commits add."""
    if not len(versions):
        return set()
    found: set[str] = set()
    rows = log.named(versions).where(F.col("add").isNotNull() | F.col("cdc").isNotNull())
    for add, cdc in rows.select("add", "cdc").collect():
        if add is not None:
            found.add(unquote(add["path"]))
            vector = vector_path(add["deletionVector"])
            found |= {vector} if vector is not None else set()
        if cdc is not None:
            found.add(unquote(cdc["path"]))
    return found


def is_data(entry: FileEntry) -> bool:
    """Whether a file may be an orphan; what lies in folders of Delta's own is not, but for the change data."""
    folders = entry.path.split("/")[:-1]
    return not any(name.startswith((".", "_")) and name != "_change_data" and "=" not in name for name in folders)


def vector_path(told: Any) -> str | None:
    """The file of a deletion vector that lies in the table's folder (kind `u`: a random prefix, then its number)."""
    if told is None or told["storageType"] != "u":
        return None
    encoded = told["pathOrInlineDv"]
    prefix, name = encoded[:-20], _uuid(encoded[-20:])
    return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"


_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _uuid(encoded: str) -> str:
    """A UUID from Z85, in which Delta's protocol writes it."""
    from uuid import UUID

    content = b"".join(
        reduce(lambda value, letter: value * 85 + _Z85.index(letter), encoded[i : i + 5], 0).to_bytes(4, "big")
        for i in range(0, 20, 5)
    )
    return str(UUID(bytes=content))


def _removed(add: dict[str, Any], now: int) -> dict[str, Any]:
    names: tuple[str, ...] = ("path", "partitionValues", "size", "tags", "deletionVector", "stats")
    kept: dict[str, Any] = {name: add[name] for name in names if name in add}
    return {**kept, "deletionTimestamp": now, "dataChange": False, "extendedFileMetadata": True}


def _sequence(jvm: Any, values: Sequence[Any]) -> Any:
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return jvm.scala.collection.JavaConverters.asScalaBuffer(found).toSeq()


def _operation(jvm: Any, columns: Sequence[str]) -> Any:
    none, nothing = jvm.scala.Option.empty(), _sequence(jvm, [])
    optimize = jvm.org.apache.spark.sql.delta.DeltaOperations.Optimize
    return optimize(nothing, _sequence(jvm, list(columns)), False, none, False)
