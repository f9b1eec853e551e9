"""Postgres' changes in the lake, by the command: every type, altered tables, every format, the end of topics."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from tests.hints.followed import follows
from tests.services.postgres import Server
from tests.sources.cdc_lab import Crm
from tests.support import Answer, headwater

IN_FULL = ["delta", "iceberg"]
HUGE = "1234567890123456789012345678901234567890"
BRIEFLY = ["hudi", "paimon", "parquet"]

TYPES: dict[str, tuple[str, str, Any]] = {
    "b": ("bool", "true", True),
    "i2": ("smallint", "-7", -7),
    "i4": ("int", "7", 7),
    "i8": ("bigint", "9007199254740993", 9007199254740993),
    "f4": ("real", "1.5", 1.5),
    "f8": ("double precision", "'-Infinity'", float("-inf")),
    "n": ("numeric(12,3)", "12.345", Decimal("12.345")),
    "nn": ("numeric(3,-2)", "12345", Decimal(12300)),
    "free": ("numeric", "'NaN'", "NaN"),
    "huge": ("numeric(50,10)", f"{HUGE}.5", f"{HUGE}.5000000000"),
    "d": ("date", "'0900-02-28'", date(900, 2, 28)),
    "t": ("time", "'10:11:12.5'", "10:11:12.5"),
    "tz": ("timetz", "'10:11:12+02'", "10:11:12+02"),
    "ts": ("timestamp", "'2024-02-29 10:11:12.123456'", datetime(2024, 2, 29, 10, 11, 12, 123456)),
    "tstz": ("timestamptz", "'2024-02-29 10:11:12.123456+02'", datetime(2024, 2, 29, 8, 11, 12, 123456)),
    "iv": ("interval", "'1 year 2 days 03:04:05.6'", "P1Y2DT3H4M5.6S"),
    "u": ("uuid", "'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "j": ("json", """'{"a": 1.0}'""", '{"a": 1.0}'),
    "jb": ("jsonb", """'{"b":[1,2]}'""", '{"b": [1, 2]}'),
    "ia": ("int[]", "'{1,NULL,3}'", [1, None, 3]),
    "ta": ("text[]", """ARRAY['x', 'a "q"', NULL, 'NULL', '']""", ["x", 'a "q"', None, "NULL", ""]),
    "sa": ("timestamptz[]", "ARRAY['2024-01-01 00:00+00'::timestamptz]", [datetime(2024, 1, 1)]),
    "ba": ("bytea[]", "ARRAY['\\x01'::bytea]", [b"\x01"]),
    "m": ("mood", "'ok'", "ok"),
    "ma": ("mood[]", "'{ok,sad}'", ["ok", "sad"]),
    "p": ("positive", "12.5", Decimal("12.50")),
    "pa": ("positive[]", "ARRAY[1.5]", [Decimal("1.50")]),
    "by": ("bytea", "'\\x00ff'", b"\x00\xff"),
    "mo": ("money", "'-1234.56'", Decimal("-1234.56")),
    "ip": ("inet", "'10.0.0.1'", "10.0.0.1"),
    "ci": ("cidr", "'10.0.0.0/8'", "10.0.0.0/8"),
    "ir": ("int4range", "'[1,5)'", "[1,5)"),
    "co": ("pair", "ROW(1, NULL)", "(1,)"),
    "ca": ("pair[]", "ARRAY[ROW(1, 'a b')::pair, NULL]", ['(1,"a b")', None]),
    "ch": ("char(5)", "'ab'", "ab   "),
    "cha": ("char(3)[]", "ARRAY['a'::char(3)]", ["a  "]),
    "vc": ("varchar(9)", "'ü'", "ü"),
    "bi": ("bit(4)", "B'1010'", "1010"),
    "pt": ("point", "'(1,2)'", "(1,2)"),
}  # fmt: skip
"""Column → its type, a value in SQL, and what it is in the lake."""


class Project:
    def __init__(self, root: Path, crm: Crm) -> None:
        self.root = root
        self.crm = crm

    def write(self, topics: dict[str, Any], **settings: Any) -> None:
        tables = sorted({topic["table"] for topic in topics.values()})
        source = {"type": "postgres_cdc", "dsn": self.crm.dsn, "tables": tables, **settings}
        named = {name: {"from": "crm", **topic} for name, topic in topics.items()}
        text = yaml.safe_dump({"name": "shop", "sources": {"crm": source}, "topics": named})
        (self.root / "headwater.yml").write_text(text)

    def run(self, *flows: str) -> Answer:
        answer = headwater("run", "--once", "--json", "--project", self.root, *flows)
        assert answer.code == 0, answer.out + answer.err
        return answer

    def rows(self, topic: str) -> list[dict[str, Any]]:
        with Lake.open(self.root) as lake:
            rows = [row.asDict(recursive=True) for row in lake.topic(topic).df().collect()]
        return sorted(rows, key=lambda row: str(row["_position"]))


@pytest.fixture(scope="module")
def lake(spark: SparkSession, postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Topics of three tables, run before and after changes to them."""
    root = tmp_path_factory.mktemp("shop")
    crm = Crm(postgres_server.database(), root)
    project = Project(root, crm)
    columns = ", ".join(f"{name} {type}" for name, (type, _, _) in TYPES.items())
    values = ", ".join(value for _, value, _ in TYPES.values())
    crm.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (a int, b text)",
        "CREATE DOMAIN positive AS numeric(8,2) CHECK (VALUE > 0)",
        f"CREATE TABLE types (id int PRIMARY KEY, {columns})",
        f"INSERT INTO types VALUES (1, {values})",
        "INSERT INTO types (id) VALUES (3)",
        "CREATE TABLE people (id int PRIMARY KEY, name text, age int, gone text)",
        "INSERT INTO people VALUES (1, 'Ada', 36, 'x')",
        "CREATE TABLE few (id int PRIMARY KEY, v text)",
        "INSERT INTO few VALUES (1, 'a')",
    )
    project.write(
        {
            **{f"types_{name}": {"table": "public.types", "format": name} for name in IN_FULL},
            **{f"people_{name}": {"table": "public.people", "format": name, "keep_raw": True} for name in IN_FULL},
            **{f"few_{name}": {"table": "public.few", "format": name} for name in BRIEFLY},
        },
        slot="headwater_lasting",  # slots belong to the server, and other tests have their own
    )
    project.run()
    crm.run(
        f"INSERT INTO types VALUES (2, {values})",
        "UPDATE few SET v = 'b'",
        "INSERT INTO people VALUES (2, 'Bob', 7, 'y')",
        "ALTER TABLE people ADD COLUMN mail text DEFAULT 'none', DROP COLUMN gone",
        "UPDATE people SET mail = 'a@b' WHERE id = 1",
        "ALTER TABLE people RENAME COLUMN name TO full_name",
        "INSERT INTO people VALUES (3, 'Cyd', 8)",
        "ALTER TABLE people ALTER COLUMN age TYPE text USING age || ' years'",
        "INSERT INTO people VALUES (4, 'Dee', '9'), (5, 'Eve', 'nine')",
        "DELETE FROM few",
        "TRUNCATE few",
    )
    project.run()
    yield project
    crm.end()


