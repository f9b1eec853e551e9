"""Maintenance of one table: bounded rewrites with a proof, expiry that counts, files that nothing names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headwater.core.errors import Code, HeadwaterError, Unsupported
from headwater.core.model import CommitTag, Rewrite
from headwater.formats.base import Capability
from headwater.formats.maintenance.proof import PROOF, Proof, measure
from headwater.formats.spark_table import SparkTable
from tests.conformance.lab import Lab, rows, weighed
from tests.conformance.test_native_reads import native_rows

DDL = "id int, part string, word string"


@pytest.mark.capability(Capability.COMPACT, given=[Capability.APPEND, Capability.FILES, Capability.PARTITION])
def test_pieces_are_bounded_proved_and_change_no_row(lab: Lab) -> None:
    table = lab.table(DDL, partition_by=["part"])
    for n in range(4):
        table.append(_words(lab, 6, n).coalesce(1), CommitTag("f", 1, n))
    before, start = rows(table.read()), table.version()
    sizes = {file.path: file.bytes for file in table.files()}
    assert len(sizes) == 8 and start is not None
    [one] = _pieces(table, partitions=[{"part": "p0"}])
    assert (one.files_read, one.files_written, one.rows, one.before) == (4, 1, 12, start)
    assert Proof(one.rows, one.checksum) == measure(table.read().where("part = 'p0'"))
    assert one.bytes_read == sum(sizes[path] for path in sizes.keys() - {file.path for file in table.files()})
    assert {file.partition["part"] for file in table.files() if file.path in sizes} == {"p1"}
    assert table.compact(partitions=[{"part": "p0"}]) is None, "what a rewrite made would be rewritten again"
    most = 2 * max(sizes.values()) + 1
    pieces = _pieces(table, max_bytes=most)
    assert len(pieces) > 1 and all(piece.files_read >= 2 and piece.files_written == 1 for piece in pieces)
    assert pieces[0].bytes_read <= most and len(table.files()) == 2
    now = table.version()
    assert now == pieces[-1].after and rows(table.read()) == before and rows(table.read(start)) == before
    assert weighed(table.changes(start, now)) == {} and table.landed(CommitTag("f", 1, 3)) is not None
    assert native_rows(lab, lab.native(table).read(), DDL) == before
    told = _recorded(lab, table, one)
    assert told == ("history alone" if lab.fmt.name == "hudi" else Proof(one.rows, one.checksum))


@pytest.mark.capability(Capability.UPSERT, given=[Capability.COMPACT, Capability.FILES])
def test_what_is_deleted_is_compacted_too(lab: Lab) -> None:
    """Deletion vectors, delete files, log files, levels: merged where they are more than a tenth of a file."""
    table = lab.table(DDL, keys=["id"], options=dict(lab.fmt.merge_on_read))
    table.upsert(_keyed(lab, 40))
    table.upsert(_keyed(lab, 4, changed=True))
    table.upsert(lab.deletes([(id, None, None, True) for id in range(30, 40)], DDL), CommitTag("f", 1, 1))
    before, start = rows(table.read()), table.version()
    assert start is not None and sum(before.values()) == 30
    worn = [file for file in table.files() if file.deleted_rows]
    assert worn or lab.fmt.name in ("hudi", "paimon"), "the metadata tell how many rows are deleted"
    pieces = _pieces(table)
    assert pieces and rows(table.read()) == before and not any(file.deleted_rows for file in table.files())
    assert sum(file.rows or 0 for file in table.files()) == 30 and table.version() == pieces[-1].after
    assert weighed(table.changes(start, pieces[-1].after)) == {} and table.landed(CommitTag("f", 1, 1)) is not None
    try:
        assert native_rows(lab, lab.native(table).read(), DDL) == before
    except Unsupported:
        assert lab.fmt.name in ("delta", "hudi"), "the rest of such a table is no reason to refuse"
    table.upsert(lab.deletes([(id, None, None, True) for id in range(2)], DDL))
    if lab.fmt.name in ("delta", "iceberg"):
        assert table.compact() is None, "less than a tenth of its rows is deleted"
        assert table.compact(deleted_share=0.01) is not None and table.read().count() == 28


@pytest.mark.parametrize("harm", ["a row is lost", "a value is another"])
@pytest.mark.capability(Capability.COMPACT, given=[Capability.APPEND, Capability.FILES])
def test_a_rewrite_that_would_change_rows_is_noticed(lab: Lab, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    table = lab.table(DDL)
    for n in range(3):
        table.append(_words(lab, 6, n).coalesce(1), CommitTag("f", 1, n))
    before, start, there = rows(table.read()), table.version(), _listed(table)

    def harmed(df: DataFrame) -> DataFrame:
        if harm == "a row is lost":
            return df.where("id != 4")
        return df.withColumn("word", F.when(F.col("id") == 4, F.lit(None)).otherwise(F.col("word")))

    with monkeypatch.context() as patch:
        _sabotage(lab, table, patch, harmed)
        with pytest.raises(HeadwaterError) as caught:
            table.compact()
    assert caught.value.code is Code.NOT_ROW_NEUTRAL and str(table.address) in str(caught.value)
    again = lab.open(table.address)
    assert rows(again.read()) == before and again.version() == start
    assert _listed(table) == there, "what was written in vain is taken away"
    assert again.landed(CommitTag("f", 1, 2)) is not None and again.landed(CommitTag("f", 1, 3)) is None
    assert native_rows(lab, lab.native(table).read(), DDL) == before
    assert again.compact() is not None and rows(again.read()) == before


@pytest.mark.capability(Capability.CLUSTER, given=[Capability.APPEND, Capability.FILES])
def test_clustering_takes_what_is_new(lab: Lab) -> None:
    table = lab.table(DDL, z_order_by=["id", "word"])
    for n in range(2):
        table.append(_words(lab, 6, n).coalesce(1))
    done = table.cluster()
    assert done is not None and done.files_read == 2 and done.rows == 12
    assert table.cluster() is None, "all is clustered"
    table.append(_words(lab, 6, 2).coalesce(1))
    before, old = rows(table.read()), {file.path for file in table.files()}
    more = table.cluster()
    assert more is not None and rows(table.read()) == before
    if lab.fmt.name == "hudi":  # its plan takes whole partitions
        assert (more.files_read, more.rows) == (len(old), 18)
    else:
        assert (more.files_read, more.rows) == (1, 6)
        assert len(old & {file.path for file in table.files()}) == len(old) - 1
    assert table.cluster() is None
    if lab.fmt.name != "hudi":  # one file alone is never planned there
        assert table.cluster(["word"]) is not None


@pytest.mark.capability(Capability.EXPIRE, given=[Capability.APPEND, Capability.COMPACT, Capability.FILES])
def test_expiry_says_what_it_deletes(lab: Lab) -> None:
    table = lab.table(DDL)
    made = [table.append(_words(lab, 6, n).coalesce(1)) for n in range(3)]
    old = [_local(file.path) for file in table.files()]
    size = sum(path.stat().st_size for path in old)
    assert _pieces(table)
    before = rows(table.read())
    time.sleep(1.1)
    asked = table.expire(datetime.now(timezone.utc), dry_run=True)
    assert set(made) <= set(asked.versions) and (asked.files, asked.bytes) == (3, size)
    assert all(path.exists() for path in old) and rows(table.read(made[0])) == rows(_words(lab, 6, 0))
    done = table.expire(datetime.now(timezone.utc))
    assert done.versions == asked.versions and done.files >= 3 and done.bytes >= size
    assert not any(path.exists() for path in old)
    assert rows(lab.open(table.address).read()) == before
    assert table.expire(datetime.now(timezone.utc)).files == 0


@pytest.mark.capability(Capability.ORPHANS, given=[Capability.APPEND, Capability.FILES, Capability.COMPACT])
def test_orphans_are_what_no_commit_names_and_old_enough(lab: Lab) -> None:
    table = lab.table(DDL)
    for n in range(3):
        table.append(_words(lab, 4, n).coalesce(1), CommitTag("f", 1, n))
    _pieces(table)
    before, versions = rows(table.read()), [commit.version for commit in table.history()]
    for path in _listed(table):
        _make_old(path)
    orphan, young = _left_over(table, 1), _left_over(table, 2)
    _make_old(orphan)
    a_day = datetime.now(timezone.utc) - timedelta(days=1)
    reference = _reference(lab, table)
    content = reference.read_bytes()
    reference.write_bytes(b"\x00 cut")
    with pytest.raises(HeadwaterError) as caught:
        table.orphans(a_day)
    assert caught.value.code is Code.REFERENCE_UNREADABLE and str(table.address) in str(caught.value)
    reference.write_bytes(content)
    found = table.orphans(a_day)
    data = [file for file in found if file.path.endswith(".parquet")]
    assert [_local(file.path) for file in data] == [orphan] and data[0].bytes == orphan.stat().st_size
    assert table.remove_files([file.path for file in found]) == len(found)
    assert not orphan.exists() and young.exists() and table.orphans(a_day) == []
    again = lab.open(table.address)
    assert [commit.version for commit in again.history()] == versions
    assert rows(again.read()) == before and all(again.read(v).count() >= 0 for v in versions)
    with pytest.raises(HeadwaterError) as caught:
        table.remove_files(["/etc/hostname"])
    assert caught.value.code is Code.USAGE


@pytest.mark.capability(Capability.APPEND, given=[Capability.CHANGES])
def test_a_tables_own_records_are_brought_together(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of the log, fewer manifests: no row is another, no version goes, and a second look does nothing."""
    if lab.fmt.name == "iceberg":
        from headwater.formats.iceberg import maintenance as iceberg

        monkeypatch.setattr(iceberg, "_MANY_MANIFESTS", 3)
    table = lab.table(DDL)
    for n in range(4):
        table.append(_words(lab, 4, n).coalesce(1), CommitTag("f", 1, n))
    before, start, versions = rows(table.read()), table.version(), {commit.version for commit in table.history()}
    assert start is not None
    done = table.optimize_metadata()
    assert done == (lab.fmt.name in ("delta", "iceberg", "parquet"))
    root = _root(lab, table)
    if lab.fmt.name == "delta":
        assert list((root / "_delta_log").glob("*.checkpoint.parquet"))
    elif lab.fmt.name == "iceberg":
        assert len(list(table._java.load().currentSnapshot().allManifests(table._java.load().io()))) == 1
    elif lab.fmt.name == "parquet":
        assert list((root / "_headwater").glob("*checkpoint*"))
    again = lab.open(table.address)
    now = again.version()
    assert now is not None and rows(again.read()) == before and rows(again.read(start)) == before
    assert versions <= {commit.version for commit in again.history()}
    assert weighed(again.changes(start, now)) == {} and again.landed(CommitTag("f", 1, 3)) is not None
    assert native_rows(lab, lab.native(again).read(), DDL) == before
    assert not again.optimize_metadata(), "there is nothing left to do"


