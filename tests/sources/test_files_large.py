"""Records that are larger than `max_record_size`, in every kind of file: found while they are unpacked, and told of."""

from __future__ import annotations

import bz2
import gzip
import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headwater.sources.files.pieces.json_values import json_values
from headwater.sources.files.pieces.lengths import has_long_line
from headwater.sources.files.pieces.records import Large
from headwater.sources.files.pieces.splitter import Splitter
from tests.sources.landing import Landing
from tests.support import Shop, headwater

LIMIT = 1000
HEAD = 65_536


def snappy(data: bytes) -> bytes:
    """As Hadoop frames it."""
    found = b""
    for at in range(0, len(data), 50_000):
        block = data[at : at + 50_000]
        packed: bytes = pa.Codec("snappy").compress(block, asbytes=True)
        found += struct.pack(">II", len(block), len(packed)) + packed
    return found


PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".deflate": zlib.compress,
    ".snappy": snappy,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    ".lz4": lambda data: pa.Codec("lz4").compress(data, asbytes=True),
}


def parted(data: bytes, rng: random.Random) -> list[bytes]:
    """In pieces of any size."""
    found, at = [], 0
    while at < len(data):
        size = rng.choice([1, 2, 3, 7, 50, 1000])
        found.append(data[at : at + size])
        at += size
    return found


def told(rows: list[Any]) -> list[Any]:
    """The events, or how large a record was and what is kept of it."""
    found: list[Any] = []
    for row in rows:
        if row["_problem"] is None:
            found.append(row["_event"][0])
        else:
            assert row["_problem"]["reason"] == "too_large" and row["_event"] is None
            assert f"bytes are more than `max_record_size`, {LIMIT}" in row["_problem"]["message"]
            found.append((int(row["_problem"]["message"].split()[0]), bytes(row["_raw"])))
    return found


def test_long_lines_in_every_compression(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"max_record_size": LIMIT, "min_age": "0s"})
    long, longest = f'{{"n": "{"x" * 2000}"}}', f'{{"n": "{"y" * 200_000}"}}'
    lines = ['{"n": "a"}', long, '{"n": "b"}', longest, '{"n": "c"}', "", '{"n": "d"}', long]
    for ending, pack in PACK.items():
        for name, end in (("unix", "\n"), ("windows", "\r\n"), ("mac", "\r")):
            path = landing.folder / f"{name}.json{ending}"
            path.write_bytes(pack(end.join(lines).encode()))
        (landing.folder / f"short.json{ending}").write_bytes(pack(b'{"n": "s"}\n' * 400))
    rows = landing.take()
    assert len({row["_position"] for row in rows}) == len(rows)
    kept = (len(long), long.encode())
    expected = ["a", kept, "b", (len(longest), longest.encode()[:HEAD]), "c", "d", kept]
    by_file: dict[str, list[Any]] = {}
    for row in rows:
        by_file.setdefault(row["_file_path"], []).append(row)
    assert len(by_file) == 4 * len(PACK)
    for path, found in by_file.items():
        assert told(found) == (["s"] * 400 if path.startswith("short") else expected), path


def test_large_records_in_files_that_are_not_read_by_line(tmp_path: Path, spark: SparkSession) -> None:
    big = "ä" * 2000
    size = len(big.encode())
    values = f'[{{"n": "a"}}, {{"n": "{big}"}}, {{"n": "b"}}]\n{{"n": "c"}}'
    cases: list[tuple[dict[str, Any], bytes, list[Any]]] = [
        (
            {"options": {"multiLine": "true"}},
            values.encode(),
            ["a", (size + 9, f'{{"n": "{big}"}}'.encode()), "b", "c"],
        ),
        (
            {"file_format": "csv", "options": {"multiLine": "true"}},
            f'n,m\na,1\n"{big}\n\n,",2\nb,"1\n2"\n'.encode(),
            ["a", (size + 7, f'"{big}\n\n,",2'.encode()), "b"],
        ),
        ({"file_format": "csv"}, f"n,m\na,1\n{big},2\nb,3\n".encode(), ["a", (size + 2, f"{big},2".encode()), "b"]),
        (
            {"file_format": "text", "options": {"encoding": "utf-16"}},
            f"a\n{big}\nb".encode("utf-16"),
            ["a", (size, big.encode()), "b"],
        ),
        ({"file_format": "text", "options": {"wholetext": "true"}}, big.encode(), [(size, big.encode())]),
        ({"file_format": "binary"}, big.encode(), [(size, big.encode())]),
    ]
    for n, (options, content, expected) in enumerate(cases):
        landing = Landing(tmp_path / str(n), spark, {"max_record_size": LIMIT, "min_age": "0s", **options})
        (landing.folder / "a").write_bytes(content)
        assert told(landing.take()) == expected, options
    # A header that is too large makes the file a dead letter.
    landing = Landing(tmp_path / "header", spark, {"max_record_size": LIMIT, "min_age": "0s", "file_format": "csv"})
    (landing.folder / "a").write_text(f"{big}\n1\n")
    (row,) = landing.take()
    assert "its header is larger than `max_record_size`" in row["_problem"]["message"]