@pytest.mark.parametrize("format", IN_FULL)
def test_every_type_is_the_same_from_snapshot_and_stream(lake: Project, format: str) -> None:
    first, empty, later = lake.rows(f"types_{format}")
    assert (first["_op"], empty["_op"], later["_op"]) == ("r", "r", "i")
    expected = {name: value for name, (_, _, value) in TYPES.items()}
    for row in (first, later):
        found = {name: _plain(value) for name, value in row["after"].items() if name != "id"}
        assert found == expected
    assert empty["after"] == {"id": 3, **dict.fromkeys(TYPES)}
    assert first["_xid"] is None and later["_xid"] > 0 and later["event_timestamp"] == later["_committed_at"]


@pytest.mark.parametrize("format", IN_FULL)
def test_a_table_that_is_altered(lake: Project, format: str) -> None:
    rows = lake.rows(f"people_{format}")
    images = [(row["_op"], {k: v for k, v in row["after"].items() if v is not None}) for row in rows]
    assert images == [
        ("r", {"id": 1, "name": "Ada", "age": 36, "gone": "x"}),
        ("i", {"id": 2, "name": "Bob", "age": 7, "gone": "y"}),
        ("u", {"id": 1, "name": "Ada", "age": 36, "mail": "a@b"}),
        ("i", {"id": 3, "full_name": "Cyd", "age": 8, "mail": "none"}),
        ("i", {"id": 4, "full_name": "Dee", "age": 9, "mail": "none"}),
    ]
    with Lake.open(lake.root) as opened:
        (letter,) = opened.dead_letters(f"people_{format}")
        assert letter.reason == "schema" and "age" in letter.message
        raw = json.loads(opened.dead_letter(letter.id).raw or b"")
        assert raw["op"] == "i" and raw["after"]["age"] == "nine"
        versions = opened.topic(f"people_{format}").schemas()
    assert any("after.full_name string added" in version.changes for version in versions)


