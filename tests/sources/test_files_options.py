"""Reader options: each has its effect, or is refused before anything runs."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.sources.files.options import taken_by
from tests.sources.landing import Landing, put
from tests.sources.test_files_formats import avro_bytes, dead_letters, events, zstd
from tests.support import Shop, headwater


def read(
    folder: Path, spark: SparkSession, source: dict[str, Any], files: dict[str, bytes | str], ddl: str | None = None
) -> list[Any]:
    """The rows of these files under a schema, or what is detected."""
    landing = Landing(folder, spark, source)
    put(landing.folder, files)
    if ddl is None:
        return landing.take()
    end = landing.fix_range()
    schema = spark.createDataFrame([], ddl).schema
    return landing.reader.decoder.decode(landing.records(end), schema).orderBy("_position").collect()


def test_options_of_json_lines(tmp_path: Path, spark: SparkSession) -> None:
    options = {
        "timestampFormat": "dd.MM.yyyy HH:mm",
        "DATEFORMAT": "dd/MM/yyyy",
        "allowSingleQuotes": True,
        "allowComments": True,
        "allowUnquotedFieldNames": True,
        "allowNumericLeadingZeros": True,
    }
    lines = [
        '{"at": "31.10.2026 08:30", "day": "01/11/2026", "n": 1} // the first',
        "{'at': '31.10.2026 08:31', day: \"02/11/2026\", n: 007}",
        '{"at": "2026-10-31", "n": 3}',
        "{'n': 4} {\"n\": 5}",
    ]
    ddl = "at timestamp, day date, n bigint"
    rows = read(tmp_path, spark, {"options": options}, {"a.json": "\n".join(lines)}, ddl)
    assert events(rows) == [
        {"at": datetime(2026, 10, 31, 8, 30), "day": date(2026, 11, 1), "n": 1},
        {"at": datetime(2026, 10, 31, 8, 31), "day": date(2026, 11, 2), "n": 7},
        {"at": None, "day": None, "n": 3},
        None,
    ]
    assert [message for _, message in dead_letters(rows).values()] == [
        "at: 2026-10-31 does not fit timestamp",
        "not one JSON object",
    ]
    detected = {"options": {"inferTimestamp": True, "timestampFormat": "dd.MM.yyyy HH:mm", "prefersDecimal": True}}
    (row,) = read(tmp_path / "detected", spark, detected, {"a.json": '{"at": "31.10.2026 08:30", "x": 1.10}'})
    assert row["_event"]["at"] == datetime(2026, 10, 31, 8, 30) and str(row["_event"]["x"]) == "1.10"


def test_json_over_many_lines_in_another_style(tmp_path: Path, spark: SparkSession) -> None:
    options = {"multiLine": True, "allowComments": True, "allowSingleQuotes": True}
    files = {
        "a.json": "[ /* two, [of them] */\n {'s': 'it\\'s ]},',\n  \"n\": 1}, // and\n {\"n\": 2}\n]\n",
        "b.json": "{'n': 3} // one\n{'n': 4}\n{'n': ",
    }
    rows = read(tmp_path, spark, {"options": options}, files)
    assert [None if row["_event"] is None else (row["_event"]["n"], row["_event"]["s"]) for row in rows] == [
        (1, "it's ]},"), (2, None), (3, None), (4, None), None
    ]  # fmt: skip
    assert list(dead_letters(rows)) == ["000000000001/b.json#000000000002"]


def test_unknown_keys_are_seen_in_any_style(tmp_path: Path, spark: SparkSession) -> None:
    source = 'options: {allowSingleQuotes: true, allowComments: true, timestampFormat: "dd.MM.yyyy HH:mm"}\n'
    shop = Shop.make(tmp_path, source=source + 'schema_hints: "at timestamp"')
    shop.land("1.json", ["{'id': 1, 'at': '31.10.2026 08:30'}"])
    assert shop.run().code == 0
    shop.land("2.json", ["{'id': 2, 'new': 'x'}", '{"id": 3, "newer" /* ! */ : {\'a\': 1}}'])
    assert shop.run().code == 0
    found = shop.query("SELECT id, cast(at AS string) AS at, new, newer.a AS a FROM topic('orders') ORDER BY id")
    assert found == [
        {"id": 1, "at": "2026-10-31 08:30:00", "new": None, "a": None},
        {"id": 2, "at": None, "new": "x", "a": None},
        {"id": 3, "at": None, "new": None, "a": 1},
    ]


def test_other_encodings(tmp_path: Path, spark: SparkSession) -> None:
    latin = {"file_format": "csv", "options": {"encoding": "ISO-8859-1"}}
    rows = read(tmp_path / "csv", spark, latin, {"a.csv": "größe,n\nklein,1\nübergroß,2\n".encode("latin-1")})
    assert events(rows) == [{"größe": "klein", "n": 1}, {"größe": "übergroß", "n": 2}]
    assert bytes(rows[1]["_raw"]).decode() == "größe,n\nübergroß,2"
    wide = {"options": {"charset": "UTF-16"}}
    assert events(read(tmp_path / "json", spark, wide, {"a.json": '{"s": "ü"}\n{"s": "ß"}\n'.encode("utf-16")})) == [
        {"s": "ü"}, {"s": "ß"}
    ]  # fmt: skip
    cut = read(tmp_path / "cut", spark, wide, {"a.json": '{"s": "ü"}'.encode("utf-16-le")[:-1]})
    assert events(cut) == [None] and "the file can't be read" in cut[0]["_problem"]["message"]


def test_options_of_lines(tmp_path: Path, spark: SparkSession) -> None:
    split = {"file_format": "text", "options": {"lineSep": "|"}}
    files: dict[str, bytes | str] = {"a.txt": "one\ntwo|three", "b.txt.zst": zstd(b"four|five")}
    assert [e and e["value"] for e in events(read(tmp_path / "sep", spark, split, files))] == [
        "one\ntwo", "three", "four", "five"
    ]  # fmt: skip
    lines = {"file_format": "csv", "options": {"lineSep": ";"}}
    assert events(read(tmp_path / "csv", spark, lines, {"a.csv": "id,s;1,a\nb;2,c;"})) == [
        {"id": 1, "s": "a\nb"}, {"id": 2, "s": "c"}
    ]  # fmt: skip
    whole = {"file_format": "text", "options": {"wholetext": True}}
    assert events(read(tmp_path / "whole", spark, whole, {"a.txt": "one\ntwo\n"})) == [{"value": "one\ntwo\n"}]


def test_options_of_csv(tmp_path: Path, spark: SparkSession) -> None:
    options = {
        "delimiter": "|",
        "quote": "'",
        "nullValue": "-",
        "dateFormat": "dd.MM.yyyy",
        "timestampFormat": "dd.MM.yyyy HH:mm",
        "ignoreLeadingWhiteSpace": True,
        "inferSchema": True,
    }
    text = "id|day|at|s\n1|31.10.2026|31.10.2026 08:30|  'a|b'\n2|-|-|-\n"
    rows = read(tmp_path, spark, {"file_format": "csv", "options": options}, {"a.csv": text})
    assert events(rows) == [
        {"id": 1, "day": date(2026, 10, 31), "at": datetime(2026, 10, 31, 8, 30), "s": "a|b"},
        {"id": 2, "day": None, "at": None, "s": None},
    ]


def test_options_of_avro(tmp_path: Path, spark: SparkSession) -> None:
    wanted = (
        '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, '
        '{"name": "place", "type": "string", "default": "here"}]}'
    )
    content = avro_bytes(spark, tmp_path / "1", "id bigint NOT NULL", [(1,)])
    rows = read(tmp_path, spark, {"file_format": "avro", "options": {"avroSchema": wanted}}, {"a.avro": content})
    assert events(rows) == [{"id": 1, "place": "here"}]


def test_spark_knows_every_option_that_is_taken_and_the_page_names_it(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    of_spark = {
        "json": jvm.org.apache.spark.sql.catalyst.json.JSONOptions,
        "csv": jvm.org.apache.spark.sql.catalyst.csv.CSVOptions,
        "parquet": jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetOptions,
        "avro": jvm.org.apache.spark.sql.avro.AvroOptions,
    }
    by_spark_elsewhere = {"timeZone"}
    for file_format, known in of_spark.items():
        taken = set(taken_by(file_format)) - by_spark_elsewhere
        assert {name for name in taken if not known.isValidOption(name)} == set(), file_format
    page = (Path(__file__).parents[2] / "docs/sources/files.md").read_text(encoding="utf-8")
    for file_format in (*of_spark, "text"):
        assert {name for name in taken_by(file_format) if f"`{name}" not in page} == set(), file_format


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("options: {mode: FAILFAST}", "dead letter"),
        ("options: {samplingRatio: 0.1}", "every record"),
        ("options: {timestampFromat: x}", "did you mean 'timestampFormat'?"),
        ("options: {allowComments: perhaps}", "true or false"),
        ("options: {multiLine: true, lineSep: ';'}", "lineSep"),
        ("options: {encoding: klingon}", "klingon"),
        ("options: {pathGlobFilter: '*.json'}", "`pattern`"),
        ("options: {sep: ';'}", "json"),
        ("options: {dateFormat: 'yyyy-bb'}", "dateFormat"),
        ("file_format: csv\noptions: {inferSchema: false}", "`schema_hints`"),
        ("file_format: csv\noptions: {sep: ''}", "sep"),
        ("file_format: csv\noptions: {quote: '~~'}", "quote"),
        ("file_format: parquet\noptions: {mergeSchema: true}", "several schemas"),
        ("file_format: orc\noptions: {ignoreCorruptFiles: true}", "dead letter"),
        ("file_format: avro\noptions: {ignoreMissingFiles: true}", "`on_missing: skip`"),
        ("file_format: binary\noptions: {modifiedAfter: '2026-01-01'}", "binary"),
    ],
)
def test_an_option_without_effect_is_refused(source: str, said: str, tmp_path: Path) -> None:
    shop = Shop.make(tmp_path, source=source)
    answer = headwater("check", "--project", shop.root)
    told = answer.out + answer.err
    assert (
        answer.code == 2
        and said in told
        and "headwater.yml:4 sources.landing: options:" in told
        and "INVALID_VALUE" in told
    )
