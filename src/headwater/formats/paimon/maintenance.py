"""Compaction and clustering of Paimon tables, what expiry takes with it, and which files nothing names.

Files of tables without keys are rewritten here, and proved before the commit. Tables with keys are compacted by Paimon.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headwater.core.errors import Code, TransientError
from headwater.core.model import DataFile, Rewrite, Version
from headwater.core.storage import FileEntry
from headwater.formats.locks import writing
from headwater.formats.maintenance.orphans import unreadable
from headwater.formats.maintenance.proof import PROOF, Proof, measure, measured_on_the_way, require_same, summed
from headwater.formats.maintenance.rewrite import Group, RewriteScope, described
from headwater.formats.paimon.rows import rows_of
from headwater.formats.paimon.snapshots import COMPACT
from headwater.formats.paimon.store import PaimonFile, PaimonStore

if TYPE_CHECKING:
    from headwater.formats.paimon.spark import PaimonTable

CLUSTERED = "headwater.clustered_by"
_DATA = re.compile(r"(^|/)bucket-\d+/(data|changelog)-[^/]+$")
_SPEC = re.compile(r"[^,;='\"\\]*")


def rewrite(
    table: PaimonTable,
    store: PaimonStore,
    live: Mapping[str, PaimonFile],
    groups: Sequence[Group],
    scope: RewriteScope,
    columns: Sequence[str] = (),
) -> Rewrite | None:
    """Write the groups' rows into new files, prove them, and commit; by z-order if columns are given."""
    before = store.latest()
    if not groups or before is None:
        return None
    old = [live[file.path] for group in groups for file in group]
    frames = [rows_of(store, [live[file.path] for file in group], store.java()) for group in groups]
    options = {"target-file-size": f"{scope.target if columns else 2 * scope.target} b"}
    if columns:  # sorting takes samples, which would be counted too
        proof = summed([measure(frame) for frame in frames])
        rows = reduce(DataFrame.unionByName, [store.z_ordered(frame, columns) for frame in frames])
        read: Callable[[], Proof] = partial(Proof, proof.rows, proof.checksum)
        messages = store.write(rows, options=options)
    else:
        rows, read = measured_on_the_way(reduce(DataFrame.unionByName, [frame.coalesce(1) for frame in frames]))
        messages = store.write(rows, options=options)
    made = store.written(messages)
    try:
        written = measure(rows_of(store, made, store.java()))
        require_same(table.address, read(), written, "the table was left as it is", [f for g in groups for f in g])
        note = {PROOF: json.loads(written.to_json()), "id": str(uuid.uuid4())}
        if columns:
            note[CLUSTERED] = list(columns)
        with writing(table.address):
            now = store.latest()
            there = {file.path for file in store.files(now.id)} if now is not None else set()
            if any(file.path not in there for file in old):
                message = f"a rewrite of {table.address} was refused: another writer changed the same files"
                raise TransientError(Code.COMMIT_FAILED, message)
            after = store.compact_files(store.rewritten(old, messages), json.dumps(note))
    except BaseException:
        store.discard(messages)
        raise
    return described(before.id, after, [f for g in groups for f in g], [file.bytes for file in made], written)


def clustered(store: PaimonStore, columns: Sequence[str]) -> set[str]:
    """The files that a rewrite has sorted by these columns."""
    found: set[str] = set()
    for snapshot in store.newest_first():
        if snapshot.kind == COMPACT and _note(snapshot.user).get(CLUSTERED) == list(columns):
            found |= {file.path for file in store.entry_files(snapshot.id, "DELTA", added=True)}
    return found


def _note(user: str) -> Mapping[str, object]:
    try:
        found = json.loads(user)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def partition_specs(files: Sequence[DataFile]) -> str | None:
    """The partitions of files as Paimon's procedure takes them, which makes a condition in SQL of them; None where it
    can't be told them: then all."""
    specs = []
    for partition in {tuple(file.partition.items()) for file in files}:
        if not partition or any(value is None or _SPEC.fullmatch(value) is None for _, value in partition):
            return None
        specs.append(",".join(f"{name}='{value}'" for name, value in partition))
    return ";".join(sorted(specs)) or None


def expirable(store: PaimonStore, before: Version) -> list[PaimonFile]:
    """The data files that only snapshots before this one need."""
    first = min((snapshot.id for snapshot in store.newest_first()), default=before)
    if first >= before:
        return []
    found: dict[str, PaimonFile] = {}
    for version in range(first + 1, before + 1):
        found |= {file.path: file for file in store.entry_files(version, "DELTA", added=False)}
    for version in range(first, before):
        found |= {file.path: file for file in store.entry_files(version, "CHANGELOG", added=True)}
    needed = {file.path for file in store.files(before)}
    return [file for path, file in found.items() if path not in needed]


def named_files(table: PaimonTable, store: PaimonStore) -> set[str]:
    """The data files that a snapshot names which is still there."""
    versions = sorted(snapshot.id for snapshot in store.newest_first())
    if store.has_branches():
        raise unreadable(table.address, "it has branches, and whose files these are is not known")
    found: list[PaimonFile] = []
    for version in versions:
        if version == versions[0]:
            found += store.files(version)
        else:
            found += store.entry_files(version, "DELTA", added=True)
        found += store.entry_files(version, "CHANGELOG", added=True)
    for tagged in store.tagged():
        found += store.files_of(tagged)
    extra = {f"{file.bucket_path}/{name}" for file in found for name in file.meta.extraFiles()}
    return {file.path for file in found} | extra


def is_data(entry: FileEntry) -> bool:
    """Whether a file may be an orphan: manifests and indexes are Paimon's to look after."""
    return _DATA.search(entry.path) is not None