def test_typed_rows_that_are_too_large(tmp_path: Path, spark: SparkSession) -> None:
    from tests.sources.test_files_formats import avro_bytes, orc_bytes, parquet_bytes

    texts = ["a", "x" * 2000, "b"]
    table = pa.table({"n": texts})
    made = {
        "parquet": parquet_bytes(table),
        "orc": orc_bytes(table),
        "avro": avro_bytes(spark, tmp_path / "made", "n string", [(text,) for text in texts]),
    }
    for kind, content in made.items():
        landing = Landing(tmp_path / kind, spark, {"max_record_size": LIMIT, "min_age": "0s", "file_format": kind})
        (landing.folder / "a").write_bytes(content)
        large = f'{{"n":"{"x" * 2000}"}}'
        assert told(landing.take()) == ["a", (len(large), large.encode()), "b"]


def avro_of_one(text: bytes, codec: str, pack: Callable[[bytes], bytes]) -> bytes:
    """A file with one row that has one text."""

    def number(value: int) -> bytes:
        value, found = value << 1, b""
        while value > 0x7F:
            found += bytes([value & 0x7F | 0x80])
            value >>= 7
        return found + bytes([value])

    def sized(data: bytes) -> bytes:
        return number(len(data)) + data

    schema = b'{"type": "record", "name": "r", "fields": [{"name": "n", "type": "string"}]}'
    about = sized(b"avro.schema") + sized(schema) + sized(b"avro.codec") + sized(codec.encode())
    block = pack(sized(text))
    marker = b"0123456789abcdef"
    return b"Obj\x01" + number(2) + about + number(0) + marker + number(1) + sized(block) + marker


def test_what_unpacks_to_more_than_spark_can_hold(tmp_path: Path, spark: SparkSession) -> None:
    """Values of 300 MB, in files of some MB at most: pages and blocks are looked at before Spark reads them."""
    from tests.sources.test_files_formats import avro_bytes, parquet_bytes

    text = b"xyz" * (100 << 20)

    def deflated(data: bytes) -> bytes:
        packer = zlib.compressobj(1, zlib.DEFLATED, -15)
        return packer.compress(data) + packer.flush()

    def checked(data: bytes) -> bytes:
        packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
        return packed + struct.pack(">I", zlib.crc32(data))

    small = pa.table({"n": ["a", "b"]})
    parquet = {}
    for codec in ("snappy", "gzip", "zstd"):
        pq.write_table(pa.table({"n": [text.decode()]}), tmp_path / codec, compression=codec, use_dictionary=False)
        parquet[codec] = (tmp_path / codec).read_bytes()
    avro = {"deflate": avro_of_one(text, "deflate", deflated), "snappy": avro_of_one(text, "snappy", checked)}
    small_avro = avro_bytes(spark, tmp_path / "made", "n string", [("a",), ("b",)])
    for kind, sound, large in (("parquet", parquet_bytes(small), parquet), ("avro", small_avro, avro)):
        landing = Landing(tmp_path / kind, spark, {"min_age": "0s", "file_format": kind})
        (landing.folder / "a").write_bytes(sound)
        for name, content in large.items():
            (landing.folder / name).write_bytes(content)
        rows = landing.take()
        assert [row["_event"]["n"] for row in rows if row["_problem"] is None] == ["a", "b"]
        dead_letters = {row["_file_path"]: row for row in rows if row["_problem"] is not None}
        assert set(dead_letters) == set(large)
        for row in dead_letters.values():
            assert row["_problem"]["reason"] == "too_large"
            assert int(row["_problem"]["message"].split()[0]) >= len(text)
            assert len(row["_raw"]) == HEAD and b"xyzxyz" in bytes(row["_raw"]) and "#0000" in row["_position"]


