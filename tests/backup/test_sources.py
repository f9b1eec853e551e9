"""Where a restored lake goes on in each kind of source, and what is backed up where it lies elsewhere than usual."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from tests.backup.lab import back_up, project_at, refused, restore
from tests.hints.followed import follows
from tests.recovery.lab import Moving
from tests.recovery.test_moved import AFTER_TWO, filled
from tests.recovery.test_streams import CODE
from tests.runtime.running import COMMAND
from tests.services.kafka import broker
from tests.services.postgres import Server, server
from tests.services.s3 import SECRET_KEY, ObjectStore, object_store
from tests.sources.cdc_lab import Crm
from tests.support import COLD

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with server() as running:
        yield running


@pytest.fixture
def crm(postgres: Server, tmp_path: Path) -> Iterator[Crm]:
    made = Crm(postgres.database(), tmp_path)
    yield made
    made.end()


def of_changes(root: Path, crm: Crm) -> Moving:
    """A project with two topics of one slot, which has taken in a snapshot and a change of each."""
    root.mkdir()
    settings = {
        "name": "shop",
        "sources": {"crm": {"type": "postgres_cdc", "dsn": crm.dsn, "tables": ["public.a", "public.b"]}},
        "topics": {f"{name}_log": {"from": "crm", "table": f"public.{name}"} for name in "ab"},
    }
    (root / "headwater.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    project = Moving(root)
    crm.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY)" for name in "ab"))
    for id in (1, 2):
        crm.run(f"INSERT INTO a VALUES ({id})", f"INSERT INTO b VALUES ({id})")
        project.run()
    return project


def ids(project: Moving, topic: str) -> list[int]:
    return [
        row["id"] for row in project.query(f"SELECT after.id AS id FROM topic('{topic}') WHERE _op <> 't' ORDER BY id")
    ]


def test_changes_of_a_database_go_on_in_their_slot(crm: Crm, tmp_path: Path) -> None:
    original = of_changes(tmp_path / "project", crm)
    back_up(original, tmp_path / "back")
    crm.run("INSERT INTO a VALUES (3)")
    restored = project_at(tmp_path / "restored", original)
    shutil.rmtree(original.root)
    restore(restored, tmp_path / "back")
    crm.run("INSERT INTO a VALUES (4)")
    restored.run()
    assert ids(restored, "a_log") == [1, 2, 3, 4] and ids(restored, "b_log") == [1, 2]
    crm.run("INSERT INTO b VALUES (5)")
    restored.run()
    assert ids(restored, "a_log") == [1, 2, 3, 4] and ids(restored, "b_log") == [1, 2, 5]


def test_changes_that_the_slot_has_let_go_of_since_are_missed(crm: Crm, tmp_path: Path) -> None:
    original = of_changes(tmp_path / "project", crm)
    back_up(original, tmp_path / "back")
    crm.run("INSERT INTO a VALUES (3)", "INSERT INTO b VALUES (3)")
    original.run()
    restored = project_at(tmp_path / "restored", original)
    shutil.rmtree(original.root)
    restore(restored, tmp_path / "back")
    crm.run("INSERT INTO a VALUES (4)")
    answer = restored.do("run", "--once", "--json")
    assert answer.code == 1 and "DATA_LOSS" in answer.out and "the slot" in answer.out, answer.out
    assert ids(restored, "a_log") == [1, 2], "nothing is taken for whole that is not"
    for name in "ab":
        assert restored.do("flow", "rebuild", f"topics.{name}_log", "--yes").code == 0
    restored.run()
    assert ids(restored, "a_log") == [1, 2, 3, 4] and ids(restored, "b_log") == [1, 2, 3]


@pytest.mark.full
def test_a_state_that_machines_share(postgres: Server, tmp_path: Path) -> None:
    original = filled(tmp_path / "project", "delta", on_change="reload")
    config = original.root / "headwater.yml"
    plain = config.read_text()
    config.write_text(f"{plain}state: {postgres.database()}\n", encoding="utf-8")
    original.land("c.json", [("6", "z", 10)])
    original.run()
    assert original.do("flow", "pause", "views.kinds").code == 0
    back_up(original, tmp_path / "back")
    refused(project_at(tmp_path / "beside", original).do("restore", tmp_path / "back"), "BACKUP_NOT_EMPTY", "shared")
    restored = project_at(tmp_path / "restored", original)
    (restored.root / "headwater.yml").write_text(f"{plain}state: {postgres.database()}\n", encoding="utf-8")
    steps = "SELECT count(*) AS n FROM system.steps"
    before = original.query(steps)
    shutil.rmtree(original.root)
    restore(restored, tmp_path / "back")
    assert restored.query(steps) == before and before[0]["n"] > 0
    assert {one["flow"]: one["state"] for one in restored.do("status", "--json").json}["views.kinds"] == "paused"
    assert restored.do("flow", "resume", "views.kinds").code == 0
    restored.land("d.json", [("7", "z", 1)])
    restored.run()
    assert restored.query(steps)[0]["n"] > before[0]["n"]
    assert restored.kinds() == [*AFTER_TWO[:2], ("z", 3, 16)]


@pytest.mark.full
def test_kafka_goes_on_from_the_offsets_of_the_back_up(tmp_path: Path) -> None:
    with broker(tmp_path) as kafka:
        kafka.create("clicks", partitions=2)
        root = tmp_path / "project"
        root.mkdir()
        source = f"clicks: {{type: kafka, brokers: '{kafka.address}', topic: clicks}}"
        (root / "headwater.yml").write_text(
            f"name: clicks\nsources: {{{source}}}\ntopics: {{clicks: {{from: clicks}}}}\n", encoding="utf-8"
        )
        original = Moving(root)

        def send(start: int, end: int) -> None:
            kafka.send("clicks", ({"value": b'{"id": %d}' % n, "partition": n % 2} for n in range(start, end)))

        send(0, 10)
        original.run()
        back_up(original, tmp_path / "back")
        send(10, 20)
        original.run()
        restored = project_at(tmp_path / "restored", original)
        shutil.rmtree(original.root)
        restore(restored, tmp_path / "back")
        send(20, 25)
        restored.run()
        found = [row["id"] for row in restored.query("SELECT id FROM topic('clicks') ORDER BY id")]
        assert found == list(range(25))


@pytest.mark.parametrize("format", ["iceberg", pytest.param("delta", marks=pytest.mark.full)])
def test_a_streaming_table_goes_on_from_its_checkpoint(format: str, tmp_path: Path) -> None:
    """Iceberg's is fed by files, Delta's by Delta's own source."""
    more = "tables: {seen: {transform: seen, keys: [kind], format: delta}}"
    original = Moving.make(tmp_path / "my project", format, more=more, on_change="reload")
    config = original.root / "headwater.yml"
    config.write_text(config.read_text() + "code: code.py\n")
    (original.root / "code.py").write_text(CODE)
    original.land("a.json", [("1", "x", 1), ("2", "y", 2)])
    original.run()
    back_up(original, tmp_path / "back")
    original.land("b.json", [("3", "x", 3)])
    original.run()
    restored = project_at(tmp_path / "restored % here", original)
    shutil.rmtree(original.root)
    restore(restored, tmp_path / "back")
    assert restored.run()[0]["tables.seen"] == (1, 1)
    restored.land("c.json", [("4", "y", 3), ("5", "z", 3)])
    restored.run()
    assert restored.query("SELECT kind, seen FROM table('seen') ORDER BY kind") == [
        {"kind": "x", "seen": 2},
        {"kind": "y", "seen": 2},
        {"kind": "z", "seen": 1},
    ]