def test_a_remap_reads_each_row_by_the_shape_that_it_had(lake: Project) -> None:
    before = lake.rows("people_delta")
    with Lake.open(lake.root) as opened:
        done = opened.topic("people_delta").remap()
    assert done.rejected == 0
    assert lake.rows("people_delta") == before


@pytest.mark.parametrize("format", BRIEFLY)
def test_the_other_formats(lake: Project, format: str) -> None:
    rows = lake.rows(f"few_{format}")
    assert [row["_op"] for row in rows] == ["r", "u", "d", "t"]
    assert rows[0]["after"] == {"id": 1, "v": "a"} and rows[1]["after"] == {"id": 1, "v": "b"}
    assert rows[2]["before"] == {"id": 1, "v": None} and rows[2]["after"] is None
    assert rows[3]["before"] is None and rows[3]["after"] is None


def test_what_has_no_place_is_a_dead_letter(spark: SparkSession, crm: Crm, tmp_path: Path) -> None:
    project = Project(tmp_path, crm)
    crm.run("CREATE TABLE odd (id int PRIMARY KEY, d date, ts timestamptz, n numeric(6,2), m int[])")
    rows = ["(1, 'infinity', NULL, NULL, NULL)", "(2, NULL, '-infinity', NULL, NULL)", "(3, NULL, NULL, 'NaN', NULL)"]
    rows += ["(4, '0044-03-15 BC', NULL, NULL, NULL)", "(5, NULL, NULL, NULL, '{{1,2},{3,4}}')"]
    rows += ["(6, '20000-01-01', NULL, 1, '{}')", "(7, NULL, '20000-01-01 00:00+00', 1, '{}')"]
    rows += ["(8, '9999-12-31', '9999-12-31 23:59:59+00', 1, '{}')"]
    crm.run(f"INSERT INTO odd VALUES {', '.join(rows)}")
    project.write({"odd_log": {"table": "public.odd"}})
    project.run()
    crm.run("UPDATE odd SET id = id + 10")
    project.run()
    with Lake.open(tmp_path) as lake:
        told = sorted(letter.message.partition("; hint: ")[0] for letter in lake.dead_letters())
        kept = [row.id for row in lake.topic("odd_log").df().selectExpr("after.id").collect()]
    assert sorted(kept) == [8, 18]
    reasons = ["d: 0044-03-15 BC does not fit date", "d: infinity does not fit date"]
    reasons += ["m: such a value has no place in a column", "n: NaN does not fit decimal(6,2)"]
    reasons += ["ts: -infinity does not fit timestamp"]
    reasons += ["d: 20000-01-01 does not fit date", "ts: 20000-01-01 00:00:00+00 does not fit timestamp"]
    assert told == sorted(2 * [f"after.{reason}" for reason in reasons])


