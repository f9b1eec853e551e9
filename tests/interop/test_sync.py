"""What a sync does and refuses, over tables that deltalake and pyiceberg write: no Java."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.api.lake import Lake
from headwater.core.errors import Code, HeadwaterError
from headwater.core.model import Kind
from headwater.exports.interop import targets
from headwater.maintenance.holds import Holds
from tests.hints.followed import follows
from tests.interop.light import LightLake, by_deltalake, by_pyiceberg
from tests.support import headwater


def rows(first: int, count: int = 3) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table(
        {"id": ids, "p": [None if id % 3 == 0 else f"p {id % 3}#%" for id in ids], "v": [id / 2 for id in ids]}
    )


@pytest.fixture
def light(tmp_path: Path) -> LightLake:
    return LightLake.make(tmp_path)


# --- Delta → Iceberg


def test_delta_rows_that_are_gone_stay_gone(light: LightLake) -> None:
    """Files that the table has left behind lie in its folder: a look at the folder would bring their rows back."""
    light.append(rows(0), partition_by=["p"])
    light.sync("d", "iceberg")
    DeltaTable(light.delta).delete("id = 1")
    DeltaTable(light.delta).update(updates={"v": "9.5"}, predicate="id = 0")
    done = light.sync("d", "iceberg")
    assert (done.files_added, done.files_removed) == (1, 2)
    found = by_pyiceberg(light.target())
    assert found == by_deltalake(light.delta)
    assert {row["id"] for row in found} == {0, 2}
    assert next(row for row in found if row["id"] == 0) == {"id": 0, "p": None, "v": 9.5}, "and its NULL partition"


def test_partitions_are_known_as_such(light: LightLake) -> None:
    light.append(rows(0), partition_by=["p"])
    light.sync("d", "iceberg")
    table = light.target()
    assert [field.name for field in table.spec().fields] == ["p"]
    assert len(list(table.scan(row_filter="p = 'p 1#%'").plan_files())) == 1
    assert [row["id"] for row in by_pyiceberg(table) if row["p"] == "p 1#%"] == [1]


def test_a_new_column_keeps_the_numbers_of_the_others(light: LightLake) -> None:
    light.append(rows(0))
    light.sync("d", "iceberg")
    before = {field.name: field.field_id for field in light.target().schema().fields}
    light.append(rows(3).append_column("more", pa.array(["x", None, "y"])), schema_mode="merge")
    assert light.sync("d", "iceberg").full, "all files are read under the new columns"
    after = {field.name: field.field_id for field in light.target().schema().fields}
    assert after == {**before, "more": max(before.values()) + 1}
    assert by_pyiceberg(light.target()) == by_deltalake(light.delta)


def test_columns_that_only_files_have_are_passed_over(light: LightLake) -> None:
    """Formats keep columns of their own in their files: Hudi's names of records, Paimon's keys."""
    light.append(rows(0))
    light.sync("d", "iceberg")
    light.append(rows(3))
    [file] = {path.name for path in Path(light.delta).glob("*.parquet")} - {
        Path(task.file.file_path).name for task in light.target().scan().plan_files()
    }
    written = pq.read_table(Path(light.delta) / file)
    own = pa.array([{"a": [1]}] * 3)
    pq.write_table(written.append_column("_own", own), Path(light.delta) / file)
    _grown(light.delta, 1, file)
    assert light.sync("d", "iceberg").rows == 3
    light.append(rows(6))
    light.sync("d", "iceberg", full=True)
    found = by_pyiceberg(light.target())
    assert found == by_deltalake(light.delta) and found[0].keys() == {"id", "p", "v"}


def _grown(root: str, version: int, file: str) -> None:
    """The log says the size that a file has now."""
    log = Path(root) / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["size"] = (Path(root) / file).stat().st_size
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_deletion_vectors_are_refused(light: LightLake) -> None:
    light.append(rows(0))
    log = Path(light.delta) / "_delta_log" / f"{1:020d}.json"
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"]}  # fmt: skip
    log.write_text(json.dumps({"protocol": features}) + "\n")
    assert light.sync("d", "iceberg").rows == 3, "the feature alone hides no row"
    [add] = [json.loads(line)["add"] for line in _commit(light.delta, 0) if "add" in json.loads(line)]
    # One row of three, as Delta encodes it inline: a roaring bitmap with the position 0.
    vector = {"storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
              "sizeInBytes": 40, "cardinality": 6}  # fmt: skip
    changed = [{"remove": {"path": add["path"], "dataChange": True}}, {"add": {**add, "deletionVector": vector}}]
    (log.parent / f"{2:020d}.json").write_text("".join(json.dumps(one) + "\n" for one in changed))
    with pytest.raises(HeadwaterError) as refused:
        light.sync("d", "iceberg")
    assert refused.value.code is Code.UNSUPPORTED
    assert len(by_pyiceberg(light.target())) == 3, "the target is as before"


def test_times_as_int96_are_refused(light: LightLake) -> None:
    light.append(pa.table({"at": pa.array([1], pa.timestamp("us", tz="UTC"))}))
    [file] = Path(light.delta).glob("*.parquet")
    pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
    with pytest.raises(HeadwaterError, match="INT96") as refused:
        light.sync("d", "iceberg")
    assert refused.value.code is Code.UNSUPPORTED


# --- Iceberg → Delta


def test_iceberg_becomes_delta_with_names_that_its_files_do_not_have(light: LightLake) -> None:
    table = light.iceberg(
        pa.schema([("id", pa.int64()), ("odd name", pa.string()), ("s", pa.struct([("x-y", pa.int32())]))])
    )
    table.append(pa.table({"id": [1, 2], "odd name": ["a", None], "s": [{"x-y": 1}, None]}, table.schema().as_arrow()))
    light.sync("i", "delta")
    assert by_deltalake(table.location()) == by_pyiceberg(table)
    table.delete("id = 1")
    light.sync("i", "delta")
    assert by_deltalake(table.location()) == by_pyiceberg(light.iceberg())


@pytest.mark.parametrize(("name", "to"), [("d", "iceberg"), ("i", "delta")])
def test_a_table_that_becomes_empty_and_full_again(light: LightLake, name: str, to: str) -> None:
    if name == "d":
        light.append(rows(0))
    else:
        light.iceberg(rows(0).schema)
        assert light.sync("i", "delta").files == 0
        light.iceberg().append(rows(0))
    light.sync(name, to)
    if name == "d":
        DeltaTable(light.delta).delete()
    else:
        light.iceberg().delete("id >= 0")
    assert light.sync(name, to).files == 0
    assert _seen(light, name) == []
    if name == "d":
        light.append(rows(3))
    else:
        light.iceberg().append(rows(3))
    light.sync(name, to)
    assert [row["id"] for row in _seen(light, name)] == [3, 4, 5]


def test_a_lake_that_moves_takes_its_targets_along(tmp_path: Path) -> None:
    light = LightLake.make(tmp_path / "old")
    light.append(rows(0), partition_by=["p"])
    light.sync("d", "iceberg")
    light.lake.close()
    (tmp_path / "old").rename(tmp_path / "new")
    moved = LightLake(tmp_path / "new", Lake.open(tmp_path / "new"))
    moved.sync("d", "iceberg")
    assert by_pyiceberg(moved.target()) == by_deltalake(moved.delta)
    assert str(tmp_path / "new") in next(iter(moved.target().scan().plan_files())).file.file_path
    moved.append(rows(3))
    assert moved.sync("d", "iceberg").files_added == 3


def test_an_empty_text_is_no_null(light: LightLake) -> None:
    """Delta takes an empty partition for NULL: such a column is none of its partition columns."""
    from pyiceberg.transforms import IdentityTransform

    table = light.iceberg(pa.schema([("id", pa.int64()), ("p", pa.string()), ("q", pa.string())]))
    with table.update_spec() as update:
        update.add_field("p", IdentityTransform(), "p")
        update.add_field("q", IdentityTransform(), "q")
    table.append(pa.table({"id": [1, 2], "p": ["a", None], "q": ["b", "c"]}))
    light.sync("i", "delta")
    assert DeltaTable(table.location()).metadata().partition_columns == ["p", "q"]
    table.append(pa.table({"id": [3], "p": [""], "q": ["b"]}))
    light.sync("i", "delta")
    assert DeltaTable(table.location()).metadata().partition_columns == ["q"]
    assert by_deltalake(table.location()) == by_pyiceberg(light.iceberg())


def test_a_renamed_column_is_refused(light: LightLake) -> None:
    table = light.iceberg(rows(0).schema)
    table.append(rows(0))
    light.sync("i", "delta")
    with table.update_schema() as update:
        update.rename_column("v", "w")
    with pytest.raises(HeadwaterError, match="'w' is still 'v'") as refused:
        light.sync("i", "delta")
    assert refused.value.code is Code.UNSUPPORTED
    assert by_deltalake(table.location())[0].keys() == {"id", "p", "v"}, "the target is as before"


def test_other_writers_refuse_the_delta_table(light: LightLake) -> None:
    table = light.iceberg(rows(0).schema)
    table.append(rows(0))
    light.sync("i", "delta")
    with pytest.raises(Exception, match=r"(?i)headwaterInterop|unsupported|feature"):
        write_deltalake(table.location(), rows(3), mode="append")
    assert by_deltalake(table.location()) == by_pyiceberg(table)


# --- what others do, and what goes wrong


@follows("to make it the source's again, whatever was written: headwater interop sync NAME --to FORMAT --replace")
def test_an_iceberg_target_that_somebody_wrote_to_is_left_alone(light: LightLake) -> None:
    light.append(rows(0))
    light.sync("d", "iceberg")
    light.target().append(rows(100, 1))
    light.append(rows(3))
    with pytest.raises(HeadwaterError, match="somebody else") as refused:
        light.sync("d", "iceberg")
    assert refused.value.code is Code.TARGET_CHANGED
    assert len(by_pyiceberg(light.target())) == 4, "nothing was done to it"
    light.sync("d", "iceberg", replace=True)
    assert by_pyiceberg(light.target()) == by_deltalake(light.delta)


def test_a_delta_log_that_somebody_wrote_to_is_left_alone(light: LightLake) -> None:
    table = light.iceberg(rows(0).schema)
    table.append(rows(0))
    light.sync("i", "delta")
    log = Path(table.location()) / "_delta_log" / f"{1:020d}.json"
    log.write_text(json.dumps({"commitInfo": {"timestamp": 1, "operation": "OPTIMIZE"}}) + "\n")
    with pytest.raises(HeadwaterError) as refused:
        light.sync("i", "delta")
    assert refused.value.code is Code.TARGET_CHANGED
    log.write_text("no JSON at all")
    with pytest.raises(HeadwaterError) as refused:
        light.sync("i", "delta")
    assert refused.value.code is Code.TARGET_CHANGED
    light.sync("i", "delta", replace=True)
    assert by_deltalake(table.location()) == by_pyiceberg(table)


def test_what_reads_back_otherwise_is_not_committed(light: LightLake) -> None:
    """A file whose partition says something else than its column: Delta would show the one, Iceberg shows the other."""
    from pyiceberg.transforms import IdentityTransform

    table = light.iceberg(pa.schema([("id", pa.int64()), ("p", pa.string())]))
    with table.update_spec() as update:
        update.add_field("p", IdentityTransform(), "p")
    table.append(pa.table({"id": [1], "p": ["a"]}))
    light.sync("i", "delta")
    table.append(pa.table({"id": [2], "p": ["b"]}))
    [file] = [task.file.file_path for task in table.scan(row_filter="p = 'b'").plan_files()]
    written = pq.read_table(file, partitioning=None)
    pq.write_table(written.set_column(1, written.schema.field("p"), pa.array(["x"])), file, compression="zstd")
    with pytest.raises(HeadwaterError) as differs:
        light.sync("i", "delta")
    assert differs.value.code is Code.READ_BACK_DIFFERS
    assert by_deltalake(table.location()) == [{"id": 1, "p": "a"}], "the old state stays"
    assert not list((light.root / "warehouse/_headwater/interop/checks").glob("*")), "and nothing is left behind"


def test_the_files_of_a_target_are_held(light: LightLake) -> None:
    light.append(rows(0))
    light.sync("d", "iceberg")
    light.append(rows(3))
    warehouse = light.lake._warehouse
    assert Holds.of(warehouse).versions(Kind.TABLE, "d") == {0}
    light.sync("d", "iceberg")
    assert Holds.of(warehouse).versions(Kind.TABLE, "d") == {0, 1}, "who reads the old snapshot may do so for an hour"
    light.lake.drop_interop("d", ["iceberg"])
    assert Holds.of(warehouse).versions(Kind.TABLE, "d") == frozenset()
    assert DeltaTable(light.delta).version() == 1, "and the table's files are all there"
    assert len(by_deltalake(light.delta)) == 6


def test_a_target_whose_record_is_gone_is_held_again(light: LightLake) -> None:
    """As after a restore: a backup has the tables, and not what is known of them besides."""
    light.append(rows(0))
    light.sync("d", "iceberg")
    warehouse = light.lake._warehouse
    targets.forget(warehouse.files, "tables.d", "iceberg")
    assert light.sync("d", "iceberg").outcome == "unchanged"
    assert Holds.of(warehouse).versions(Kind.TABLE, "d") == {0}
    assert [one.current for one in light.lake.interop_targets()] == [True]


def test_old_snapshots_of_a_target_go(light: LightLake, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.formats.iceberg import interop

    monkeypatch.setattr(interop, "_KEPT", timedelta(0))
    for number in range(4):
        light.append(rows(number * 3))
        light.sync("d", "iceberg")
    assert len(light.target().snapshots()) == 1
    assert Holds.of(light.lake._warehouse).versions(Kind.TABLE, "d") == {3}
    assert by_pyiceberg(light.target()) == by_deltalake(light.delta)


EARLIER = [pytest.param(moment, marks=pytest.mark.full) for moment in ("stage", "read")]


@pytest.mark.parametrize("moment", [*EARLIER, "commit", "tidy"])
@pytest.mark.parametrize("name", ["d", "i"])
def test_a_sync_that_is_killed_is_made_good_by_the_next(tmp_path: Path, name: str, moment: str) -> None:
    light = LightLake.make(tmp_path)
    if name == "d":
        light.append(rows(0))
    else:
        light.iceberg(rows(0).schema).append(rows(0))
    to = "iceberg" if name == "d" else "delta"
    light.sync(name, to)
    before = _seen(light, name)
    if name == "d":
        light.append(rows(3))
    else:
        light.iceberg().append(rows(3))
    _killed_at(tmp_path, name, to, moment)
    source = by_deltalake(light.delta) if name == "d" else by_pyiceberg(light.iceberg())
    assert _seen(light, name) == (source if moment == "tidy" else before), "half of a sync shows"
    light.sync(name, to)
    assert _seen(light, name) == source


def _seen(light: LightLake, name: str) -> list[dict[str, Any]]:
    return by_pyiceberg(light.target()) if name == "d" else by_deltalake(light.iceberg().location())


_KILLED = """
import os, signal, sys
from headwater.api.lake import Lake
from headwater.formats.delta import interop as delta
from headwater.formats.iceberg import interop as iceberg
root, name, to, moment = sys.argv[1:]
module = iceberg if to == "iceberg" else delta
target = module.IcebergInterop if to == "iceberg" else module.DeltaInterop
owner = target if moment in ("stage", "tidy") else (module.IcebergChange if to == "iceberg" else module.DeltaChange)
def end(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, moment, end)
Lake.open(root).sync_interop(name, [to])
"""


def _killed_at(root: Path, name: str, to: str, moment: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED, str(root), name, to, moment], check=False, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def test_a_target_is_forgotten_where_the_relation_itself_has_its_format_now(light: LightLake) -> None:
    """Another format was given to the relation, and its own log lies where the target's was."""
    light.append(rows(0))
    files = light.lake._warehouse.files
    targets.put(files, targets.TargetRecord("tables.d", "delta", light.delta, light.delta, (7,)))
    assert light.lake.drop_interop("d", ["delta"]) == ["delta"]
    assert len(by_deltalake(light.delta)) == 3
    assert list(targets.records(files)) == []