@pytest.mark.parametrize("partition_by", [(), ("part",)], ids=["rows", "partitions"])
@pytest.mark.capability(Capability.REPLACE, given=[Capability.APPEND, Capability.CHANGES, Capability.PARTITION])
def test_removed_rows_are_the_only_change(lab: Lab, partition_by: tuple[str, ...]) -> None:
    """What retention does: by a condition on rows, or on whole partitions."""
    table = lab.table(DDL, partition_by=partition_by)
    for n in range(3):
        table.append(_words(lab, 4, n).coalesce(1), CommitTag("f", 1, n))
    before, start, tag = rows(table.read()), table.version(), CommitTag("retention.f", 1, 1700000000)
    assert start is not None
    where = "part <=> 'p1'" if partition_by else "id < 6"
    went = rows(table.read().where(where))
    assert 0 < sum(went.values()) < sum(before.values())
    made = table.remove(where, tag)
    assert rows(table.read()) == before - went and rows(table.read(start)) == before
    assert weighed(table.changes(start, made)) == {row: -count for row, count in went.items()}
    assert table.landed(tag) == made and table.remove(where, tag) == made, "a second try does nothing"
    assert table.landed(CommitTag("f", 1, 2)) is not None
    (commit,) = [one for one in table.history() if one.version == made]
    assert commit.commit_tag is not None and commit.commit_tag.flow == "retention.f"
    assert native_rows(lab, lab.native(table).read(), DDL) == before - went
    table.append(_words(lab, 4, 9), CommitTag("f", 1, 3))
    assert sum(rows(table.read()).values()) == sum((before - went).values()) + 4


