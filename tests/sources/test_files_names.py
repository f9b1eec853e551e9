"""Files and folders with any name that a file system takes, and links: read where they can be, else dead letters."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from headwater.core.errors import HeadwaterError, TransientError
from headwater.sources.files.log import InputFile
from headwater.sources.files.unreadable import unreadable
from headwater.spark.errors import as_headwater_error
from tests.hints.followed import follows
from tests.sources.landing import Landing
from tests.sources.test_files_formats import avro_bytes, orc_bytes, parquet_bytes
from tests.support import Shop, headwater

FOLDERS = ["${env:HW}", "10:00", "a*b", "{x,y}", "[0-9]", "50%", "%41", "two\nlines", "tab\there", "q?", "#1", "ü ß"]
FOLDERS += ["\\"]
NAMES = ["10:00", "${env:HW}", "*", "{a}", "[b]", "100%", "%2F", "new\nline", "?", "#", "日本", "'\"`", "back\\slash"]
NAMES += ["+", ";,=&"]


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def paths() -> list[str]:
    """Every name in a plain folder, and every folder with a plain and a strange file."""
    found = [f"plain/{name}" for name in NAMES]
    return found + [f"{folder}/{name}" for folder in FOLDERS for name in ("plain", "10:00 [1]")]


def test_lines_of_files_with_any_name(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    wanted = {}
    for n, path in enumerate(paths()):
        ending, pack = [(".json", bytes), (".json.gz", gzip.compress), (".json.bz2", bz2.compress)][n % 3]
        put(landing.folder / f"{path}{ending}", pack(f'{{"n": {n}}}\n{{"n": {n + 1000}}}\n'.encode()))
        wanted |= {n: f"{path}{ending}", n + 1000: f"{path}{ending}"}
    rows = landing.take()
    assert [row["_problem"] for row in rows if row["_problem"]] == []
    assert {row["_event"]["n"]: row["_file_path"] for row in rows} == wanted
    assert len({row["_position"] for row in rows}) == len(rows) == len(wanted)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro", "binary", "text", "multi"])
def test_other_formats_with_any_name(kind: str, tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"n": [1, 2]})
    content: bytes = {
        "parquet": lambda: parquet_bytes(table),
        "orc": lambda: orc_bytes(table),
        "avro": lambda: avro_bytes(spark, tmp_path / "made", "n bigint", [(1,), (2,)]),
        "binary": lambda: b"12",
        "text": lambda: b"1\n2\n",
        "multi": lambda: b'[{"n": 1}, {"n": 2}]',
    }[kind]()
    options = {"multi": {"file_format": "json", "options": {"multiLine": "true"}}}.get(kind, {"file_format": kind})
    landing = Landing(tmp_path, spark, options)
    some = ["plain", "10:00", "${env:HW}/10:00", "new\nline/[x]*", "{a:b}/c", "50%/%41:1"]
    for path in some:
        put(landing.folder / path, content)
    rows = landing.take()
    assert [row["_problem"] for row in rows if row["_problem"]] == []
    found = sorted(row["_file_path"] for row in rows)
    assert found == sorted(some * (1 if kind == "binary" else 2))


def test_a_name_that_is_no_text_is_a_dead_letter_and_the_others_are_read(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop.make(tmp_path / "shop")
    folder = os.fsencode(shop.root / "landing")
    shop.land("good.json", [{"event_id": "a"}])
    for name in (b"b\xff.json", b"f\xfe/c.json"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b'{"event_id": "b"}\n')
    shop.land("${env:HW}/x.json", [{"event_id": "c"}])
    answer = shop.run()
    assert answer.code == 0, answer.err
    assert {row["event_id"] for row in shop.query("SELECT event_id FROM orders")} == {"a", "c"}
    dead_letters = headwater("dlq", "list", "--json", "--project", shop.root).json
    assert sorted((one["reason"], one["message"], one["position"]) for one in dead_letters) == [
        ("decode", "the file can't be read: its name is not valid UTF-8", f"000000000001/{name}#")
        for name in ("b\\xff.json", "f\\xfe/c.json")
    ]
    # The folder goes, and comes again: nothing is ingested twice, nothing is stuck.
    (shop.root / "landing/${env:HW}/x.json").unlink()
    (shop.root / "landing/${env:HW}").rmdir()
    shop.land("10:00.json", [{"event_id": "d"}])
    assert shop.run().code == 0
    assert {row["event_id"] for row in shop.query("SELECT event_id FROM orders")} == {"a", "c", "d"}


@follows("`follow_links: true`", here=False)
def test_links_out_of_the_folder_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"min_age": "0s"})
    put(tmp_path / "secret.json", '{"n": "secret"}\n')
    put(tmp_path / "secrets/deep/one.json", '{"n": "secret"}\n')
    put(tmp_path / "landing-too/one.json", '{"n": "beside"}\n')
    put(landing.folder / "2026/a.json", '{"n": "a"}\n')
    put(landing.folder / "_hidden/h.json", '{"n": "h"}\n')
    links = {
        "file.json": tmp_path / "secret.json",
        "up.json": Path("../secret.json"),
        "twice.json": landing.folder / "file.json",
        "folder": tmp_path / "secrets",
        "2026/deeper": Path("../../secrets/deep"),
        "prefix": tmp_path / "landing-too",
        "latest": Path("2026"),
        "2026/round": landing.folder,
        "hidden": Path("_hidden"),
        "inside.json": Path("2026/a.json"),
        "nowhere.json": Path("nothing.json"),
        "self": Path("self"),
    }
    for name, target in links.items():
        (landing.folder / name).symlink_to(target)
    rows = landing.take()
    assert sorted((row["_file_path"], row["_event"]["n"]) for row in rows) == [
        ("2026/a.json", "a"),
        ("hidden/h.json", "h"),
    ]
    lag = landing.reader.lag(landing.position)
    assert lag is not None and lag.detail["refused_links"] == 6
    # What was a folder a moment ago is a link by the next look.
    os.rename(landing.folder / "2026", tmp_path / "moved")
    (landing.folder / "2026").symlink_to(tmp_path / "secrets/deep")
    assert landing.fix_range() is None
    landing.reader = landing.restarted()
    assert landing.fix_range() is None

    followed = Landing(tmp_path / "too", spark, {"path": str(landing.folder), "follow_links": True, "min_age": "0s"})
    assert {row["_event"]["n"] for row in followed.take()} == {"secret", "beside", "h"}


def test_a_file_that_becomes_a_link_before_it_is_read_is_a_dead_letter(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    put(tmp_path / "secret.json", '{"n": "secret"}\n')
    put(landing.folder / "a.json", '{"n": "a"}\n')
    put(landing.folder / "deep/b.json", '{"n": "b"}\n')
    put(landing.folder / "c.json", '{"n": "c"}\n')
    put(tmp_path / "secrets/b.json", '{"n": "secret"}\n')
    end = landing.fix_range()
    (landing.folder / "a.json").unlink()
    (landing.folder / "a.json").symlink_to(tmp_path / "secret.json")
    os.rename(landing.folder / "deep", tmp_path / "deep")
    (landing.folder / "deep").symlink_to(tmp_path / "secrets")
    records = {row["_file_path"]: row for row in landing.records(end).collect()}
    assert {path: bytes(row["_raw"]) for path, row in records.items()} == {
        "a.json": b"",
        "deep/b.json": b"",
        "c.json": b'{"n": "c"}',
    }
    assert "leads out of the source's folder" in records["a.json"]["_problem"]["message"]

    # Right before the commit it is looked at once more.
    again = Landing(tmp_path / "again", spark)
    put(again.folder / "a.json", '{"n": "a"}\n')
    end = again.fix_range()
    again.records(end).collect()
    (again.folder / "a.json").unlink()
    (again.folder / "a.json").symlink_to(tmp_path / "secret.json")
    with pytest.raises(HeadwaterError, match="changed while it was read"):
        again.reader.confirm()


def test_the_one_file_that_a_source_names_may_be_a_link(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path / "elsewhere/x.json", json.dumps({"n": 1}) + "\n")
    (tmp_path / "named.json").symlink_to(tmp_path / "elsewhere/x.json")
    landing = Landing(tmp_path, spark, {"path": "named.json", "min_age": "0s"})
    assert [row["_event"]["n"] for row in landing.take()] == [1]
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    landing = Landing(tmp_path / "two", spark, {"path": str(tmp_path / "folder")})
    assert [row["_event"]["n"] for row in landing.take()] == [1]


def test_links_to_files_of_the_same_folder(tmp_path: Path, spark: SparkSession) -> None:
    """A file is read once, under its own name; by a link only where it has none that is looked for."""
    put(tmp_path / "landing/a.json", '{"n": "a"}\n')
    put(tmp_path / "landing/deep/b.json", '{"n": "b"}\n')
    put(tmp_path / "landing/.store/c.json", '{"n": "c"}\n')
    put(tmp_path / "landing/d.txt", '{"n": "d"}\n')
    links = {"a2.json": "a.json", "a3.json": "a2.json", "b2.json": "deep/b.json", "c.json": ".store/c.json"}
    for name, target in {**links, "d.json": "d.txt"}.items():
        (tmp_path / "landing" / name).symlink_to(target)
    expected = {True: ["a.json", "c.json", "d.json", "deep/b.json"], False: ["a.json", "b2.json", "c.json", "d.json"]}
    for recursive, files in expected.items():
        options = {"path": str(tmp_path / "landing"), "pattern": "*.json", "recursive": recursive, "min_age": "0s"}
        landing = Landing(tmp_path / str(recursive), spark, options)
        assert sorted(row["_file_path"] for row in landing.take()) == files
        landing.reader = landing.restarted()
        assert landing.fix_range() is None


@pytest.mark.parametrize("after", ["keep", "delete"])
def test_names_that_look_like_uris(tmp_path: Path, spark: SparkSession, after: str) -> None:
    landing = Landing(tmp_path, spark, {"after": after, "min_age": "0s"})
    put(tmp_path / "x.json", '{"n": "of somebody else"}\n')
    names = ["file:x.json", "file:/x.json", "file:y.json.gz", "s3:x.json", "http:/x.json", "x.json"]
    for name in names:
        content = f'{{"n": "{name}"}}\n'.encode()
        put(landing.folder / name, gzip.compress(content) if name.endswith("gz") else content)
    rows = landing.take()
    assert sorted((row["_file_path"], row["_event"] and row["_event"]["n"], row["_problem"]) for row in rows) == [
        (name, name, None) for name in sorted(names)
    ]
    left = [path for path in landing.folder.rglob("*.json*") if path.is_file()]
    assert len(left) == (0 if after == "delete" else len(names)) and (tmp_path / "x.json").exists()


def test_what_passes_is_not_blamed_on_a_file(tmp_path: Path, spark: SparkSession) -> None:
    """A connection between Spark and its Python worker that broke once made a dead letter of a healthy file."""
    file = InputFile("a.json", 1, 0)

    def read(code: str) -> Callable[[Sequence[InputFile]], DataFrame]:
        scope: dict[str, Any] = {"once": str(tmp_path / "once")}
        exec(f"import os\ndef each(batches):\n    for one in batches:\n        {code}\n        yield one", scope)
        return lambda _: spark.range(1).mapInArrow(scope["each"], "id bigint")

    assert list(unreadable([file], read("raise ValueError('broken')"))) == [file]
    once = "if not os.path.exists(once):\n            open(once, 'w').close()\n            raise ValueError('broken')"
    assert unreadable([file], read(once)) == {}
    for said in ("ConnectionResetError(104, 'Connection reset by peer')", "OSError('Socket is closed')"):
        with pytest.raises(PythonException) as caught:
            unreadable([file], read(f"raise {said}"))
        assert isinstance(as_headwater_error(caught.value), TransientError)