def test_splitting_does_not_depend_on_how_a_file_is_read(seed: int) -> None:
    rng = random.Random(seed)
    ends = ["\n", "\r", "\r\n", "\n\n"]
    texts = ["a", "bb", "", " ", "x" * 30, "é" * 40, "[1]", '"']
    for _ in range(300):
        text = "".join(rng.choice(texts) + rng.choice(ends) for _ in range(rng.randrange(8))) + rng.choice(texts)
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        lines = lines[:-1] if not lines[-1] else lines
        found = list(Splitter("text", limit=50).records(parted(text.encode(), rng)))
        assert [one.size if isinstance(one, Large) else one.decode() for one in found] == [
            len(line.encode()) if len(line.encode()) > 50 else line for line in lines
        ]
        long = any(len(line.encode()) > 50 for line in lines)
        assert has_long_line(parted(text.encode(), rng), (b"\n", b"\r"), 50) == long
        separated = "|~|".join(rng.choice(texts) for _ in range(rng.randrange(1, 6))).encode()
        assert has_long_line(parted(separated, rng), (b"|~|",), 50) == any(len(o) > 50 for o in separated.split(b"|~|"))
        split = list(Splitter("text", separator="|~|", limit=1000).records(parted(separated, rng)))
        assert split == (separated.removesuffix(b"|~|").split(b"|~|") if separated else [])


def test_json_values_do_not_depend_on_how_a_file_is_read(seed: int) -> None:
    rng = random.Random(seed)

    def value(depth: int) -> Any:
        kind = rng.randrange(7 if depth < 3 else 5)
        if kind < 5:
            return [rng.randrange(10**9), 'ä\\"{[' * rng.randrange(4), None, True, 1.5][kind]
        if kind == 5:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {f"k{n}": value(depth + 1) for n in range(rng.randrange(4))}

    for _ in range(300):
        values = [{"v": value(0)} for _ in range(rng.randrange(1, 6))]
        written = [json.dumps(one, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1])) for one in values]
        text = "[" + " ,\n".join(written) + "]" if rng.random() < 0.5 else "\n".join(written)
        found = list(json_values(parted(text.encode(), rng), 60))
        expected = [one.encode() for one in written]
        assert [one.size if isinstance(one, Large) else one for one in found] == [
            len(one) if len(one) > 60 else one for one in expected
        ]
    deep = "[" * 9000 + "]" * 9000
    assert list(json_values([f'{{"a": {deep}}} {{"b": 1}}'.encode()], 1 << 20)) == [
        f'{{"a": {deep}}}'.encode(),
        b'{"b": 1}',
    ]
    assert list(json_values([b'[{"a": 1}, {"b": ', b"2} "], 100)) == [b'{"a": 1}', b'{"b": 2}', b"["]
    assert list(json_values([b'{"a": 1} {bad} {"c": 3}'], 100)) == [b'{"a": 1}', b'{bad} {"c": 3}']
    assert list(json_values([b'{"a": "' + b"x" * 200], 100)) == [Large(207, b'{"a": "' + b"x" * 200)]


def bomb(path: Path, size: int) -> None:
    """A JSON line of that size between two others, packed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        file.write(packer.compress(b'{"event_id": "a"}\n{"event_id": "'))
        block = b"x" * (1 << 20)
        for _ in range(size >> 20):
            file.write(packer.compress(block))
        file.write(packer.compress(b'"}\n{"event_id": "b"}\n') + packer.flush())


def test_a_small_file_that_unpacks_to_one_huge_line(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop.make(tmp_path, source="after: delete")
    size = 1500 << 20
    bomb(shop.root / "landing/bomb.json.gz", size)
    assert (shop.root / "landing/bomb.json.gz").stat().st_size < 2 << 20
    shop.land("small.json", [{"event_id": "c"}])
    answer = shop.run()
    assert answer.code == 0, answer.err
    assert {row["event_id"] for row in shop.query("SELECT event_id FROM orders")} == {"a", "b", "c"}
    (letter,) = headwater("dlq", "list", "--json", "--project", shop.root).json
    assert letter["reason"] == "too_large" and letter["position"] == "000000000001/bomb.json.gz#000000000001"
    assert letter["message"].startswith(f"{size + 16} bytes are more than `max_record_size`, {64 << 20}")
    shown = headwater("dlq", "show", letter["id"], "--json", "--project", shop.root).json
    assert len(shown["raw"]) == HEAD and shown["raw"].startswith('{"event_id": "xxx')
    # Only its beginning is kept: the file stays, and there is nothing to replay.
    assert [file.name for file in (shop.root / "landing").iterdir()] == ["bomb.json.gz"]
    replayed = headwater("dlq", "replay", "orders", "--json", "--project", shop.root)
    assert replayed.code == 0, replayed.err
    assert shop.run().code == 0
    assert len(shop.query("SELECT event_id FROM orders")) == 3