def _pieces(table: SparkTable, **bounds: Any) -> list[Rewrite]:
    done: list[Rewrite] = []
    while (piece := table.compact(**bounds)) is not None:
        done.append(piece)
        assert len(done) < 20
    return done


def _recorded(lab: Lab, table: Any, done: Rewrite) -> object:
    """The proof as the commit itself keeps it."""
    if lab.fmt.name == "delta":
        note = json.loads(table._log.commit_info(done.after)["userMetadata"])[PROOF]
    elif lab.fmt.name == "iceberg":
        note = json.loads(table._java.metadata().snapshots[done.after].summary[PROOF])
    elif lab.fmt.name == "paimon":
        note = json.loads(table._store.snapshot(done.after).user)[PROOF]
    elif lab.fmt.name == "parquet":
        note = table._log.entry(done.after).proof
    else:
        return "history alone"
    return Proof(**note)


def _sabotage(lab: Lab, table: SparkTable, patch: pytest.MonkeyPatch, harmed: Callable[[DataFrame], DataFrame]) -> None:
    """Let the format write other rows than it has read."""
    if lab.fmt.name == "delta":
        from headwater.formats.delta import maintenance as delta

        plain = delta.write_files
        patch.setattr(delta, "write_files", lambda table, transaction, df: plain(table, transaction, harmed(df)))
    elif lab.fmt.name == "iceberg":
        from headwater.formats.iceberg import rewrite as iceberg

        write = iceberg.write_files
        patch.setattr(iceberg, "write_files", lambda java, t, df, target: write(java, t, harmed(df), target))
    elif lab.fmt.name == "paimon":
        from headwater.formats.paimon.store import PaimonStore

        store = PaimonStore.write
        patch.setattr(PaimonStore, "write", lambda self, df, **more: store(self, harmed(df), **more))
    elif lab.fmt.name == "parquet":
        from headwater.formats.parquet.staged_files import Attempt

        attempt = Attempt.write
        patch.setattr(Attempt, "write", lambda self, df, *more: attempt(self, harmed(df), *more))
    elif lab.fmt.name == "hudi":
        from headwater.formats.hudi import maintenance as hudi

        # Hudi writes and commits by itself: what stands for its clustering is a real commit of other rows.
        patch.setattr(hudi, "cluster", lambda spark, client: table.replace(harmed(table.read())))


