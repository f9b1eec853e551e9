"""Every file format: what becomes an event, what a dead letter, and where a record stands."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import Row, SparkSession

from headwater.sources.decoders.csv import CsvDecoder
from headwater.spark.session import fork
from tests.sources.landing import Landing, put


def events(rows: list[Row]) -> list[dict[str, Any] | None]:
    return [None if row["_event"] is None else row["_event"].asDict(recursive=True) for row in rows]


def dead_letters(rows: list[Row]) -> dict[str, tuple[str, str]]:
    return {row["_position"]: tuple(row["_problem"]) for row in rows if row["_problem"] is not None}


def parquet_bytes(table: pa.Table) -> bytes:
    out = io.BytesIO()
    parquet.write_table(table, out)
    return out.getvalue()


def orc_bytes(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    orc.write_table(table, out)
    return bytes(out.getvalue().to_pybytes())


def avro_bytes(spark: SparkSession, folder: Path, ddl: str, rows: list[tuple[object, ...]]) -> bytes:
    spark.createDataFrame(rows, ddl).coalesce(1).write.format("avro").save(str(folder))
    return next(folder.glob("*.avro")).read_bytes()


def zstd(content: bytes) -> bytes:
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def test_json_lines_compressed_or_not(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    put(
        landing.folder,
        {
            "a b+%20[1].json": '{"n": 1}\n\n{"n": 2}\n',
            "b.json.gz": gzip.compress(b'{"n": 3}\n'),
            "c.json.bz2": bz2.compress(b'{"n": 4}\n'),
            "d.json.zst": zstd(b'{"n": 5}\n{"n": 6}\n'),
            "e.json": "",
            ".hidden.json": '{"n": 0}',
            "_temporary/f.json": '{"n": 0}',
            "g.json.part": '{"n": 0}',
        },
    )
    rows = landing.take()
    assert [row["n"] for row in (r["_event"] for r in rows)] == [1, 2, 3, 4, 5, 6]
    assert [row["_file_path"] for row in rows[:2]] == ["a b+%20[1].json"] * 2
    assert rows[0]["_position"].startswith("000000000001/a b+%20[1].json#000000000000+")
    modified = (landing.folder / "b.json.gz").stat().st_mtime
    assert abs(rows[2]["_file_modified"].timestamp() - modified) < 1
    assert dead_letters(rows) == {}


def test_json_over_many_lines(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"options": {"multiLine": True}, "file_columns": False})
    landing.put(
        a_json='[\n  {"price": 1.10,\n   "tags": ["x\u2028y"]},\n  {"price": 2}\n]',
        b_json='{"price":\n 3}\n{"price": 4}\n{"price": ',
    )
    rows = landing.take()
    assert [bytes(row["_raw"]).decode() for row in rows] == [
        '{"price": 1.10,\n   "tags": ["x\u2028y"]}',
        '{"price": 2}',
        '{"price":\n 3}',
        '{"price": 4}',
        '{"price": ',
    ]
    assert [None if row["_event"] is None else row["_event"]["price"] for row in rows] == [1.1, 2, 3, 4, None]
    assert list(dead_letters(rows)) == ["000000000001/b.json#000000000002"]
    assert "_file_path" not in rows[0]


def test_csv_columns_go_by_each_files_own_header(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"file_format": "csv"})
    landing.put(
        a_csv='id,name,zip\n1,"a ""quoted"" one",007\n2,,10\n',
        b_csv=b"\xef\xbb\xbfname,amount,id\r\nsecond,2.50,3\r\n",
        c_csv='id,name,zip\n4\n5,x,1,too many\n6,"open,1\nseven,y,2\n',
        d_csv="id,name,zip\n",
    )
    rows = landing.take()
    found = {event["id"]: event for event in events(rows) if event is not None}
    assert found == {
        "1": {"id": "1", "name": 'a "quoted" one', "zip": "007", "amount": None},
        "2": {"id": "2", "name": None, "zip": "10", "amount": None},
        "3": {"id": "3", "name": "second", "zip": None, "amount": 2.5},
        "seven": {"id": "seven", "name": "y", "zip": "2", "amount": None},
    }
    assert sorted(message for _, message in dead_letters(rows).values()) == [
        "a quote that is not closed",
        "not 3 columns",
        "not 3 columns",
    ]
    assert {bytes(row["_raw"]) for row in rows} >= {b"id,name,zip\n2,,10", b"name,amount,id\nsecond,2.50,3"}
    replayed = landing.reader.raw_decoder
    records = landing.reader.read(None, landing.position).select("_raw", "_position")
    again = replayed.decode(records, replayed.detect(records)).orderBy("_position").collect()
    assert [row["_event"] for row in again] == [row["_event"] for row in rows]


def test_csv_over_many_lines_and_without_a_header(tmp_path: Path, spark: SparkSession) -> None:
    options = {"multiLine": True, "sep": ";", "comment": "#"}
    landing = Landing(tmp_path / "a", spark, {"file_format": "csv", "options": options})
    landing.put(a_csv='# made by hand\nid;"full\nname"\n1;"x;\ny"\n\n2;z\n')
    assert events(landing.take()) == [{"id": 1, "full name": "x;\ny"}, {"id": 2, "full name": "z"}]
    landing = Landing(
        tmp_path / "b", spark, {"file_format": "csv", "options": {"header": False}, "schema": "n int, s string"}
    )
    landing.put(a_csv="1,x\n2,y\n")
    assert events(landing.take()) == [{"n": 1, "s": "x"}, {"n": 2, "s": "y"}]


def test_lines_of_csv_alone(spark: SparkSession) -> None:
    """As a message queue brings them: no header, no file."""
    lines = ["1,2024-02-29,1.5,true,12345678901234567890,10:30", "2,2024-03-01,,false,1,12f", "3,2024", "\xff"]
    raw = [(line.encode("latin-1"),) for line in lines] + [(None,)]
    records = spark.createDataFrame(raw, "_raw binary")
    decoder = CsvDecoder()
    schema = decoder.detect(records)
    assert [f.dataType.simpleString() for f in schema.fields] == [
        "bigint", "date", "double", "boolean", "decimal(38,0)", "string"
    ]  # fmt: skip
    rows = decoder.decode(records, schema).collect()
    assert rows[0]["_event"]["_c4"] == Decimal("12345678901234567890") and rows[1]["_event"]["_c2"] is None
    assert [row["_problem"] and row["_problem"]["message"] for row in rows] == [
        None, None, "not 6 columns", "not valid UTF-8", None
    ]  # fmt: skip
    named = CsvDecoder(names=["id", "tags"])
    told = spark.createDataFrame([(b'x,"[""a""]"',), (b"1,oops",)], "_raw binary")
    hinted = spark.createDataFrame([], "tags array<string>, id bigint").schema
    found = named.decode(told, hinted).collect()
    assert [row["_event"].asDict() for row in found] == [{"tags": ["a"], "id": None}, {"tags": None, "id": 1}]
    assert [row["_misfits"] for row in found] == [{"id": "x"}, {"tags": "oops"}]
    assert found[0]["_problem"]["message"] == "id: x does not fit bigint"


def test_parquet_files_of_several_schemas(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"file_format": "parquet"})
    at = datetime(2024, 2, 29, 1, 2, 3, 456789)
    without_zone = pa.array([at, at], pa.timestamp("us"))
    landing.put(
        a_parquet=parquet_bytes(pa.table({"id": [1, 2], "at": without_zone, "s": [{"x": 1}, None]})),
        b_parquet=parquet_bytes(
            pa.table(
                {
                    "s": ["text"],
                    "at": pa.array([1709168523456789999], pa.timestamp("ns")),
                    "id": pa.array([3], pa.int32()),
                }
            )
        ),
        c_parquet=b"",
        d_parquet=b"PAR1 but not really",
    )
    rows = landing.take()
    assert events(rows)[:3] == [
        {"id": 1, "at": at, "s": '{"x":1}'},
        {"id": 2, "at": at, "s": None},
        {"id": 3, "at": at, "s": "text"},
    ]
    assert [row["_position"] for row in rows[:2]] == [f"000000000001/a.parquet#00000000000{n}" for n in (0, 1)]
    assert json.loads(bytes(rows[0]["_raw"])) == {"id": 1, "at": "2024-02-29T01:02:03.456789Z", "s": {"x": 1}}
    ((position, (reason, message)),) = dead_letters(rows).items()
    assert (position, reason) == ("000000000001/d.parquet#", "decode")
    assert "the file can't be read" in message and rows[3]["_file_path"] == "d.parquet"


@pytest.mark.parametrize("format", ["orc", "avro"])
def test_orc_and_avro_files_of_several_schemas(format: str, tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"file_format": format})
    if format == "orc":
        first = orc_bytes(pa.table({"id": pa.array([1, 2], pa.int32())}))
        second = orc_bytes(pa.table({"name": ["x"], "id": [3]}))
    else:
        first = avro_bytes(spark, tmp_path / "1", "id int", [(1,), (2,)])
        second = avro_bytes(spark, tmp_path / "2", "name string, id bigint", [("x", 3)])
    put(
        landing.folder,
        {f"a.{format}": first, f"b.{format}": second, f"cut.{format}": second[:-5], f"no.{format}": b"Obj\x01 not"},
    )
    rows = landing.take()
    assert [event for event in events(rows) if event] == [
        {"id": 1, "name": None}, {"id": 2, "name": None}, {"id": 3, "name": "x"}
    ]  # fmt: skip
    assert set(dead_letters(rows)) == {f"000000000001/cut.{format}#", f"000000000001/no.{format}#"}


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_columns_that_differ_only_in_case(format: str, tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark, {"file_format": format})
    table = pa.table({"id": [1], "ID": ["a"], "at": [{"x": 1, "X": 2}]})
    if format == "avro":
        strict = fork(spark)
        strict.conf.set("spark.sql.caseSensitive", "true")
        ddl = "id bigint, ID string, at struct<x: bigint, X: bigint>"
        content = avro_bytes(strict, tmp_path / "1", ddl, [(1, "a", (1, 2))])
        other = avro_bytes(spark, tmp_path / "2", "Id double", [(0.5,)])
    else:
        to_bytes = parquet_bytes if format == "parquet" else orc_bytes
        content, other = to_bytes(table), to_bytes(pa.table({"Id": [0.5]}))
    put(landing.folder, {f"a.{format}": content, f"b.{format}": other})
    rows = landing.take()
    assert dead_letters(rows) == {}
    assert events(rows) == [
        {"id": 1, "ID": "a", "at": {"x": 1, "X": 2}, "Id": None},
        {"id": None, "ID": None, "at": None, "Id": 0.5},
    ]


def test_text_and_binary(tmp_path: Path, spark: SparkSession) -> None:
    lines = Landing(tmp_path / "text", spark, {"file_format": "text"})
    lines.put(a_txt=b"one\n\n\xfftwo\n")
    rows = lines.take()
    assert events(rows) == [{"value": "one"}, {"value": ""}, None]
    assert list(dead_letters(rows).values()) == [("decode", "not valid UTF-8")]
    files = Landing(tmp_path / "binary", spark, {"file_format": "binary"})
    put(files.folder, {"day=2024-02-29/a.bin": b"\x00\xff", "b.bin": b""})
    found = events(files.take())
    assert [(e["path"], e["length"], bytes(e["content"]), e["day"]) for e in found if e] == [
        ("b.bin", 0, b"", None),
        ("day=2024-02-29/a.bin", 2, b"\x00\xff", datetime(2024, 2, 29).date()),
    ]


def test_values_in_the_names_of_folders(tmp_path: Path, spark: SparkSession) -> None:
    landing = Landing(tmp_path, spark)
    put(
        landing.folder,
        {
            "year=2026/day=2026-10-31/kind=a%3Ab/1.json": '{"n": 1, "year": 1999}\n',
            "year=2027/day=2026-11-01/kind=50%/2.json": '{"n": 2}\n',
            "year=__HIVE_DEFAULT_PARTITION__/3.json": '{"n": 3}\n',
        },
    )
    rows = landing.take()
    found = sorted(({**e, "day": str(e["day"])} for e in events(rows) if e), key=lambda e: int(str(e["n"])))
    assert found == [
        {"n": 1, "year": 1999, "day": "2026-10-31", "kind": "a:b"},
        {"n": 2, "year": 2027, "day": "2026-11-01", "kind": "50%"},
        {"n": 3, "year": None, "day": "None", "kind": None},
    ]
    put(landing.folder, {"year=soon/4.json": '{"n": 4, "new": 1}\n'})
    end = landing.fix_range()
    records = landing.records(end)
    schema = spark.createDataFrame([], "n bigint, year bigint").schema
    decoder = landing.reader.decoder
    unknown = decoder.unknown(schema)
    assert unknown is not None
    (row,) = decoder.decode(records, schema).withColumn("unknown", unknown).collect()
    assert row["_problem"]["message"] == "year in the path does not fit bigint" and row["unknown"]
    off = Landing(tmp_path, spark, {"partition_columns": False})
    off.reader._log._notes.delete()
    assert "kind" not in off.restarted().decoder.detect(records).names
