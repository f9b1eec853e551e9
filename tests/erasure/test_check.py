"""`forget --check` decodes every file of a lake, whatever wrote it, and finds a value wherever it is; without Spark."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from datetime import date
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tests.erasure.lake import ErasureLake
from tests.hints.followed import follows

VALUE = "anna.maria-österreich@example.org"
WHERE = f"customer_id = '{VALUE}'"
BOUND = VALUE[:15] + VALUE[15]
"""As Iceberg cuts it."""


def _parquet(path: Path, **columns: pa.Array) -> None:
    pq.write_table(pa.table({"n": [1, 2], **columns}), path)


def _avro(path: Path, **values: object) -> None:
    types = {name: "bytes" if isinstance(value, bytes) else "string" for name, value in values.items()}
    fields = [{"name": name, "type": ["null", type_]} for name, type_ in types.items()]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "entry", "fields": fields}, [values], codec="deflate")


def _sqlite(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE notes (name text, said blob)")
        database.execute("INSERT INTO notes VALUES ('flow', ?)", [json.dumps({"error": f"bad row: {VALUE}"}).encode()])
    database.close()


HOLDERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a column": ("lake/a.parquet", lambda p: _parquet(p, who=pa.array(["x", VALUE]))),
    "raw bytes": ("lake/a.parquet", lambda p: _parquet(p, _raw=pa.array([b"", json.dumps({"c": VALUE}).encode()]))),
    "bytes that are no text": ("lake/a.parquet", lambda p: _parquet(p, b=pa.array([b"", b"\xff " + VALUE.encode()]))),
    "inside": ("lake/a.parquet", lambda p: _parquet(p, s=pa.array([None, [{"who": {"id": VALUE}}]]))),
    "another case": ("lake/a.parquet", lambda p: _parquet(p, who=pa.array(["x", VALUE.upper()]))),
    "a footer": (
        "lake/a.parquet",
        lambda p: pq.write_table(pa.table({"n": [1]}).replace_schema_metadata({"hoodie_max_record_key": VALUE}), p),
    ),
    "orc": ("lake/a.orc", lambda p: orc.write_table(pa.table({"who": [VALUE]}), p)),
    "avro": ("lake/manifest-1", lambda p: _avro(p, key="k", upper=VALUE.encode())),
    "a bound": ("lake/m0.avro", lambda p: _avro(p, upper=BOUND.encode())),
    "a log": (
        "lake/1.json",
        lambda p: p.write_text(f'{{"add": {json.dumps(json.dumps({"maxValues": {"c": VALUE}}))}}}'),
    ),
    "lines": ("lake/1.ndjson", lambda p: p.write_text(f'{{"a": 1}}\n0#1\t{{"c": "{VALUE}"}}\n', "utf-8")),
    "packed": ("lake/m.gz", lambda p: p.write_bytes(gzip.compress(json.dumps({"c": VALUE}).encode()))),
    "a database": (".headwater/own.db", _sqlite),
    "a log of ours": (".headwater/logs/x.log", lambda p: p.write_text(f"2026 bad {VALUE}: no\n", "utf-8")),
    "a folder": (f"lake/customer_id={VALUE}/a.txt", lambda p: p.write_text("x")),
    "bytes of nobody's": ("lake/state.delta", lambda p: p.write_bytes(b"\x00\x01\xff" + VALUE.encode() + b"\x00")),
}
OTHERS: dict[str, Callable[[Path], object]] = {
    "a.parquet": lambda p: _parquet(p, who=pa.array([f"x{VALUE}", f"{VALUE}x"])),
    "a.avro": lambda p: _avro(p, upper=b"anna.maria", other="österreich@example.org"),
    "a.json": lambda p: p.write_text(json.dumps({"who": f"{VALUE}2"})),
    "a.db": lambda p: p.write_bytes(b""),
    ".a.parquet.crc": lambda p: p.write_bytes(b"crc\x00\x00\x00\x02\x00"),
}


@pytest.fixture
def lake(tmp_path: Path) -> ErasureLake:
    lake = ErasureLake(tmp_path)
    (tmp_path / "lake").mkdir()
    return lake


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_value_is_found_wherever_it_is(lake: ErasureLake, kind: str) -> None:
    for name, write in OTHERS.items():
        write(lake.root / "lake" / name)
    before = lake.check(WHERE)
    assert (before["held"], before["undecoded"], before["clean"]) == ([], [], True)
    path, write = HOLDERS[kind]
    file = lake.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    write(file)
    found = lake.check(WHERE)
    held = {one["path"] for one in found["held"]}
    assert held and all(str(file).startswith(path) for path in held), found["held"]
    assert not found["clean"]


def test_what_can_t_be_decoded_is_said(lake: ErasureLake) -> None:
    (lake.root / "lake" / "x.hfile").write_bytes(b"\x89HFILE\x00\xff")
    (lake.root / "lake" / "cut.parquet").write_bytes(b"PAR1....PAR1")
    found = lake.check(WHERE)
    assert [Path(one["path"]).name for one in found["undecoded"]] == ["cut.parquet", "x.hfile"]
    assert found["held"] == [] and not found["clean"]


def test_numbers_dates_and_pairs_are_found_by_their_columns(lake: ErasureLake) -> None:
    file = lake.root / "lake" / "a.parquet"
    days = pa.array([date(1990, 1, 2), date(1991, 1, 1)])
    raw = pa.array([b'{"id": 8}', b'{"other": 7, "id": 17}'])
    pq.write_table(pa.table({"id": [8, 9], "other": [7, 7], "born": days, "who": ["a", "b"], "_raw": raw}), file)

    def held(where: str) -> int:
        return sum(one["records"] for one in lake.check(where)["held"])

    assert held("id = 7") == 0 and held("id = 8") == 1 and held("id IN (8, 9)") == 2
    assert held("born = DATE '1990-01-02'") == 1 and held("born = DATE '1990-01-03'") == 0
    assert held("id = 8 AND who = 'a'") == 1 and held("id = 8 AND who = 'b'") == 0
    assert held("id = 9 OR who = 'a'") == 2
    told = lake.check("other > 6 AND who LIKE 'a%'")
    assert told["by_condition_only"] and [one["records"] for one in told["held"]] == [1]


@pytest.mark.parametrize("format", ["hudi", "paimon", "parquet"])
def test_a_format_that_is_not_proven_is_refused(tmp_path: Path, format: str) -> None:
    lake = ErasureLake(tmp_path, format, readers="")
    refused = lake.forget()
    assert refused.code == 2 and "UNSUPPORTED" in refused.err, refused.err
    assert "topics.orders" in refused.err and "Delta Lake, Apache Iceberg only" in refused.err
    assert lake.check()["clean"], "but looked through"


CONDITIONS = {
    "customer_id =": ("INVALID_SQL", "something is missing"),
    "count(*) > 1": ("INVALID_SQL", "one row"),
    "customer_id IN (SELECT 1)": ("INVALID_SQL", "one row"),
    "at < now()": ("INVALID_SQL", "depends on the time"),
    "1 = 1": ("USAGE", "names no column"),
    f"n IN ({', '.join(map(str, range(1001)))})": ("USAGE", "1001 combinations"),
}


@follows(
    "write the value itself",
    "compare a column with what is to be forgotten",
    "give the command more than once, each time with fewer",
)
def test_conditions_that_are_none(lake: ErasureLake) -> None:
    for where, (code, says) in CONDITIONS.items():
        for words in (["--check"], []):
            refused = lake("forget", "orders", "--where", where, *words, "--json")
            assert refused.code == 2 and code in refused.err and says in refused.err, refused.err
    refused = lake("forget", "nothing", "--where", "a = 1", "--check")
    assert refused.code == 2 and "there is no topic 'nothing'" in refused.err
    refused = lake("forget", "orders", "--where", "a = 1", "--check", "--yes")
    assert refused.code == 2 and "--check changes nothing" in refused.err
