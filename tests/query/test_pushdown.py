"""What a condition spares: partitions, files and row groups are counted, without a JVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headwater.api.lake import Lake
from headwater.core.model import Kind
from headwater.formats.base import Address, LakeContext
from headwater.formats.delta.native import DeltaNativeTable
from headwater.project.load.loader import load_project
from headwater.query.duckdb import eligibility
from headwater.query.duckdb.translation.terms import Refused
from headwater.query.engines import answer
from headwater.query.explain import explain
from headwater.query.explanation import TableRead
from headwater.query.values import told_apart
from headwater.warehouse import Warehouse
from tests.query.events import DAYS, FILES, ROWS, events
from tests.support import headwater

ALL = DAYS * FILES

# condition, files that are read, row groups that are read, rows
SPARED = [
    ("day = '2024-05-02'", 2, 8, 2 * ROWS),
    ("day <> '2024-05-02'", 6, 24, 6 * ROWS),
    ("day IN ('2024-05-01', '2024-05-04')", 4, 16, 4 * ROWS),
    ("day > '2024-05-03' OR day < '2024-05-02'", 4, 16, 4 * ROWS),
    ("NOT (day <= '2024-05-03')", 2, 8, 2 * ROWS),
    ("day IS NULL", 0, 0, 0),
    ("id = 1234", 1, 1, 1),
    ("1234 = id", 1, 1, 1),
    ("id < 100", 1, 1, 100),
    ("id <= 100", 1, 2, 101),
    ("id > 3150", 1, 1, 49),
    ("id >= 3100", 1, 1, 100),
    ("id BETWEEN 390 AND 410", 2, 2, 21),
    ("id IN (5, 3000)", 2, 2, 2),
    ("id NOT BETWEEN 100 AND 3099", 2, 2, 200),
    ("id = 5 OR name = 'n7-003000'", 2, 8, 2),
    ("id = 5 AND day = '2024-05-02'", 0, 0, 0),
    ("name LIKE 'n3%'", 1, 4, ROWS),
    ("name LIKE 'n3-0012%5'", 1, 1, 10),
    ("name = 'n3-001234'", 1, 1, 1),
    ("note IS NULL", 4, 16, 4 * ROWS),
    ("note IS NOT NULL AND day = '2024-05-01'", 1, 4, ROWS),
    ("amount < 0", 0, 0, 0),
    ("id % 3200 = 1234", ALL, 4 * ALL, 1),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    warehouse = events(tmp_path_factory.mktemp("pruned"))
    yield warehouse
    warehouse.close()


def read(lake: Warehouse, sql: str) -> TableRead:
    explained = explain(lake, sql, engine="duckdb", analyze=True)
    (table,) = explained.tables
    return table


@pytest.mark.parametrize(("condition", "files", "groups", "rows"), SPARED)
def test_conditions_reach_the_storage(lake: Warehouse, condition: str, files: int, groups: int, rows: int) -> None:
    sql = f"SELECT id, name FROM topic('events') WHERE {condition}"
    table = read(lake, sql)
    assert (table.files, table.row_groups, table.rows_all) == (files, groups, ALL * ROWS)
    assert answer(lake, sql, engine="duckdb").arrow().num_rows == rows


def test_what_is_left_out_has_its_reason(lake: Warehouse) -> None:
    table = read(lake, "SELECT id FROM events WHERE day >= '2024-05-03' AND id < 1700")
    assert (table.partitions, table.partitions_all) == (1, DAYS)
    assert (table.files_pruned_by_partition, table.files_pruned_by_bounds) == (4, 3)
    assert (table.row_groups_all, table.row_groups, table.row_groups_skipped_by_bounds) == (4, 1, 3)
    assert table.columns == ("id", "day") and table.columns_all == 6
    assert table.rows == 100 and table.rows_estimated is not None
    assert table.bytes is not None and table.bytes_all is not None and 0 < table.bytes < table.bytes_all / 20


def test_a_bloom_filter_rules_row_groups_out(lake: Warehouse) -> None:
    table = read(lake, "SELECT id FROM events WHERE key = 'k050000x' AND day = '2024-05-01'")
    assert table.row_groups_all == 8
    assert table.row_groups_skipped_by_bloom_filter == 8
    assert table.row_groups == 0


def test_conditions_go_through_subqueries_and_joins_but_never_too_far(lake: Warehouse) -> None:
    inner = "(SELECT id AS a, day AS d, name FROM events WHERE name LIKE 'n%') x"
    assert read(lake, f"SELECT a FROM {inner} WHERE d = '2024-05-02' AND a > 1200").files == 1
    grouped = "(SELECT day AS d, count(*) AS n FROM events GROUP BY day) x"
    assert read(lake, f"SELECT n FROM {grouped} WHERE d = '2024-05-02' AND n > 1000").files == 2
    limited = "(SELECT id FROM events ORDER BY id LIMIT 10) x"
    assert read(lake, f"SELECT id FROM {limited} WHERE id > 3000").files == ALL
    ranked = "(SELECT id, row_number() OVER (ORDER BY id) AS r FROM events) x"
    assert read(lake, f"SELECT r FROM {ranked} WHERE id > 3000").files == ALL
    joined = explain(
        lake,
        "SELECT a.id FROM events a LEFT JOIN events b ON a.id = b.id WHERE a.day = '2024-05-01' AND b.id IS NULL",
        engine="duckdb",
    )
    assert [table.files for table in joined.tables] == [2, ALL]
    inside = explain(lake, "SELECT a.id FROM events a JOIN events b ON a.id = b.id AND b.id < 5", engine="duckdb")
    assert [table.files for table in inside.tables] == [ALL, 1]


def test_nan_is_above_every_number_whatever_a_files_bounds_say(tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text("name: nan\ntables: {points: {keys: [id]}}\n")
    warehouse = Warehouse(load_project(tmp_path))
    rows = pa.table({"id": [1, 2, 3], "x": [1.0, float("nan"), 2.0], "st": [{"y": float("nan")}, {"y": 1.0}, None]})
    write_deltalake(str(warehouse.address(Kind.TABLE, "points").path), rows)
    warehouse.remember(Kind.TABLE, "points")
    for condition in ("x > 5", "NOT x <= 5", "greatest(x, 3) > 5", "x <> 1 AND x <> 2", "isnan(x)"):
        found = answer(warehouse, f"SELECT id FROM points WHERE {condition}", engine="duckdb").rows()
        assert found == [{"id": 2}], condition
    assert answer(warehouse, "SELECT id FROM points WHERE st.y > 5", engine="duckdb").rows() == [{"id": 1}]
    warehouse.close()


def test_explain_says_engine_version_and_reader(lake: Warehouse) -> None:
    explained = explain(lake, "SELECT count(*) FROM events WHERE id > 5 AND length(note) > 3")
    assert explained.engine == "duckdb" and not explained.analyzed and explained.rows is None
    (table,) = explained.tables
    assert (table.relation, table.format, table.version) == ("topics.events", "delta", 7)
    assert table.conditions == ("id > 5",)
    lines = "\n".join(explained.lines())
    assert "engine: duckdb" in lines and "columns     2 of 6: id, note" in lines
    assert explained.to_dict()["tables"][0]["files"] == ALL


def test_estimates_come_from_bounds(lake: Warehouse) -> None:
    exact = read(lake, "SELECT id FROM events WHERE id < 100")
    assert exact.rows_estimated is not None and abs(exact.rows_estimated - 100) < 5
    one = read(lake, "SELECT id FROM events WHERE id = 7")
    assert one.rows_estimated == 1


def test_what_is_left_of_the_tables_decides_on_the_engine(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a table of 64 GiB would be: a query of all of it is Spark's, one that needs few rows or columns is not."""
    most = read(lake, "SELECT id FROM events WHERE day = '2024-05-01'").bytes_all
    monkeypatch.setattr(eligibility, "LARGE_SCAN", (most or 0) // 2)
    assert (
        answer(lake, "SELECT name FROM events WHERE day = '2024-05-03'", engine="duckdb").arrow().num_rows == 2 * ROWS
    )
    assert answer(lake, "SELECT name FROM events WHERE name <> 'x'", engine="duckdb").arrow().num_rows == ALL * ROWS
    with pytest.raises(Refused, match="which Spark can spread"):
        answer(lake, "SELECT * FROM events WHERE name <> 'x'", engine="duckdb")


def test_columns_with_one_name_are_told_apart(lake: Warehouse) -> None:
    sql = "SELECT a.id, b.id, 1 AS id_2 FROM events a LEFT JOIN events b ON a.id = b.id AND b.id < 5 WHERE a.id = 7"
    result = answer(lake, sql, engine="duckdb")
    assert result.rows() == list(result) == [{"id": 7, "id_3": None, "id_2": 1}]
    assert result.columns == result.arrow().column_names == ["id", "id_3", "id_2"] == result.polars().columns
    printed = headwater("query", sql, "--output", "csv", "--project", lake.project.root)
    assert printed.out.split() == ["id,id_3,id_2", "7,,1"]
    # A statement of others may have thousands of them, and is answered inside of the runner.
    assert told_apart(["a", "b"] * 25_000)[-2:] == ["a_25000", "b_25000"]


def test_hundreds_of_conditions(lake: Warehouse) -> None:
    """As programs write them, each inside the one before it."""
    for word, sign, rows in (("OR", "=", 400), ("AND", "<>", ALL * ROWS - 400)):
        chain = f" {word} ".join(f"id {sign} {n}" for n in range(400))
        assert explain(lake, f"SELECT id FROM events WHERE {chain}").engine == "duckdb"
        assert answer(lake, f"SELECT id FROM events WHERE {chain}", engine="duckdb").arrow().num_rows == rows
    with pytest.raises(Refused, match="nested too deeply"):
        answer(lake, f"SELECT {' || '.join(['name'] * 400)} AS long FROM events", engine="duckdb")


def test_a_table_is_opened_once_and_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    make = DeltaNativeTable.__init__

    def counting(self: DeltaNativeTable, address: Address, context: LakeContext) -> None:
        opened.append(str(address))
        make(self, address, context)

    monkeypatch.setattr(DeltaNativeTable, "__init__", counting)
    warehouse = events(tmp_path)
    path = str(warehouse.address(Kind.TOPIC, "events").path)
    opened.clear()
    for day, rows in enumerate((ALL * ROWS, ALL * ROWS + 1, ALL * ROWS + 2)):
        (found,) = answer(warehouse, COUNT, engine="duckdb").rows()
        assert found["n"] == rows
        row = {"id": -1, "day": date(2024, 6, 1 + day), "name": "x", "key": "y", "amount": 0.0, "note": "z"}
        write_deltalake(path, pa.Table.from_pylist([row]), mode="append")
    assert len(opened) == 1
    warehouse.close()


def test_a_cold_query_loads_neither_spark_nor_a_jvm(lake: Warehouse) -> None:
    """What takes long to load, and what other commands need, is not loaded for a query that DuckDB answers."""
    with Lake.open(lake.project.root) as opened:  # the first to open a lake gives it its identity
        opened.sql(COUNT)
    program = (
        "import sys, psutil\n"
        f"sys.argv = ['headwater', 'query', {COUNT!r}, '--output', 'ndjson', '--project', {str(lake.project.root)!r}]\n"
        "from headwater.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    loaded = {name.partition('.')[0] for name in sys.modules}\n"
        f"    assert not loaded & {SLOW}, loaded & {SLOW}\n"
        "    commands = {name for name in sys.modules if name.endswith(('commands.topic', 'commands.run'))}\n"
        "    assert not commands, commands\n"
        "    assert not psutil.Process().children(recursive=True), 'it started a process'\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f'{{"n": {ALL * ROWS}}}\n'


COUNT = "SELECT count(*) AS n FROM events"
SLOW = {"pyspark", "py4j", "pandas", "sqlalchemy", "structlog", "rich", "prompt_toolkit", "pyiceberg", "polars"}