# --- commands, checks


def test_commands_sync_list_and_drop(light: LightLake) -> None:
    light.append(rows(0))
    done = headwater("interop", "sync", "d", "--to", "iceberg", "--json", "--project", light.root)
    assert done.code == 0, done.err
    assert (done.json[0]["outcome"], done.json[0]["rows"]) == ("synced", 3)
    light.append(rows(3))
    [found] = headwater("interop", "list", "--json", "--project", light.root).json
    assert (found["relation"], found["current"], found["source_version"], found["latest_version"]) == (
        "tables.d",
        False,
        0,
        1,
    )
    assert found["location"] == "lake.interop_tables.d"
    dropped = headwater("interop", "drop", "d", "--from", "iceberg,delta", "--json", "--project", light.root)
    assert dropped.json == {"dropped": ["iceberg"]}
    assert headwater("interop", "list", "--json", "--project", light.root).json == []


@pytest.mark.parametrize(
    ("to", "code", "words"),
    [
        ("delta", "UNSUPPORTED", "Delta Lake already"),
        ("hudi", "UNSUPPORTED", "can't take over"),
        ("parquet", "UNSUPPORTED", "can't take over"),
        ("icberg", "UNKNOWN_FORMAT", "unknown format 'icberg'"),
    ],
)
def test_targets_that_cannot_be_are_refused(light: LightLake, to: str, code: str, words: str) -> None:
    light.append(rows(0))
    refused = headwater("interop", "sync", "d", "--to", to, "--project", light.root)
    assert refused.code == 2
    assert words in refused.err and code in refused.err


