"""Files become topics through the command: each file format, each table format, broken files, wrong projects."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from tests.docs.test_examples import blocks
from tests.sources.landing import put
from tests.sources.test_files_formats import avro_bytes, orc_bytes, parquet_bytes
from tests.support import Shop, headwater

TOPICS = {
    "json_in_delta": ("delta", "json"),
    "csv_in_delta": ("delta", "csv"),
    "csv_in_iceberg": ("iceberg", "csv"),
    "parquet_in_delta": ("delta", "parquet"),
    "avro_in_delta": ("delta", "avro"),
    "orc_in_delta": ("delta", "orc"),
}
"""Every file format in Delta, and CSV in Iceberg; JSON is taken into every format in tests/firstlight."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Shop:
    """Two steps of every topic: the second brings a column that the first has not."""
    root = tmp_path_factory.mktemp("files")
    formats = sorted({file_format for _, file_format in TOPICS.values()})
    lines = ["name: files", "sources:"]
    lines += [
        f"  {one}: {{type: files, path: landing/{one}, file_format: {one}}}" for one in [*formats, "text", "binary"]
    ]
    lines += ["  strict: {type: files, path: landing/csv, file_format: csv, schema: 'id int, amount int'}", "topics:"]
    lines += [f"  {name}: {{from: {source}, format: {format}}}" for name, (format, source) in TOPICS.items()]
    lines += ["  text: {from: text}", "  binary: {from: binary}", "  strict: {from: strict}"]
    (root / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = pa.table({"id": [1, 2], "amount": [1.5, 2.5]})
    more = pa.table({"note": ["new"], "id": [3]})
    landing = root / "landing"
    put(
        landing,
        {
            "json/day=2026-10-31/a.json": '{"id": 1, "amount": 1.5}\n{"id": 2, "amount": 2.5}\n{broken\n',
            "json/broken.json.gz": gzip.compress(os.urandom(20_000))[:5_000],
            "csv/day=2026-10-31/a.csv": "id,amount\n1,1.5\n2,2.5\n3\n",
            "parquet/day=2026-10-31/a.parquet": parquet_bytes(rows),
            "parquet/broken.parquet": b"no",
            "orc/day=2026-10-31/a.orc": orc_bytes(rows),
            "avro/day=2026-10-31/a.avro": avro_bytes(
                spark, root / "1", "id bigint, amount double", [(1, 1.5), (2, 2.5)]
            ),
            "text/a.txt": "one\ntwo\n",
            "binary/a.bin": b"\x00\xff",
        },
    )
    shop = Shop(root)
    _succeeds(shop)
    put(
        landing,
        {
            "json/b.json": '{"note": "new", "id": 3}\n',
            "csv/b.csv": "note,id\nnew,3\n",
            "parquet/b.parquet": parquet_bytes(more),
            "orc/b.orc": orc_bytes(more),
            "avro/b.avro": avro_bytes(spark, root / "2", "note string, id bigint", [("new", 3)]),
        },
    )
    _succeeds(shop)
    return shop


def _succeeds(shop: Shop) -> None:
    answer = shop.run()
    assert answer.code == 0, answer.out + answer.err


@pytest.mark.parametrize("topic", TOPICS)
def test_rows_with_their_files(topic: str, shop: Shop) -> None:
    source = TOPICS[topic][1]
    columns = "id, amount, note, cast(day AS string) AS day, _file_path AS file"
    assert shop.query(f"SELECT {columns} FROM topic('{topic}') ORDER BY id") == [
        {"id": 1, "amount": 1.5, "note": None, "day": "2026-10-31", "file": f"day=2026-10-31/a.{source}"},
        {"id": 2, "amount": 2.5, "note": None, "day": "2026-10-31", "file": f"day=2026-10-31/a.{source}"},
        {"id": 3, "amount": None, "note": "new", "day": None, "file": f"b.{source}"},
    ]


def test_text_and_binary_files(shop: Shop) -> None:
    assert shop.query("SELECT value FROM topic('text') ORDER BY _position") == [{"value": "one"}, {"value": "two"}]
    found = shop.query(
        "SELECT path, length, hex(content) AS content, modified = _file_modified AS same FROM topic('binary')"
    )
    assert found == [{"path": "a.bin", "length": 2, "content": "00FF", "same": True}]


def test_broken_files_lines_and_values_are_dead_letters(shop: Shop) -> None:
    def dead_letters(topic: str) -> dict[str, tuple[str, str]]:
        return {letter.position.split("#")[0]: (letter.reason, letter.message) for letter in found[topic]}

    with Lake.open(shop.root) as lake:
        names = ("json_in_delta", "csv_in_delta", "parquet_in_delta", "strict")
        found = {name: lake.dead_letters(name) for name in names}
    assert dead_letters("json_in_delta") == {
        "000000000001/broken.json.gz": ("decode", "the file can't be read: Truncated compressed stream"),
        "000000000001/day=2026-10-31/a.json": ("decode", "not one JSON object"),
    }
    assert dead_letters("csv_in_delta") == {"000000000001/day=2026-10-31/a.csv": ("decode", "not 2 columns")}
    assert list(dead_letters("parquet_in_delta")) == ["000000000001/broken.parquet"]
    assert sorted((letter.reason, letter.message.split("; hint: ")[0]) for letter in found["strict"]) == [
        ("decode", "not 2 columns"),
        ("schema", "amount: 1.5 does not fit int"),
        ("schema", "amount: 2.5 does not fit int"),
    ]
    assert shop.query("SELECT id, amount FROM topic('strict')") == [{"id": 3, "amount": None}]


def test_every_file_format_in_iceberg(tmp_path: Path, spark: SparkSession) -> None:
    """And many small files become one; columns that differ only in case become two."""
    table = pa.table({"id": [1], "ID": ["a"]})
    avro = avro_bytes(spark, tmp_path / "1", "id bigint, name string", [(1, "a")])
    files: dict[str, tuple[str, str | bytes]] = {
        "csv": ("a.csv", "id,ID\n1,a\n"),
        "parquet": ("a.parquet", parquet_bytes(table)),
        "orc": ("a.orc", orc_bytes(table)),
        "avro": ("a.avro", avro),
        "text": ("a.txt", "a\n"),
        "binary": ("a.bin", b"a"),
    }
    lines = ["name: files", "format: iceberg", "sources:", "  json: {type: files, path: landing/json}"]
    lines += [f"  {one}: {{type: files, path: landing/{one}, file_format: {one}}}" for one in files]
    lines += ["topics:", *(f"  {one}: {{from: {one}}}" for one in ["json", *files])]
    (tmp_path / "headwater.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    put(tmp_path / "landing", {f"{one}/{name}": content for one, (name, content) in files.items()})
    put(tmp_path / "landing", {f"json/{n}.json": f'{{"id": {n}}}\n' for n in range(40)})
    shop = Shop(tmp_path)
    _succeeds(shop)
    columns = {"avro": "id, name", "text": "value", "binary": "length, path"}
    found = {one: shop.query(f"SELECT {columns.get(one, 'id, payload_ID')} FROM topic('{one}')") for one in files}
    assert {one: [tuple(row.values()) for row in rows] for one, rows in found.items()} == {
        **{one: [(1, "a")] for one in files},
        "text": [("a",)],
        "binary": [(1, "a.bin")],
    }
    assert shop.query("SELECT count(*) AS n, count(DISTINCT id) AS ids FROM topic('json')") == [{"n": 40, "ids": 40}]
    assert len(list((tmp_path / "lake").glob("**/topics/json/data/**/*.parquet"))) == 1


def test_values_in_paths_that_do_not_fit_are_rescued(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop.make(tmp_path, topic="schema: {new_column: rescue}", source='schema_hints: "year bigint, n int"')
    shop.land("year=2026/a.json", ['{"n": 1}'])
    shop.land("year=soon/b.json", ['{"n": 2}', '{"n": "three"}', '{"n": 4, "year": "never"}'])
    _succeeds(shop)
    assert shop.query("SELECT n, year, _rescued FROM topic('orders') ORDER BY _position") == [
        {"n": 1, "year": 2026, "_rescued": None},
        {"n": 2, "year": None, "_rescued": '{"year":"soon"}'},
        {"n": None, "year": None, "_rescued": '{"n":"three","year":"soon"}'},
        {"n": 4, "year": None, "_rescued": '{"year":"never"}'},
    ]


def test_typed_values_that_do_not_fit_are_rescued(tmp_path: Path, spark: SparkSession) -> None:
    source = 'file_format: parquet\nschema_hints: "n int, at struct<x: int>"'
    shop = Shop.make(tmp_path, topic="schema: {new_column: rescue}", source=source)
    table = pa.table({"n": ["1", "two"], "at": [{"x": 5_000_000_000}, {"x": 2}], "id": [1, 2]})
    put(shop.root / "landing", {"a.parquet": parquet_bytes(table)})
    _succeeds(shop)
    assert shop.query("SELECT id, n, at.x AS x, _rescued FROM topic('orders') ORDER BY id") == [
        {"id": 1, "n": 1, "x": None, "_rescued": '{"at":"{\\"x\\":5000000000}"}'},
        {"id": 2, "n": None, "x": 2, "_rescued": '{"n":"two"}'},
    ]


def test_the_example_of_the_docs(tmp_path: Path, spark: SparkSession) -> None:
    (project,) = blocks("docs/sources/files.md", "yaml")
    (tmp_path / "headwater.yml").write_text(project, encoding="utf-8")
    files = dict(
        zip(("shop=north/monday.csv", "shop=south/monday.csv"), blocks("docs/sources/files.md", "csv"), strict=True)
    )
    put(tmp_path / "landing", files)
    shop = Shop(tmp_path)
    _succeeds(shop)
    (statement,) = blocks("docs/sources/files.md", "sql")
    (expected,) = blocks("docs/sources/files.md", "text")
    answer = headwater("query", statement, "--output", "csv", "--project", tmp_path)
    assert answer.out.split() == expected.split(), answer.err
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/shop=*/*")) == [
        f"done/{name}" for name in files
    ]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("file_format: xml", "sources.landing.file_format"),
        ("on_change: shrug", "sources.landing.on_change"),
        ("max_files: 0", "sources.landing.max_files"),
        ("max_bytes: lots", "sources.landing.max_bytes"),
        ("after: archive", "`after: archive` and `archive_to` go together"),
        ("schema: id integr", "sources.landing.schema"),
        ("min_agee: 5s", "did you mean 'min_age'?"),
    ],
)
def test_a_wrong_source_is_refused(source: str, said: str, tmp_path: Path) -> None:
    shop = Shop.make(tmp_path, source=source)
    answer = headwater("check", "--project", shop.root)
    assert answer.code == 2 and said in answer.out + answer.err


def test_files_that_one_topic_deletes_are_no_others(tmp_path: Path) -> None:
    shop = Shop.make(tmp_path, source="after: delete")
    with (tmp_path / "headwater.yml").open("a") as file:
        file.write("  copies: {from: landing}\n")
    answer = headwater("check", "--project", shop.root)
    assert answer.code == 2 and "topics.copies" in answer.out + answer.err and "after" in answer.out + answer.err


def test_a_missing_folder_is_told(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop.make(tmp_path)
    (tmp_path / "landing").rmdir()
    answer = shop.run()
    assert answer.code == 1 and "SOURCE_UNAVAILABLE" in answer.out + answer.err