PLACED = """\
name: placed
sources:
  landing: {{type: files, path: ./landing, on_change: reload}}
topics:
  orders: {{from: landing, path: '{path}', format: {format}}}
"""


@pytest.mark.parametrize(
    "format", ["parquet", *(pytest.param(f, marks=pytest.mark.full) for f in ("delta", "iceberg", "hudi"))]
)
def test_a_table_beside_the_warehouse_comes_along(format: str, tmp_path: Path) -> None:
    original = Moving(tmp_path / "project")
    original.root.mkdir()
    (original.root / "landing").mkdir()
    config = PLACED.format(path="./beside it/orders", format=format)
    (original.root / "headwater.yml").write_text(config, encoding="utf-8")
    original.land("a.json", [("1", "x", 1), ("2", "y", 2)])
    original.run()
    back_up(original, tmp_path / "back")
    restored = project_at(tmp_path / "restored", original)
    shutil.rmtree(restored.root / "beside it")
    shutil.rmtree(original.root)
    restore(restored, tmp_path / "back")
    restored.land("b.json", [("3", "x", 3)])
    restored.run()
    assert restored.count() == 3
    assert (restored.root / "beside it" / "orders").exists()


@follows("keep it in the warehouse: without a `path`, or with one in the project's folder")
def test_a_table_that_lies_anywhere_is_refused(tmp_path: Path) -> None:
    project = Moving(tmp_path / "project")
    project.root.mkdir()
    (project.root / "landing").mkdir()
    config = PLACED.format(path=tmp_path / "elsewhere" / "orders", format="parquet")
    (project.root / "headwater.yml").write_text(config, encoding="utf-8")
    project.land("a.json", [("1", "x", 1)])
    project.run()
    refused(project.do("backup", tmp_path / "back"), "UNSUPPORTED", str(tmp_path / "elsewhere" / "orders"))
    assert list((tmp_path / "back").iterdir()) == []
    assert project.do("topic", "drop", "orders", "--yes").code == 0
    (project.root / "headwater.yml").write_text(config.replace(str(tmp_path / "elsewhere"), "./here"), encoding="utf-8")
    project.run()
    back_up(project, tmp_path / "back")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("s3")) as running:
        yield running


