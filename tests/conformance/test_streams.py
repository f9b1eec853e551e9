"""Every table as a Structured Streaming source and as an exactly-once sink."""

from __future__ import annotations

import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from headwater.core.errors import Code
from headwater.formats.base import Capability
from headwater.formats.spark_table import SparkTable
from headwater.tables.sink import sink
from tests.conformance.lab import PEOPLE, Lab, rows
from tests.hints.followed import follows

ANN = (1, "Ann", Decimal("10.50"))
BOB = (2, "Bob", None)
CYD = (3, "Cyd", None)


@pytest.mark.capability(Capability.STREAM_READ, given=[Capability.APPEND])
def test_a_stream_gives_each_row_once_through_restarts(lab: Lab, tmp_path: Path) -> None:
    table = lab.table()
    table.append(lab.frame([ANN]))
    seen: Counter[str] = Counter()
    for new in ([], [BOB], [], [CYD, ANN]):
        if new:
            table.append(lab.frame(new))
        seen += _drain(lab.open(table.address).read_stream(consumer="t"), tmp_path)
    assert seen == rows(lab.frame([ANN, BOB, CYD, ANN]))


@pytest.mark.capability(Capability.STREAM_READ, given=[Capability.APPEND])
def test_a_stream_may_start_after_a_version(lab: Lab, tmp_path: Path) -> None:
    table = lab.table()
    first = table.append(lab.frame([ANN]))
    table.append(lab.frame([BOB]))
    assert _drain(table.read_stream(start=first, consumer="t"), tmp_path) == rows(lab.frame([BOB]))


@pytest.mark.capability(Capability.STREAM_READ, given=[Capability.UPSERT])
def test_a_stream_goes_on_after_an_upsert(lab: Lab, tmp_path: Path) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([ANN, BOB]))
    assert _drain(table.read_stream(consumer="t"), tmp_path) == rows(lab.frame([ANN, BOB]))
    new_bob = (2, "Bobby", Decimal(1))
    table.upsert(lab.deletes([(*new_bob, False), (*CYD, False), (1, None, None, True)]))
    assert _drain(lab.open(table.address).read_stream(consumer="t"), tmp_path) == rows(lab.frame([new_bob, CYD]))


@pytest.mark.capability(Capability.STREAM_CHANGES, given=[Capability.UPSERT])
def test_a_stream_of_changes_sums_up_to_the_table(lab: Lab, tmp_path: Path) -> None:
    table = lab.table(keys=["id"])
    table.upsert(lab.frame([ANN, BOB]))
    total: Counter[str] = Counter()
    _add(total, _drain(table.read_stream(changes=True, consumer="c"), tmp_path))
    table.upsert(lab.deletes([(1, None, None, True), (2, "Bobby", None, False)]))
    table.upsert(lab.frame([CYD]))
    _add(total, _drain(lab.open(table.address).read_stream(changes=True, consumer="c"), tmp_path))
    assert Counter({k: v for k, v in total.items() if v}) == rows(table.read())


@pytest.mark.capability(Capability.STREAM_SINK, given=[Capability.APPEND, Capability.COMMIT_TAGS])
def test_a_sink_takes_each_batch_once(lab: Lab, tmp_path: Path) -> None:
    source, target = tmp_path / "in", lab.table()
    _feed(lab, source, [ANN])
    _run_sink(lab, source, target, tmp_path / "sink", "append")
    _forget_last_batch(tmp_path / "sink")  # as if killed after the table's commit, before the checkpoint's
    _run_sink(lab, source, target, tmp_path / "sink", "append")
    _feed(lab, source, [BOB])
    _run_sink(lab, source, target, tmp_path / "sink", "append")
    assert rows(target.read()) == rows(lab.frame([ANN, BOB]))


@pytest.mark.capability(Capability.STREAM_SINK, given=[Capability.APPEND, Capability.COMMIT_TAGS])
@follows("its checkpoint was lost, or two queries share the name; with epoch={} it starts over")
def test_a_sink_notices_a_checkpoint_that_is_not_its_own(lab: Lab, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "in", lab.table(), tmp_path / "sink"
    _feed(lab, source, [ANN])
    _run_sink(lab, source, target, checkpoint, "append")
    shutil.copytree(checkpoint, tmp_path / "old")
    _feed(lab, source, [BOB])
    _run_sink(lab, source, target, checkpoint, "append")

    # Lost: the batches of the new query have the numbers of the old one's, and are neither skipped nor added.
    shutil.rmtree(checkpoint)
    with pytest.raises(StreamingQueryException, match=str(Code.CHECKPOINT_LOST)):
        _run_sink(lab, source, target, checkpoint, "append")
    # Put back from an old copy: batch 1 comes again, and may hold other rows than the batch 1 that landed.
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "old", checkpoint)
    _feed(lab, source, [CYD])
    with pytest.raises(StreamingQueryException, match="batch 1 again with other offsets"):
        _run_sink(lab, source, target, checkpoint, "append")
    assert rows(target.read()) == rows(lab.frame([ANN, BOB]))
    # Said to be meant: everything comes again.
    shutil.rmtree(checkpoint)
    _run_sink(lab, source, target, checkpoint, "append", epoch=2)
    assert rows(target.read()) == rows(lab.frame([ANN, BOB, ANN, BOB, CYD]))


@pytest.mark.capability(Capability.STREAM_UPSERT, given=[Capability.UPSERT, Capability.COMMIT_TAGS])
def test_a_sink_upserts_by_key(lab: Lab, tmp_path: Path) -> None:
    source, target = tmp_path / "in", lab.table(keys=["id"])
    _feed(lab, source, [ANN, BOB])
    _run_sink(lab, source, target, tmp_path / "sink", "upsert")
    _feed(lab, source, [(2, "Bobby", None), CYD])
    _run_sink(lab, source, target, tmp_path / "sink", "upsert")
    assert rows(target.read()) == rows(lab.frame([ANN, (2, "Bobby", None), CYD]))
    _feed(lab, source, [(4, "Dan", None), (4, "Dora", None)])
    with pytest.raises(StreamingQueryException, match="several rows for id = 4"):
        _run_sink(lab, source, target, tmp_path / "sink", "upsert")
    assert target.read().count() == 3


def _drain(stream: DataFrame, folder: Path) -> Counter[str]:
    """Run a query over what is there, with a checkpoint that the next call goes on from."""
    found: Counter[str] = Counter()

    def take(batch: DataFrame, _: int) -> None:
        found.update(rows(batch))

    query = (
        stream.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "reader"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def _add(total: Counter[str], batch: Counter[str]) -> None:
    for row, times in batch.items():
        *values, weight = eval(row, {"Decimal": Decimal})  # our own repr of a tuple
        total[repr(tuple(values))] += weight * times


def _feed(lab: Lab, folder: Path, new: list[tuple[object, ...]]) -> None:
    lab.frame(new).coalesce(1).write.mode("append").parquet(str(folder))


def _run_sink(
    lab: Lab, source: Path, target: SparkTable, checkpoint: Path, mode: Literal["append", "upsert"], epoch: int = 1
) -> None:
    stream = lab.spark.readStream.schema(PEOPLE).parquet(str(source))
    query = (
        stream.writeStream.foreachBatch(sink(target, f"conformance.{checkpoint.parent.name}", mode=mode, epoch=epoch))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def _forget_last_batch(checkpoint: Path) -> None:
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
