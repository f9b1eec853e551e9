"""`headwater query`, `topic history | diff | tag | tail` and `headwater parquet`, on a small lake."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from headwater.cli.app import execute
from headwater.core.errors import Code, TerminalError
from headwater.query.limits import QueryStop
from tests.hints.followed import follows
from tests.runtime.running import COMMAND
from tests.sql.lab import Bench
from tests.support import headwater

TYPES = (
    "SELECT timestamp '2026-01-05 08:00:00.5' AS t, date '2026-01-05' AS d, cast(1.50 AS decimal(10, 2)) AS m,"
    " array(1, NULL) AS a, named_struct('x', double('nan'), 'y', true) AS s, NULL AS n, 'é, \"x\"' AS w"
)

ENDLESS = "SELECT sum(id % 7) AS n FROM range(1000000000000)"


def test_json_and_lines_of_it(bench: Bench) -> None:
    row = {
        "t": "2026-01-05T08:00:00.500000Z", "d": "2026-01-05", "m": "1.50", "a": [1, None],
        "s": {"x": "NaN", "y": True}, "n": None, "w": 'é, "x"',
    }  # fmt: skip
    assert bench.rows(TYPES) == [row]
    lines = bench.do("query", f"{TYPES} UNION ALL {TYPES}", "--output", "ndjson")
    assert [json.loads(line) for line in lines.out.splitlines()] == [row, row]
    assert bench.rows("SELECT 1 WHERE false") == []


def test_csv(bench: Bench) -> None:
    lines = bench.do("query", TYPES, "--output", "csv").out.splitlines()
    assert lines[0] == "t,d,m,a,s,n,w"
    assert lines[1].startswith('2026-01-05T08:00:00.500000Z,2026-01-05,1.50,"[1, null]",')
    assert lines[1].endswith(',,"é, ""x"""')