def test_a_back_up_in_a_bucket(spark: SparkSession, store: ObjectStore, tmp_path: Path) -> None:
    bucket = store.bucket("backups")
    original = filled(tmp_path / "project", "iceberg", on_change="reload")
    plain = (original.root / "headwater.yml").read_text()
    with_store = f"{plain}storage: {{s3: {store.settings}}}\n"  # not for the Spark of all tests, which lacks its jars
    (original.root / "headwater.yml").write_text(with_store, encoding="utf-8")
    told = back_up(original, "s3://backups/shop/monday % ü")
    assert told["path"] == "s3://backups/shop/monday % ü"
    refused(original.do("backup", "s3://backups/shop/monday % ü"), "BACKUP_NOT_EMPTY")
    text = bucket.open_input_file("shop/monday % ü/backup.json").read()
    assert SECRET_KEY.encode() not in text
    restored = project_at(tmp_path / "restored", original)
    shutil.rmtree(original.root)
    data = next(name for name in bucket_names(bucket, "shop/monday % ü/lake/topics") if name.endswith(".parquet"))
    content = bucket.open_input_file(data).read()
    with bucket.open_output_stream(data) as file:
        file.write(content[:-1] + bytes([content[-1] ^ 1]))
    refused(restored.do("restore", "s3://backups/shop/monday % ü"), "BACKUP_DAMAGED", data.rpartition("/")[2])
    with bucket.open_output_stream(data) as file:
        file.write(content)
    restore(restored, "s3://backups/shop/monday % ü")
    (restored.root / "headwater.yml").write_text(plain, encoding="utf-8")
    assert restored.kinds() == AFTER_TWO
    restored.land("c.json", [("6", "z", 10)])
    assert restored.run()[0]["topics.orders"] == (1, 1)
    assert restored.do("mv", "verify", "kinds").code == 0


FAR = """\
name: far
warehouse: {warehouse}
spark: {{master: 'local[2]', conf: {cold}}}
storage: {{s3: {s3}}}
sources: {{landing: {{type: files, path: ./landing, on_change: reload}}}}
topics:
  as_delta: {{from: landing, format: delta}}
  as_iceberg: {{from: landing, format: iceberg}}
"""


def ended(project: Moving, *arguments: str | Path) -> str:
    """A command in a process of its own, whose Spark knows the store."""
    command = [*COMMAND, *map(str, arguments), "--project", str(project.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.full
def test_a_lake_in_a_bucket_is_restored_in_another(store: ObjectStore, tmp_path: Path) -> None:
    store.bucket("far")
    near = store.bucket("near")
    original = Moving(tmp_path / "project")
    (original.root / "landing").mkdir(parents=True)
    config = FAR.format(warehouse="s3://far/lake", s3=store.settings, cold=COLD)
    (original.root / "headwater.yml").write_text(config, encoding="utf-8")
    original.land("a.json", [("1", "x", 1), ("2", "y", 2)])
    ended(original, "run", "--once")
    back_up(original, tmp_path / "back")
    restored = project_at(tmp_path / "restored", original)
    (restored.root / "headwater.yml").write_text(config.replace("s3://far/lake", "s3://near/lake"), encoding="utf-8")
    shutil.rmtree(original.root)
    store.bucket("far").delete_dir("lake")
    restore(restored, tmp_path / "back")
    assert any("lake/topics/as_delta" in name for name in bucket_names(near, "lake"))
    restored.land("b.json", [("3", "x", 3)])
    ended(restored, "run", "--once")
    for topic in ("as_delta", "as_iceberg"):
        told = ended(restored, "query", f"SELECT event_id FROM topic('{topic}') ORDER BY 1", "--output", "json")
        assert [row["event_id"] for row in json.loads(told)] == ["1", "2", "3"]
    assert bucket_names(store.bucket("far"), "") == [], "nothing was made where it was"


def bucket_names(bucket: object, folder: str) -> list[str]:
    from pyarrow import fs

    assert isinstance(bucket, fs.FileSystem)
    return [one.path for one in bucket.get_file_info(fs.FileSelector(folder, recursive=True))]
