"""Texts become values exactly, or not at all: every way in which a text comes to a column with a type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headwater.api.lake import Lake
from headwater.schema.types import parse_ddl
from headwater.sources.decoders.base import EVENT, POSITION, PROBLEM, RAW, UNKNOWN, Decoder
from headwater.sources.decoders.bounded import BoundedDecoder
from headwater.sources.decoders.csv import CsvDecoder
from headwater.sources.decoders.json import JsonDecoder
from headwater.sources.decoders.typed import TypedDecoder
from headwater.sources.kafka.debezium import DebeziumDecoder
from headwater.sources.kafka.values import RecordDecoder
from headwater.sources.postgres.cdc.types import PgType, typed
from headwater.spark.arrow_bridge import local_frame
from tests.ingest.lab import interpreted
from tests.ingest.test_ingest import Desk

TYPES = {
    "dec": "decimal(12,2)",
    "full": "decimal(38,4)",
    "whole": "int",
    "long": "bigint",
    "tiny": "tinyint",
    "real": "double",
    "short": "float",
    "day": "date",
    "at": "timestamp",
    "here": "timestamp_ntz",
    "flag": "boolean",
}
Case = tuple[str, str, str | None]
TEXTS: list[Case] = [
    ("dec", "5.50", "5.50"),
    ("dec", "5.5", "5.50"),
    ("dec", "-5.500", "-5.50"),
    ("dec", "+5", "5.00"),
    ("dec", "1e3", "1000.00"),
    ("dec", "5,50", None),
    ("dec", "1,234.50", None),
    ("dec", ",5", None),
    ("dec", "5.555", None),
    ("dec", " 5.5", None),
    ("dec", "5.5 ", None),
    ("dec", " ", None),
    ("dec", "0x10", None),
    ("dec", "5d", None),
    ("dec", "5.50 EUR", None),
    ("dec", "1_000", None),
    ("dec", "12345678901.00", None),
    ("dec", "NaN", None),
    ("dec", "007", "7.00"),
    ("dec", ".5", "0.50"),
    ("dec", "٥", None),
    ("dec", "５.5", None),
    ("dec", "5.5\x00", None),
    ("full", "1.0000", "1.0000"),
    ("full", "1.00005", None),
    ("full", "1234567890123456789.123456", None),
    ("full", "5,5", None),
    ("whole", "7", "7"),
    ("whole", "-7", "-7"),
    ("whole", "7.0", None),
    ("whole", "5.7", None),
    ("whole", "1e3", None),
    ("whole", "0x1F", None),
    ("whole", " 5", None),
    ("whole", "5 ", None),
    ("whole", "5 apples", None),
    ("whole", "1,000", None),
    ("whole", "3000000000", None),
    ("whole", "+5", "5"),
    ("whole", "007", "7"),
    ("whole", "７", None),
    ("whole", "7\x00", None),
    ("whole", "1７1", None),
    ("long", "9223372036854775807", "9223372036854775807"),
    ("long", "9223372036854775808", None),
    ("tiny", "200", None),
    ("real", "1.5", "1.5"),
    ("real", "1e3", "1000.0"),
    ("real", "NaN", None),
    ("real", "Infinity", None),
    ("real", "-inf", None),
    ("real", "5d", None),
    ("real", "0x1p3", None),
    ("real", "1e400", None),
    ("real", " 1.5", None),
    ("real", "1,5", None),
    ("real", "1e-400", None),
    ("real", "-0.0", "-0.0"),
    ("real", "0e-400", "0.0"),
    ("real", "0.1", "0.1"),
    ("real", "9007199254740992", "9.007199254740992E15"),
    ("real", "9007199254740993", None),
    ("real", "-9007199254740993", None),
    ("real", "９", None),
    ("short", "1e300", None),
    ("short", "1e-50", None),
    ("short", "16777217", None),
    ("short", "16777216", "1.6777216E7"),
    ("short", "0.1", "0.1"),
    ("day", "2026-02-03", "2026-02-03"),
    ("day", "2026-2-3", None),
    ("day", "+2026-02-03", None),
    ("day", "2026-02-03\x00", None),
    ("day", "2026-02-03\n", None),
    ("day", "２026-02-03", None),
    ("day", "12026-02-03", None),
    ("day", "-2026-02-03", None),
    ("day", "0000-01-01", None),
    ("day", "0001-01-01", "0001-01-01"),
    ("day", "9999-12-31", "9999-12-31"),
    ("day", "2026-02-31", None),
    ("day", "2026-02-03 and more", None),
    ("day", "2026-02-03T10:00:00", None),
    ("day", "12345", None),
    ("day", "2026", None),
    ("day", "20260203", None),
    ("at", "2026-02-03T10:00:00Z", "2026-02-03 10:00:00"),
    ("at", "2026-02-03 10:00:00.5+01:00", "2026-02-03 09:00:00.5"),
    ("at", "2026-02-03", "2026-02-03 00:00:00"),
    ("at", "2026-02-31T10:00:00Z", None),
    ("at", "10:30", None),
    ("at", "T10:30", None),
    ("at", "2026", None),
    ("at", "202601", None),
    ("at", "2026-02-03 10:00 x", None),
    ("at", "1700000000", None),
    ("at", "2026-02-03 10:00", "2026-02-03 10:00:00"),
    ("at", "2026-02-03 10:00:00 UTC", "2026-02-03 10:00:00"),
    ("at", "2026-02-03T10:00:00+0530", "2026-02-03 04:30:00"),
    ("at", "2026-02-03T10:00:00+05", "2026-02-03 05:00:00"),
    ("at", "2026-02-03T10:00:00.123456789Z", "2026-02-03 10:00:00.123456"),
    ("at", "2026-02-03T10:00:00.1234567891Z", None),
    ("at", "2026-02-03T10:00:00.", None),
    ("at", "2026-02-03T10:00:00.Z", None),
    ("at", "2026-02-03T10:00:00\x00", None),
    ("at", "2026-02-03T10:00:00Z\n", None),
    ("at", "2026-02-03T10:00:00 IST", None),
    ("at", "2026-02-03T10:00:00 Europe/Berlin", None),
    ("at", "2026-2-3T10:00:00Z", None),
    ("at", "2026-02-03T1:2:3Z", None),
    ("at", "+2026-02-03T10:00:00Z", None),
    ("at", "12026-02-03T10:00:00Z", None),
    ("at", "-2026-02-03T10:00:00Z", None),
    ("at", "0000-01-01", None),
    ("at", "0001-01-01T00:00:00Z", "0001-01-01 00:00:00"),
    ("at", "0001-01-01T00:00:00+05:00", None),
    ("at", "9999-12-31T23:59:59.999999Z", "9999-12-31 23:59:59.999999"),
    ("at", "9999-12-31T23:59:59-05:00", None),
    ("here", "2026-02-03T10:00:00", "2026-02-03 10:00:00"),
    ("here", "2026-02-03", "2026-02-03 00:00:00"),
    ("here", "2026-02-03T10:00:00.5", "2026-02-03 10:00:00.5"),
    ("here", "2026-02-03T10:00:00+05:00", None),
    ("here", "2026-02-03T10:00:00Z", None),
    ("here", "2026-02-03T10:00:00 UTC", None),
    ("here", "10:30", None),
    ("here", "0000-01-01T00:00:00", None),
    ("here", "12026-02-03T10:00:00", None),
    ("flag", "True", "true"),
    ("flag", "true", "true"),
    ("flag", "FALSE", "false"),
    ("flag", "t", None),
    ("flag", "yes", None),
    ("flag", "1", None),
]
NUMBERS: list[Case] = [
    ("dec", "5.5", "5.50"),
    ("dec", "1e3", "1000.00"),
    ("dec", "5.555", None),
    ("dec", "12345678901", None),
    ("full", "12345678901234567890123456789012.1234", "12345678901234567890123456789012.1234"),
    ("full", "0.1234", "0.1234"),
    ("full", "1.00005", None),
    ("whole", "7.0", None),
    ("whole", "1e3", None),
    ("long", "9223372036854775808", None),
    ("tiny", "-7", "-7"),
    ("tiny", "200", None),
    ("real", "1e400", None),
    ("real", "NaN", None),
    ("real", "1e-400", None),
    ("real", "0.0", "0.0"),
    ("real", "-0e-400", "-0.0"),
    ("real", "9007199254740993", None),
    ("real", "9007199254740992", "9.007199254740992E15"),
    ("real", "1e300", "1.0E300"),
    ("real", "123456789012345678901234567890", None),
    ("short", "16777217", None),
    ("short", "16777216", "1.6777216E7"),
    ("short", "0.1", "0.1"),
    ("short", "1e300", None),
    ("day", "12345", None),
    ("at", "1700000000", "2023-11-14 22:13:20"),
    ("at", "99999999999999999", None),
    ("at", "253402300799", "9999-12-31 23:59:59"),
    ("at", "253402300800", None),
    ("at", "-62135596800", "0001-01-01 00:00:00"),
    ("at", "-62135596801", None),
    ("here", "1700000000", None),
    ("flag", "1", None),
]
"""Values of JSON that are no texts."""
NOT_FROM_TEXT = frozenset({"whole", "long", "tiny", "real", "short", "flag"})
"""What JSON has a form of its own for: there a text is none."""


@pytest.fixture(scope="module")
def quick(spark: SparkSession) -> SparkSession:
    return interpreted(spark)


def frame(spark: SparkSession, raws: list[str | bytes]) -> DataFrame:
    rows = {
        RAW: [raw if isinstance(raw, bytes) else raw.encode() for raw in raws],
        POSITION: [f"{n:06d}" for n in range(len(raws))],
    }
    return local_frame(spark, pa.table(rows, schema=pa.schema([(RAW, pa.binary()), (POSITION, pa.string())])))


def schema_of(spark: SparkSession, ddl: str) -> StructType:
    found = parse_ddl(spark, ddl)
    assert found is not None
    return found


def outcomes(decoder: Decoder, records: DataFrame, schema: StructType, shown: Column) -> list[tuple[Any, str | None]]:
    """What is made of each record, and its problem; where there is a quick way, that one says the same."""
    decoded = decoder.decode(records, schema).select(POSITION, shown.alias("v"), F.col(f"{PROBLEM}.message").alias("p"))
    found = [(row.v, row.p) for row in decoded.orderBy(POSITION).collect()]
    fast = decoder.quick(records, schema)
    if fast is not None:
        rows = fast.select(POSITION, shown.alias("v"), UNKNOWN).orderBy(POSITION).collect()
        for (value, why), row in zip(found, rows, strict=True):
            assert row[UNKNOWN] if why else (row[UNKNOWN] or row.v == value), (value, why, row)
    return found


def check(cases: list[Case], found: list[tuple[Any, str | None]]) -> None:
    wrong = []
    for (name, text, expected), (value, why) in zip(cases, found, strict=True):
        if value != expected or (why is None) != (expected is not None):
            wrong.append((name, text, expected, value, why))
    assert wrong == []


def first_value() -> Column:
    return F.coalesce(*(F.col(f"{EVENT}.{name}").cast("string") for name in TYPES))


JSON_TEXTS = [(name, text, None if name in NOT_FROM_TEXT else value) for name, text, value in TEXTS]


@pytest.mark.parametrize("decoder", [JsonDecoder, lambda: BoundedDecoder(RecordDecoder(JsonDecoder()), 1000)])
def test_texts_in_json(quick: SparkSession, decoder: Callable[[], Decoder]) -> None:
    schema = schema_of(quick, ", ".join(f"{name} {one}" for name, one in TYPES.items()))
    records = frame(quick, [json.dumps({name: text}) for name, text, _ in JSON_TEXTS])
    check(JSON_TEXTS, outcomes(decoder(), records, schema, first_value()))


def test_numbers_in_json(quick: SparkSession) -> None:
    schema = schema_of(quick, ", ".join(f"{name} {one}" for name, one in TYPES.items()))
    records = frame(quick, [f'{{"{name}": {text}}}' for name, text, _ in NUMBERS])
    check(NUMBERS, outcomes(JsonDecoder(), records, schema, first_value()))


def test_texts_inside_of_json(quick: SparkSession) -> None:
    ddl = (
        "s struct<d: decimal(12,2), x: string>, l array<decimal(12,2)>, m map<string, date>,"
        " r array<struct<t: timestamp>>, v array<double>, b array<tinyint>"
    )
    cases: list[Case] = [
        ("s", '{"d": "5.5", "x": "5,5"}', '{"s":{"d":5.50,"x":"5,5"}}'),
        ("s", '{"d": "5,5", "x": "a"}', '{"s":{"x":"a"}}'),
        ("s", '{"d": 5.555, "x": "a"}', '{"s":{"x":"a"}}'),
        ("l", '["1", 2, null]', '{"l":[1.00,2.00,null]}'),
        ("l", '["1", "2,5"]', '{"l":[1.00,null]}'),
        ("m", '{"a": "2026-01-02"}', '{"m":{"a":"2026-01-02"}}'),
        ("m", '{"a": "2026-01-02 more", "b": "2026-01-02"}', '{"m":{"a":null,"b":"2026-01-02"}}'),
        ("r", '[{"t": "2026-01-02"}, null]', '{"r":[{"t":"2026-01-02T00:00:00.000Z"},null]}'),
        ("r", '[{"t": "10:30"}]', '{"r":[{}]}'),
        ("v", "[1.5, null]", '{"v":[1.5,null]}'),
        ("v", "[1.5, 1e999]", "{}"),
        ("b", "[7]", '{"b":[7]}'),
        ("b", "[7, 200]", '{"b":[7,null]}'),
    ]
    bad = {'{"s":{"x":"a"}}', '{"l":[1.00,null]}', '{"m":{"a":null,"b":"2026-01-02"}}', '{"r":[{}]}', "{}"}
    bad.add('{"b":[7,null]}')
    records = frame(quick, [f'{{"{name}": {text}}}' for name, text, _ in cases])
    found = outcomes(JsonDecoder(), records, schema_of(quick, ddl), F.to_json(EVENT))
    assert [value for value, _ in found] == [expected for *_, expected in cases]
    assert [why is not None for _, why in found] == [expected in bad for *_, expected in cases]


CSV_TEXTS = [(name, text, value) for name, text, value in TEXTS if text.strip()]


@pytest.mark.parametrize("of", ["one column", "kafka"])
def test_texts_in_csv(quick: SparkSession, of: str) -> None:
    names = list(TYPES)
    decoder: Decoder = CsvDecoder({}, names)
    if of == "kafka":
        decoder = BoundedDecoder(RecordDecoder(decoder), 10_000)
    lines = [",".join(f'"{text}"' if one == name else "" for one in names) for name, text, _ in CSV_TEXTS]
    schema = schema_of(quick, ", ".join(f"{name} {one}" for name, one in TYPES.items()))
    check(CSV_TEXTS, outcomes(decoder, frame(quick, lines), schema, first_value()))


def test_cells_of_json_and_options_of_csv(quick: SparkSession) -> None:
    schema = schema_of(quick, "j struct<d: decimal(12,2)>, k array<bigint>, n double, d decimal(12,2), t date")
    options = {"sep": ";", "quote": "'", "nanValue": "nan", "locale": "de-DE", "dateFormat": "dd.MM.yyyy"}
    lines = [
        '\'{"d": "5.5"}\';[1];nan;1.234,50;31.01.2026',
        '\'{"d": "5,5"}\';;;;',
        '\'{"d": "much"}\';;;;',
        "'{\"d\": 1} more';;;;",
        ';["x"];;;',
        ";;Infinity;;",
        ";;;5,555;",
        ";;;;31.02.2026",
        ";;;;2026-01-31",
    ]
    decoder = CsvDecoder(options, schema.names)
    found = outcomes(decoder, frame(quick, lines), schema, F.to_json(EVENT))
    assert found[0] == ('{"j":{"d":5.50},"k":[1],"n":"NaN","d":1234.50,"t":"2026-01-31"}', None)
    assert [value for value, _ in found[1:]] == ["{}"] * 8
    assert all(why and "does not fit" in why for _, why in found[1:]), found


def test_texts_in_columns_that_have_types(quick: SparkSession) -> None:
    """Parquet, ORC, Avro, tables: a column of texts, and another type that was hinted."""
    rows = [{one: text if one == name else None for one in TYPES} for name, text, _ in TEXTS]
    given = frame(quick, ["" for _ in rows])
    texts = local_frame(quick, pa.table({POSITION: [f"{n:06d}" for n in range(len(rows))], **_columns(rows)}))
    records = given.join(texts.select(POSITION, F.struct(*TYPES).alias(EVENT)), POSITION)
    schema = schema_of(quick, ", ".join(f"{name} {one}" for name, one in TYPES.items()))
    check(TEXTS, outcomes(TypedDecoder(), records, schema, first_value()))


def test_values_of_another_type(quick: SparkSession) -> None:
    ddl = "a array<decimal(12,2)>, m map<string,bigint>, d double, f float, l bigint, n decimal(12,2)"
    cases = [
        ("array('1.5', null)", "a", "[1.50, null]"),
        ("array('1.555')", "a", None),
        ("map('k', '5')", "m", "{k -> 5}"),
        ("map('k', '5.7')", "m", None),
        ("9223372036854775807L", "d", None),
        ("9007199254740993L", "d", None),
        ("9007199254740992L", "d", "9.007199254740992E15"),
        ("2147483647", "f", None),
        ("9.223372036854775807E18D", "l", None),
        ("5.0D", "l", "5"),
        ("5.555D", "n", None),
        ("5.55D", "n", "5.55"),
    ]
    wanted = schema_of(quick, ddl)
    for expression, name, expected in cases:
        record = quick.range(1).select(
            F.lit(b"").alias(RAW), F.lit("1").alias(POSITION), F.expr(f"struct({expression} AS {name})").alias(EVENT)
        )
        decoded = TypedDecoder().decode(record, StructType([wanted[name]]))
        row = decoded.select(F.col(f"{EVENT}.{name}").cast("string"), f"{PROBLEM}.message").first()
        assert row is not None and row[0] == expected and (row[1] is None) == (expected is not None), (expression, row)


def test_texts_of_debezium(quick: SparkSession) -> None:
    """`decimal.handling.mode: string` writes decimals as texts."""
    image = "struct<id: bigint, total: decimal(12,2)>"
    schema = schema_of(quick, f"_op string, before {image}, after {image}, _unchanged array<string>")
    envelopes = [json.dumps({"op": "c", "after": {"id": 1, "total": text}}) for text in ("5.50", "5,50", "5.555")]
    found = outcomes(
        DebeziumDecoder(JsonDecoder()),
        frame(quick, list(envelopes)),
        schema,
        F.col(f"{EVENT}.after.total").cast("string"),
    )
    assert [(value, why is None) for value, why in found] == [("5.50", True), (None, False), (None, False)]


def test_money_of_postgres(quick: SparkSession) -> None:
    texts = {"$5.50": "5.50", "-$1,234.50": "-1234.50", "$ 5,50": None, "$5,50": None, "5,50": None, "$1,23.50": None}
    frame = quick.range(1).select(*(typed(F.lit(text), PgType("money")).cast("string") for text in texts))
    assert list(frame.first() or ()) == list(texts.values())


def test_texts_on_their_way_to_tables(tmp_path: Path, spark: SparkSession) -> None:
    """Through the command: files, paths, appends, a remap, reference tables by file, by INSERT, by a seed."""
    desk = Desk(
        tmp_path, {"events": "keep_raw: true"}, source=', schema_hints: "n bigint, dec decimal(12,2), day date"'
    )
    text = (
        (tmp_path / "headwater.yml")
        .read_text()
        .replace(
            "topics:\n",
            "  api: {type: append, schema_hints: 'dec decimal(12,2)'}\n"
            "  rows: {type: files, path: ./rows, file_format: parquet, schema_hints: 'dec decimal(12,2)'}\n"
            "topics:\n  api: {from: api}\n  rows: {from: rows}\n",
        )
    )
    text += (
        "tables:\n"
        "  rates: {keys: [code], schema: 'code bigint, rate decimal(12,2), day date, ok boolean'}\n"
        "  loose: {keys: [code]}\n"
    )
    (tmp_path / "headwater.yml").write_text(text)
    (tmp_path / "rows").mkdir()
    pq.write_table(pa.table({"dec": ["5.50", "5,50", "5.555"]}), tmp_path / "rows" / "1.parquet")
    for folder in ("day=2026-01-02", "day=2026-02-31", "day=2026-01-02 x"):
        (tmp_path / "landing" / folder).mkdir(parents=True)
        (tmp_path / "landing" / folder / "1.json").write_text('{"n": 0}\n')
    desk.land("2.json", {"n": 1, "dec": "5.50"}, {"n": 2, "dec": "5,50"}, {"n": 3, "event_version": "5.7"})
    desk.land("3.json", {"n": 4, "event_timestamp": "10:30:00"}, {"n": 5, "event_version": 5.0})
    (tmp_path / "more.csv").write_text('dec\n5.50\n"5,50"\n')
    assert desk("topic", "append", "api", str(tmp_path / "more.csv"), "--json").code == 0
    flows = desk.run("events", "api", "rows")
    counts = {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items()}
    assert counts["events"] == (3, 5) and counts["rows"] == (1, 2)
    assert desk.rows("api", "cast(dec AS string)") == [("5.50",)]
    expected = [(0, None, "2026-01-02", None), (1, "5.50", None, None), (5, None, None, 5)]
    assert desk.rows("events", "n, cast(dec AS string), cast(day AS string), event_version") == expected
    assert desk("topic", "remap", "events", "--json").code == 0
    assert desk.rows("events", "n, cast(dec AS string), cast(day AS string), event_version") == expected

    good = "code,rate,day,ok\n7,5.50,2026-02-03,true\n"
    for line in (
        '8,"5,50",,',
        "8,5.555,,",
        "8,,2026-02-31,",
        "8,,2026-02-03 x,",
        "8,,,t",
        "8.5,,,",
        "1e3,,,",
        "007,,,",
    ):
        (tmp_path / "rates.csv").write_text(good + line + "\n")
        refused = desk("table", "load", "rates", str(tmp_path / "rates.csv"))
        assert refused.code != 0, line
    (tmp_path / "rates.csv").write_text(good)
    assert desk("table", "load", "rates", str(tmp_path / "rates.csv")).code == 0
    (tmp_path / "rates.json").write_text('[{"code": 9, "rate": 5.555}]')
    assert desk("table", "load", "rates", str(tmp_path / "rates.json")).code != 0
    (tmp_path / "rates.json").write_text('[{"code": 12345678901234567890}]')
    assert desk("table", "load", "rates", str(tmp_path / "rates.json")).code == 2
    values = {"'5,50'": False, "'5.555'": False, "5.555": False, "' 5'": False, "'5.5'": True, "5.5D": True}
    with Lake.open(tmp_path) as lake:
        for number, (value, fits) in enumerate(values.items()):
            statement = f"INSERT INTO rates (code, rate) VALUES ({100 + number}, {value})"
            if fits:
                lake.sql(statement)
            else:
                with pytest.raises(Exception, match="is no decimal"):
                    lake.sql(statement)
    (tmp_path / "loose.csv").write_text("code,hex,big,nan,yes\na,10,1,1.5,true\nb,0x10,12345678901234567890,nan,1\n")
    assert desk("table", "load", "loose", str(tmp_path / "loose.csv")).code == 0
    with Lake.open(tmp_path) as lake:
        row = [tuple(row.values()) for row in lake.sql("SELECT hex, big, nan, yes FROM loose WHERE code = 'b'")]
    assert row == [("0x10", "12345678901234567890", "nan", "1")]


def _columns(rows: list[dict[str, str | None]]) -> dict[str, Any]:
    return {name: pa.array([row[name] for row in rows], pa.string()) for name in TYPES}


REPEATED = [
    '{"k": "a", "k": "b"}',
    '{"k" : "a", "k":"b"}',
    '{"k": "a", "k": null}',
    '{"n": 1, "k": "a", "n": 1}',
    '{"s": {"d": 1, "d": 2}}',
    '{"s": {"d": 1, "x": "a"}, "s": {"d": 1}}',
    '{"l": [{"d": 1}, {"d": 1, "d": 1}]}',
    '{"m": {"a": 1, "a": 2}}',
    '{"ms": {"a": {"d": 1}, "b": {"d": 1, "d": 2}}}',
    '{"ll": [[{"d": 1, "d": 1}]]}',
]
ONCE = [
    '{"k": "a", "s": {"k": "b"}}',
    '{"k": "a", "K": "b"}',
    '{"k": "\\"k\\": 1, \\"k\\": 2"}',
    '{"k": null, "n" : 1, "s": {"d": 1}, "l": [{"d": 1}, {"d": 2}], "m": {"a": 1, "d": 2}}',
    '{"k": null, "k": "a"}',
    '{"k": {"a": 1, "a": 2}}',
]
"""The last but one: null is no value, so nothing is lost; the last one: a text keeps both."""


def test_keys_that_are_repeated(quick: SparkSession) -> None:
    ddl = "k string, n bigint, s struct<d: bigint>, l array<struct<d: bigint>>, m map<string, bigint>,"
    schema = schema_of(quick, ddl + " ms map<string, struct<d: bigint>>, ll array<array<struct<d: bigint>>>")
    found = outcomes(JsonDecoder(), frame(quick, [*REPEATED, *ONCE]), schema, F.to_json(EVENT))
    repeated, once = found[: len(REPEATED)], found[len(REPEATED) :]
    assert [(value, bool(why and "more than once" in why)) for value, why in repeated] == [(None, True)] * len(REPEATED)
    assert [why for _, why in once] == [None] * len(ONCE)
    assert once[-2:] == [('{"k":"a"}', None), ('{"k":"{\\"a\\":1,\\"a\\":2}"}', None)]
    assert (
        JsonDecoder().detect(frame(quick, REPEATED[:5])).simpleString()
        == "struct<k:string,n:bigint,s:struct<d:bigint>>"
    )
    cells = CsvDecoder({"sep": ";", "quote": ""}, ["s", "m"])
    lines = ['{"d":1};{"a":1}', '{"d":1,"d":2};', ';{"a":1,"a":1}']
    found = outcomes(
        cells,
        frame(quick, list(lines)),
        schema_of(quick, "s struct<d: bigint>, m map<string, bigint>"),
        F.to_json(EVENT),
    )
    assert [why is None for _, why in found] == [True, False, False], found


def test_keys_in_cells_that_are_not_known(quick: SparkSession) -> None:
    """CSV: a cell of JSON under a hinted type."""
    schema = schema_of(quick, "s struct<d: bigint>, l array<struct<x: string>>")
    decoder = CsvDecoder({"sep": ";", "quote": ""}, ["s", "l"])
    lines = [
        '{"d":1};[{"x":"a"}]',
        '{"d":1,"e":2};',
        '{"D":1};',
        ';[{"x":"a"},{"y":1.5}]',
        '{"d":1,"e":null,"f":{}};[]',
    ]
    decoded = decoder.decode(frame(quick, list(lines)), schema)
    unknown = decoder.unknown(schema)
    assert unknown is not None
    rows = decoded.withColumn("u", unknown).orderBy(POSITION).collect()
    assert [(row[PROBLEM], bool(row["u"])) for row in rows] == [(None, n in (1, 2, 3)) for n in range(5)]
    found = decoder.detect(frame(quick, list(lines)))
    assert found.simpleString() == "struct<s:struct<D:bigint,d:bigint,e:bigint>,l:array<struct<x:string,y:double>>>"


def test_values_with_types_beyond_the_years_of_four_digits(quick: SparkSession) -> None:
    """Parquet, Avro, tables, changes from a database: a day or moment that can't be written with four digits."""
    cases = [
        ("date'9999-12-31'", "date", True),
        ("date'+12026-02-03'", "date", False),
        ("date'0001-01-01'", "date", True),
        ("date'0000-12-31'", "date", False),
        ("timestamp'9999-12-31 23:59:59.999999'", "timestamp", True),
        ("timestamp_seconds(253402300800)", "timestamp", False),
        ("timestamp_ntz'+12026-02-03 10:00:00'", "timestamp_ntz", False),
        ("date'+12026-02-03'", "timestamp", False),
        ("array(date'+12026-02-03')", "array<date>", False),
        ("named_struct('x', named_struct('d', date'+12026-02-03'))", "struct<x: struct<d: date>>", False),
        ("map('a', date'+12026-02-03')", "map<string, date>", False),
    ]
    for expression, of, fits in cases:
        record = quick.range(1).select(
            F.lit(b"").alias(RAW), F.lit("1").alias(POSITION), F.expr(f"struct({expression} AS v)").alias(EVENT)
        )
        decoded = TypedDecoder().decode(record, schema_of(quick, f"v {of}"))
        row = decoded.select(F.to_json(F.col(EVENT)), f"{PROBLEM}.message").first()
        assert row is not None and (row[1] is None) == fits and ("2026" in row[0] or "253" in row[0]) is False, (
            expression,
            row,
        )