@follows("{} can be read as {}")
def test_what_a_format_can_be_read_as_is_told(light: LightLake) -> None:
    light.append(rows(0))
    with pytest.raises(HeadwaterError) as refused:
        light.sync("d", "hudi")
    assert refused.value.problem.hint == "Delta Lake can be read as iceberg"
    assert light.sync("d", "iceberg").rows == 3


@pytest.mark.parametrize(
    ("format", "interop", "words"),
    [
        ("delta", "[hudi]", "Apache Hudi can't take over the files"),
        ("iceberg", "[iceberg]", "it is Apache Iceberg already"),
        ("parquet", "[paimon]", "Apache Paimon can't take over the files"),
        ("delta", "[icberg]", "unknown format 'icberg'"),
    ],
)
def test_check_says_what_cannot_be_done_and_what_can(tmp_path: Path, format: str, interop: str, words: str) -> None:
    (tmp_path / "headwater.yml").write_text(f"name: x\ntables:\n  t: {{format: {format}, interop: {interop}}}\n")
    answer = headwater("check", "--project", tmp_path)
    assert answer.code == 2
    assert words in answer.out + answer.err and "tables.t.interop" in answer.out + answer.err


@follows("say which with --to, or write `interop: [...]` at {}.{}")
def test_a_relation_without_interop_says_what_to_do(light: LightLake) -> None:
    light.append(rows(0))
    answer = headwater("interop", "sync", "d", "--project", light.root)
    assert answer.code == 2 and "--to" in answer.err
    assert headwater("interop", "sync", "d", "--to", "iceberg", "--project", light.root).code == 0
    file = light.root / "headwater.yml"
    file.write_text(file.read_text().replace("  d: {keys: [id],", "  d: {keys: [id], interop: [iceberg],"))
    assert headwater("interop", "sync", "d", "--json", "--project", light.root).json[0]["outcome"] == "unchanged"


def _commit(root: str, version: int) -> list[str]:
    return (Path(root) / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