def _reference(lab: Lab, table: SparkTable) -> Path:
    """A file that names other files, and that the latest version can do without for the moment."""
    root = _root(lab, table)
    pattern = {
        "delta": "_delta_log/00000000000000000002.json",
        "iceberg": "metadata/*-m0.avro",
        "hudi": ".hoodie/timeline/*_*.commit",
        "paimon": "manifest/manifest-*-0",
        "parquet": "_headwater/00000000000000000002.json",
    }[lab.fmt.name]
    found = sorted((path for path in root.glob(pattern) if "list" not in path.name), key=lambda p: p.stat().st_mtime)
    return found[min(1, len(found) - 1)]


def _root(lab: Lab, table: Any) -> Path:
    if lab.fmt.name == "iceberg":
        return _local(table._java.metadata().location)
    if lab.fmt.name == "paimon":
        return _local(table._store.location())
    return _local(table.address.path)


def _listed(table: SparkTable) -> set[Path]:
    """The data files that lie beside those of the table."""
    return set(_local(table.files()[0].path).parent.glob("*.parquet"))


def _left_over(table: SparkTable, turn: int) -> Path:
    """A file such as a writer leaves that was ended: whole, and named by nothing."""
    whole = _local(table.files()[0].path)
    digits = "0123456789"
    if type(table).__name__.startswith("Hudi"):  # the commit's time in its name is the one of no commit
        stem, _, instant = whole.stem.rpartition("_")
        name = f"{stem}_{int(instant) + turn}{whole.suffix}"
    else:
        name = whole.name.translate(str.maketrans(digits, digits[turn:] + digits[:turn]))
    copy = whole.with_name(name)
    assert not copy.exists()
    copy.write_bytes(whole.read_bytes())
    return copy


def _make_old(path: Path) -> None:
    long_ago = time.time() - 3 * 86400
    os.utime(path, (long_ago, long_ago))


def _local(path: str) -> Path:
    url = urlparse(path)
    return Path(unquote(url.path) if url.scheme else path)


def _words(lab: Lab, n: int, seed: int = 0) -> DataFrame:
    return lab.spark.range(n).selectExpr(
        f"cast(id + {seed} * {n} as int) id", "concat('p', id % 2) part", f"md5(concat(id, '-{seed}')) word"
    )


def _keyed(lab: Lab, n: int, *, changed: bool = False) -> DataFrame:
    made = [(id, f"p{id % 2}", f"new {id}" if changed else f"old {id}", False) for id in range(n)]
    return lab.deletes(made, DDL)