@follows("send it to a file: > rows.parquet")
def test_parquet(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = bench.do("query", TYPES, "--output", "parquet")
    assert refused.code == 2 and "not for a terminal" in refused.err
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
    assert execute(["query", TYPES, "--output", "parquet", "--project", str(bench.root)]) == 0
    (row,) = pq.read_table(io.BytesIO(raw.getvalue())).to_pylist()
    assert row["m"] == Decimal("1.50")
    assert row["a"] == [1, None]


def test_only_the_first_rows(bench: Bench) -> None:
    assert bench.rows("SELECT event_id FROM events ORDER BY event_id DESC", "--limit", "2") == [
        {"event_id": "e3"},
        {"event_id": "e2"},
    ]
    assert len(bench.rows("SELECT * FROM events LIMIT 1", "--limit", "2")) == 1
    table = bench.do("query", "SELECT event_id, amount FROM events ORDER BY event_id", "--limit", "2")
    assert table.code == 0 and "event_id" in table.out and "e1" in table.out and "e3" not in table.out


def test_the_statement_is_read_from_standard_input(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT\n 1 AS a;\n"))
    assert bench.rows("-") == [{"a": 1}]


@pytest.mark.parametrize("seconds", ["1s", "1"])
def test_a_query_that_takes_too_long_is_cancelled(bench: Bench, seconds: str) -> None:
    begun = time.monotonic()
    problem = bench.refused(ENDLESS, "--engine", "spark", "--timeout", seconds)
    assert problem["code"] == "QUERY_LIMIT"
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("after", [0.3, 6], ids=["at once", "when its batches are served"])
def test_a_query_is_cancelled_from_another_thread(bench: Bench, after: float) -> None:
    with Lake.open(bench.root) as lake:
        stopping = QueryStop()
        result = lake.sql(ENDLESS, engine="spark", stopping=stopping)
        cancelled: list[float] = []

        def cancel() -> None:
            cancelled.append(time.monotonic())
            stopping.cancel()

        threading.Timer(after, cancel).start()
        with pytest.raises(TerminalError) as caught:
            result.rows()
        assert caught.value.code is Code.CANCELLED
        assert time.monotonic() - cancelled[0] < 15  # under a second where nothing else runs


def test_history_says_what_wrote_each_version(bench: Bench) -> None:
    found = bench.do("topic", "history", "events", "--json").json
    last, first = [one for one in found if one["flow"] == "topics.events"]
    assert (last["rows_added"], first["rows_added"]) == (1, 2)
    assert last["step"] == first["step"] + 1
    assert last["positions"]


def test_what_changed(bench: Bench) -> None:
    first, last = map(str, bench.versions())
    (row,) = bench.do("topic", "diff", "events", first, last, "--json").json
    assert (row["_weight"], row["event_id"]) == (1, "e3")
    summary = bench.do("topic", "diff", "events", first, "--summary", "--json").json
    assert summary == {"from": first, "to": "latest", "rows_added": 1, "rows_removed": 0}
    assert bench.do("topic", "diff", "events", "2026-13-01", "--json").code == 2


def test_named_snapshots(bench: Bench) -> None:
    last = bench.do("topic", "history", "events", "--json").json[0]["version"]
    assert bench.do("topic", "tag", "events", "closing", "--json").json["version"] == last
    assert bench.do("topic", "tag", "events", "closing").code == 2
    assert bench.do("topic", "tag", "events", "closing", "--replace", "--at", "2100-01-01").code == 0
    assert "closing" in [one["label"] for one in bench.do("topic", "tag", "events", "--json").json]
    assert (bench.root / "lake" / "_headwater" / "tags" / "topics.events.json").is_file()
    assert "closing" in bench.do("topic", "history", "events").out
    summary = bench.do("topic", "diff", "events", "closing", "--summary", "--json").json
    assert (summary["rows_added"], summary["rows_removed"]) == (0, 0)
    assert bench.do("topic", "tag", "events", "closing", "--delete").code == 0
    assert bench.do("topic", "diff", "events", "closing").code == 2
    assert bench.do("topic", "tag", "events", "1st").code == 2


def test_tables_and_views_go_back_in_time_too(bench: Bench) -> None:
    bench.rows("INSERT INTO countries VALUES ('fi', 'Suomi')")
    bench.rows("CREATE MATERIALIZED VIEW known AS SELECT code, count(*) AS n FROM countries GROUP BY code")
    bench.rows("INSERT INTO countries VALUES ('is', 'Iceland')")
    assert bench.rows("REFRESH MATERIALIZED VIEW known")[0]["rows_changed"] == 1
    for group, name, kind in (("table", "countries", "tables"), ("mv", "known", "views")):
        newest, before, *_ = [one for one in bench.do(group, "history", name, "--json").json if one["rows_added"]]
        assert newest["version"] > before["version"] and newest["committed_at"] >= before["committed_at"]
        assert kind == "tables" or (newest["flow"], newest["step"]) == ("views.known", before["step"] + 1)
        (row,) = bench.do(group, "diff", name, str(before["version"]), "--json").json
        assert (row["_weight"], row["code"]) == (1, "is")
        assert bench.do(group, "tag", name, "old", "--version", str(before["version"])).code == 0
        then, now = (bench.rows(f"SELECT code FROM {kind}.{name} {at}") for at in ("VERSION AS OF 'old'", ""))
        assert len(now) == len(then) + 1
    bench.rows("DROP MATERIALIZED VIEW known")


def test_the_newest_rows(bench: Bench) -> None:
    lines = bench.do("topic", "tail", "events", "-n", "2").out.splitlines()
    assert [json.loads(line)["event_id"] for line in lines][-1] == "e3"
    assert len(lines) == 2


def test_rows_are_followed_as_they_come(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench.make(tmp_path)
    events = iter(["e4", "e5"])

    def meanwhile(_: float) -> None:
        event = next(events, None)
        if event is None:
            raise KeyboardInterrupt
        bench.land(f"{event}.json", [{"event_id": event}])
        assert bench.do("run", "--once").code == 0

    monkeypatch.setattr("headwater.cli.tail.sleep", meanwhile)
    answer = bench.do("topic", "tail", "events", "-n", "1", "--follow")
    assert answer.code == 130
    assert [json.loads(line)["event_id"] for line in answer.out.splitlines()] == ["e3", "e4", "e5"]


def test_statistics_of_columns_and_files(bench: Bench) -> None:
    found = bench.do("parquet", "stats", "events", "--json").json
    (amount,) = [column for column in found["columns"] if column["column"] == "amount"]
    assert (found["rows"], found["files"]) == (3, 2)
    assert (amount["min"], amount["max"], amount["nulls"]) == (1, 7, 0)
    files = bench.do("parquet", "stats", "topic('events')", "--files", "--json").json
    assert sorted(file["rows"] for file in files) == [1, 2]
    assert all(file["row_groups"] == 1 and file["compression"] for file in files)
    assert "distinct" in bench.do("parquet", "stats", "events").out


def test_statistics_are_of_the_columns_that_people_see(bench: Bench) -> None:
    made = bench.do("mv", "create", "kinds", "SELECT event_id AS `the id`, count(*) AS n FROM events GROUP BY 1")
    assert made.code == 0, made.err
    found = bench.do("parquet", "stats", "mv('kinds')", "--json").json
    assert [column["column"] for column in found["columns"]] == ["the id", "n"]
    assert all(column["bytes"] > 0 for column in found["columns"])
    assert bench.do("mv", "drop", "kinds", "--yes").code == 0
    refused = bench.do("parquet", "compact", "events", "--target-file-size", "0")
    assert (refused.code, "INVALID_VALUE" in refused.err) == (2, True)


def test_a_view_is_made_by_a_whole_statement(bench: Bench) -> None:
    statement = "CREATE MATERIALIZED VIEW stated AS SELECT user, count(*) AS n FROM events GROUP BY 1"
    made = bench.do("mv", "create", f"{statement} WITH (refresh = 'manual')", "--json")
    assert made.code == 0, made.err
    assert (made.json["view"], made.json["refresh_type"]) == ("stated", "full")
    assert list(made.json["watermarks"]) == ["topics.events"], "as by name and query"
    assert "ALREADY_EXISTS" in bench.do("mv", "create", statement).err
    described = bench.do("mv", "describe", "stated")
    parts = ["mode", "manual", "", "columns", "its last refreshes, newest first"]
    assert [line for line in described.out.splitlines() if line in parts] == ["", *parts[3:4], "", *parts[4:]]
    assert described.err == ""
    assert bench.do("mv", "drop", "stated", "--yes").code == 0


def test_schemas(bench: Bench) -> None:
    columns = {one["name"]: one["type"] for one in bench.do("parquet", "schema", "events", "--json").json}
    assert (columns["amount"], columns["event_timestamp"]) == ("bigint", "timestamp")
    assert "amount" in bench.do("parquet", "schema", "events", "--as", "parquet").out
    found = bench.do("parquet", "schema", "events", "--as", "json-schema").json
    assert found["properties"]["event_timestamp"] == {"type": ["string", "null"], "format": "date-time"}
    assert set(found["required"]) == set(columns)


def test_a_copy_in_another_layout(bench: Bench, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    done = bench.do(
        "parquet", "convert", "events", "--to", str(to), "--format", "parquet", "--compression", "gzip",
        "--row-group-size", "1MB", "--partition-by", "event_type", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert (done.json["rows"], done.json["format"]) == (3, "parquet")
    files = sorted(to.rglob("*.parquet"))
    assert len(files) == done.json["files"] == 2
    assert {pq.ParquetFile(file).metadata.row_group(0).column(0).compression for file in files} == {"GZIP"}
    with Lake.open(bench.root) as lake:
        assert lake.foreign("parquet", path=str(to)).read().count() == 3
    again = bench.do("parquet", "convert", "events", "--to", str(to), "--json")
    assert again.code == 2 and "ALREADY_EXISTS" in again.err
    named = bench.do("parquet", "convert", "events", "--to", "copies.events")
    assert named.code == 2 and "say --to ./copies.events" in named.err
    assert (
        "brotli" in bench.do("parquet", "convert", "events", "--to", str(tmp_path / "b"), "--compression", "brotli").err
    )
    assert not (tmp_path / "b").exists()


def test_a_copy_in_another_format(bench: Bench, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    done = bench.do(
        "parquet", "convert", "events", "--to", str(to), "--format", "delta", "--bloom-filter", "event_id",
        "--partition-by", "", "--z-order-by", "amount", "--compression", "zstd", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert (done.json["rows"], done.json["format"]) == (3, "delta")
    (file,) = (path for path in DeltaTable(to).file_uris())
    columns = [pq.ParquetFile(file).metadata.row_group(0).column(n) for n in range(5)]
    assert {column.compression for column in columns} == {"ZSTD"}


def test_a_copy_in_a_format_that_the_project_does_not_name(bench: Bench) -> None:
    """In a process of its own, whose Spark knows what the project needs and no more."""
    command = [*COMMAND, "parquet", "convert", "events", "--format", "iceberg"]
    done = subprocess.run(
        [*command, "--to", "lake.copies.other", "--json", "--project", bench.root], capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["rows"] == 3
    with Lake.open(bench.root) as lake:
        assert lake.foreign("iceberg", table="lake.copies.other").read().count() == 3


def test_small_files_are_joined(bench: Bench) -> None:
    before = bench.rows("SELECT * FROM events ORDER BY event_id")
    done: dict[str, Any] = bench.do("parquet", "compact", "events", "--json").json
    assert done["files_after"] == 1 <= done["files_before"]
    assert bench.rows("SELECT * FROM events ORDER BY event_id") == before
    assert headwater("parquet", "compact", "event", "--project", bench.root).code == 2


def test_a_copy_has_a_place_of_its_own_where_none_is_named(bench: Bench) -> None:
    done = bench.do("parquet", "convert", "events", "--format", "parquet", "--json")
    assert done.code == 0, done.err
    assert (done.json["rows"], done.json["to"]) == (3, "copies/events_parquet")
    with Lake.open(bench.root) as lake:
        assert lake.foreign("parquet", path=str(bench.root / "copies" / "events_parquet")).read().count() == 3
    again = bench.do("parquet", "convert", "events", "--format", "parquet")
    assert again.code == 2 and "copies/events_parquet" in again.err