def test_the_example_of_the_page(
    spark: SparkSession, crm: Crm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs/sources/postgres_cdc.md"
    (example,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "headwater.yml").write_text(example, encoding="utf-8")
    monkeypatch.setenv("CRM_DSN", crm.dsn)
    crm.run("CREATE TABLE customers (id int PRIMARY KEY)", "CREATE TABLE addresses (id int PRIMARY KEY)")
    crm.run("INSERT INTO customers VALUES (1)", "INSERT INTO addresses VALUES (2)")
    project = Project(tmp_path, crm)
    project.run()
    for topic, id in (("customers_log", 1), ("addresses_log", 2)):
        (row,) = project.rows(topic)
        assert row["_op"] == "r" and row["after"] == {"id": id}
    (status, _) = headwater("status", "--json", "--project", tmp_path).json
    assert status["lag"]["detail"]["slot"] == "headwater_shop_crm" and status["lag"]["detail"]["wal_held_back"] >= 0


@follows("drop the topic without --drop-slot")
def test_the_end_of_topics(spark: SparkSession, crm: Crm, tmp_path: Path) -> None:
    project = Project(tmp_path, crm)
    crm.run("CREATE TABLE a (id int PRIMARY KEY, d date)", "CREATE TABLE b (id int PRIMARY KEY)")
    crm.run("INSERT INTO a VALUES (1, NULL), (2, 'infinity')", "INSERT INTO b VALUES (1)")
    project.write({"a_log": {"table": "public.a"}, "b_log": {"table": "public.b"}})
    project.run()

    def drop(*arguments: str) -> Answer:
        return headwater("topic", "drop", *arguments, "--project", tmp_path)

    refused = drop("a_log")
    assert refused.code == 2 and "--yes" in refused.err
    refused = drop("a_log", "--drop-slot", "--yes")
    assert refused.code == 2 and "still needed by topics.b_log" in refused.err
    assert len(project.rows("a_log")) == 1
    dropped = drop("a_log", "--yes", "--json")
    assert dropped.code == 0, dropped.err
    assert dropped.json["slot"] is None and dropped.json["defined"] and "the next run makes it again" in dropped.err
    assert (
        not (tmp_path / "lake/topics/a_log").exists() and not (tmp_path / "lake/_headwater/flows/topics.a_log").exists()
    )
    crm.run("INSERT INTO a VALUES (3, NULL)")
    project.run()
    assert [row["after"]["id"] for row in project.rows("a_log")] == [1, 3]
    with Lake.open(tmp_path) as lake:
        assert len(lake.dead_letters("a_log")) == 2  # the old one stays, the new one is at another place
    dropped = drop("a_log", "--dead-letters", "--yes", "--json")
    assert dropped.json["dead_letters"] == 2, dropped.err
    dropped = drop("b_log", "--yes")
    assert dropped.code == 0 and "--drop-slot" in dropped.err and "headwater_shop_crm" in crm.slots()
    dropped = drop("b_log", "--drop-slot", "--yes", "--json")
    assert dropped.code == 0 and dropped.json["slot_dropped"], dropped.err
    assert crm.settled_slots(0) == set() and crm.one("SELECT count(*) FROM pg_publication") == 0
    shutil.rmtree(tmp_path / "lake")


@follows("name another `slot` for the source, and start its topics over: headwater flow reset topics.…")
def test_a_copied_lake_leaves_the_slot_to_its_original(spark: SparkSession, crm: Crm, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project", crm)
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    project.write({"a_log": {"table": "public.a"}})
    project.run()
    shutil.copytree(tmp_path / "project", tmp_path / "copy")
    crm.run("INSERT INTO a VALUES (2)")
    before = crm.slots()
    refused = headwater("run", "--once", "--json", "--project", tmp_path / "copy")
    assert refused.code == 1 and "LAKE_COPIED" in refused.out + refused.err
    drop = ("topic", "drop", "a_log", "--drop-slot", "--yes", "--project", tmp_path / "copy")
    assert "LAKE_COPIED" in headwater(*drop).err
    assert crm.slots() == before
    assert len(Project(tmp_path / "copy", crm).rows("a_log")) == 1
    project.run()
    assert [row["after"]["id"] for row in project.rows("a_log")] == [1, 2]
    copy = Project(tmp_path / "copy", crm)
    copy.write({"a_log": {"table": "public.a"}}, slot="headwater_copy")
    assert headwater("flow", "reset", "topics.a_log", "--yes", "--project", copy.root).code == 0
    copy.run()
    crm.run("INSERT INTO a VALUES (3)")
    for each in (project, copy):
        each.run()
        assert {row["after"]["id"] for row in each.rows("a_log") if row["after"]} == {1, 2, 3}
    assert crm.settled_slots(2) == {"headwater_shop_crm", "headwater_copy"}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return bytes(value) if isinstance(value, bytearray) else value
