"""Tables for people, on terminals of several widths and where there is none, with values of every kind."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

from headwater.cli.grids import Cell, Grid, GridColumn
from headwater.cli.output import print_heading, show_error, show_record, show_records
from headwater.cli.rows import Output, TableStyle, hidden_columns, named_columns, print_rows
from headwater.cli.values import shown, shown_as, time_text
from headwater.core.errors import Code, UsageError
from headwater.core.units import readable_size
from headwater.query.records import result_of
from tests.cli.screen import WEIRD, in_pipe, on_terminal


def result(rows: int = 2, columns: int = 10):  # type: ignore[no-untyped-def]
    """Rows of a topic as a query gives them: ten columns of its own, and those that Headwater adds."""
    from headwater.query.result import Result

    at = datetime(2026, 10, 17, 12, 30, tzinfo=timezone.utc)
    record = {f"column_{n}": f"value {n}" for n in range(columns)}
    record |= {"note": WEIRD, "at": at, "amount": Decimal("12.50"), "raw": bytes(range(200))}
    record |= {"_source": "landing", "_position": "0001", "_ingested_at": at}
    table = pa.Table.from_pylist([record] * rows)

    class Given:
        engine, reason, versions, schema = "duckdb", "", {}, table.schema

        def batches(self):  # type: ignore[no-untyped-def]
            yield from table.to_batches()

        def rows(self) -> None: ...

        def close(self) -> None: ...

    given = Given()
    return Result(given, lambda: given)  # type: ignore[arg-type]


def topic(rows: int = 2, columns: int = 10, **look: bool) -> Callable[[], None]:
    """Shows those rows as a table."""
    sql = "SELECT * FROM topic('orders')"
    return lambda: print_rows(result(rows, columns), "table", TableStyle(**look), sql=sql)


def test_wide_rows_are_shown_vertically_by_themselves() -> None:
    for width in (80, 120):
        shown = on_terminal(topic(), width)
        assert shown.widest <= width, shown
        assert shown.lines[0].startswith("── row 1 ─") and "column_9  value 9" in shown.lines
        assert any(line.split() == ["raw", "0x0001020304050607…", "(200", "B)"] for line in shown.lines)
        assert "not shown: _source, _position, _ingested_at; --all-columns shows them" in shown.err


def test_a_row_that_has_room_stays_on_its_line() -> None:
    shown = on_terminal(topic(columns=2), 120)
    assert [line.split()[:2] for line in shown.lines] == [["column_0", "column_1"], ["value", "0"], ["value", "0"]]
    assert r"日本語👍 a\x1b[31mb\x07\nc\td" in shown.lines[1] and shown.widest <= 120
    narrow = on_terminal(topic(columns=2), 60)
    assert narrow.lines[0].startswith("── row 1") and narrow.widest <= 60


def test_people_choose() -> None:
    flat = on_terminal(topic(vertical=False), 80)
    assert len(flat.lines) >= 3 and flat.lines[0].startswith("column_0")
    tall = in_pipe(topic(vertical=True, rows=1, columns=1, all_columns=True))
    names = [line.split()[0] for line in tall.lines if line[0] != " "]
    assert names == ["column_0", "note", "at", "amount", "raw", "_source", "_position", "_ingested_at"]
    assert "not shown" not in tall.err


def test_where_there_is_no_terminal_a_row_is_a_line() -> None:
    shown = in_pipe(topic(columns=60))
    assert len(shown.lines) == 3 and not shown.has_colour
    assert all(line == line.rstrip() for line in shown.lines)
    assert "not shown" in shown.err


def test_no_colour_where_nobody_wants_any() -> None:
    assert on_terminal(topic(), 100).has_colour
    assert not on_terminal(topic(), 100, NO_COLOR="1").has_colour
    assert not on_terminal(topic(), 100, TERM="dumb").has_colour


def errors() -> None:
    flows = [{"flow": "a", "state": "failed"}, {"flow": "failed", "state": "new"}]
    show_records(flows, ["flow", "state"], as_json=False)
    show_error(UsageError(Code.USAGE, "no [x] :smile:", hint="do"), as_json=False)


def test_states_and_errors_in_colour() -> None:
    shown = on_terminal(errors, 80, both=True)
    assert "\x1b[31mfailed\x1b[0m" in shown.out and shown.out.count("\x1b[31m") == 1
    assert "\x1b[1;31merror\x1b[0m no [x] :smile:" in shown.out, "data is no markup"
    plain = on_terminal(errors, 80, both=True, NO_COLOR="1")
    assert not plain.has_colour and "error no [x] :smile:" in plain.out


@pytest.mark.parametrize("output", ["csv", "json", "ndjson"])
def test_programs_get_every_column(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(result(1), output, TableStyle())
    out, err = capsys.readouterr()
    assert err == "" and "_ingested_at" in out and "AAECAwQF" in out
    if output != "csv":
        (row,) = json.loads(out) if output == "json" else [json.loads(out)]
        assert row["note"] == WEIRD and row["at"] == "2026-10-17T12:30:00Z"


def test_programs_get_every_column_in_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file))
    print_rows(result(3), "parquet", TableStyle())
    assert pq.read_table(file).column_names[-3:] == ["_source", "_position", "_ingested_at"]


@pytest.mark.parametrize(
    ("sql", "hidden"),
    [
        ("SELECT * FROM topic('x')", ["_position", "_raw"]),
        ("SELECT *, _position FROM topic('x')", ["_raw"]),
        ("SELECT id, upper(_raw) AS _raw, _position FROM topic('x')", []),
        ("WITH x AS (SELECT id, _raw FROM t) SELECT * FROM x UNION ALL SELECT * FROM y", ["_position"]),
        ("DESCRIBE topic('x')", ["_position", "_raw"]),
        ("no statement", ["_position", "_raw"]),
    ],
)
def test_what_is_named_is_shown(sql: str, hidden: list[str]) -> None:
    assert hidden_columns(["id", "_op", "_position", "_raw", "_weight"], named_columns(sql)) == hidden


def test_nothing_is_hidden_where_nothing_would_be_left() -> None:
    assert hidden_columns(["_position", "_raw"], ()) == []


def test_one_style_of_times() -> None:
    at = datetime(2026, 10, 17, 12, 30, tzinfo=timezone.utc)
    assert time_text(at) == "2026-10-17 12:30:00Z" == shown(at) == shown_as("heard_at", at.isoformat())
    assert shown(at.replace(microsecond=500_000)) == "2026-10-17 12:30:00.500Z"
    assert shown_as("at", "2026-10-17T14:30:00.000007+02:00") == "2026-10-17 12:30:00.000007Z"
    assert shown_as("at", "tomorrow") == "tomorrow" and shown_as("look_at", "2026-10-17") == "2026-10-17"
    from headwater.sql.moments import parse_time

    assert parse_time(time_text(at)) == at, "what is shown can be given back"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (1_500_000, "1.4 MB"),
        (1024**2 - 1, "1.0 MB"),
        (1 << 60, "1048576 TB"),
    ],
)
def test_one_unit_of_sizes(size: int, text: str) -> None:
    assert readable_size(size) == text == shown_as("bytes", size)


def test_of_binary_values_the_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(b"\x00\xff") == "0x00ff" and shown(b"") == ""
    assert shown(bytes(5000)) == "0x0000000000000000… (4.9 KB)"


@pytest.mark.parametrize("width", [20, 40, 80, None])
def test_no_line_is_wider_than_the_terminal(width: int | None) -> None:
    columns = [GridColumn("id"), GridColumn("n", right=True, whole=True), GridColumn("text")]
    rows = [[Cell(WEIRD), Cell("1"), Cell("word " * 30)], [Cell("日" * 50), Cell("1234"), Cell("")]]
    for vertical in (None, True):
        lines = list(Grid(columns, rows, width).lines(vertical=vertical))
        assert width is None or max(map(cell_len, lines)) <= max(width, 32)
        text = "".join(lines)
        assert text.count("日") == 51 and text.count("word") == 30, "nothing is lost"
        assert "\x1b" not in text and "\x07" not in text


def test_headings_are_in_the_stream_of_their_tables(capsys: pytest.CaptureFixture[str]) -> None:
    show_record({"name": "a\nb", "n": None}, as_json=False)
    print_heading("columns")
    show_records([{"name": "x"}], ["name"], as_json=False)
    out, err = capsys.readouterr()
    assert out.splitlines() == ["name  a", "      b", "n", "", "columns", "name", "x"] and err == ""


def test_an_answer_of_one_column_is_never_folded(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(result_of([{"plan": "  word " * 100}], ["plan"]), "table", TableStyle())
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_what_hangs_on_a_record_reads_like_a_sentence() -> None:
    at = "2026-01-05T17:51:47+00:00"
    positions = {"tables.rows": {"at": at, "version": 2}, "watermark": {"at": at, "since": 0}}
    plainly = "2026-01-05 17:51:47Z"
    assert shown_as("positions", positions) == (
        f"tables.rows: {{at: {plainly}, version: 2}}, watermark: {{at: {plainly}, since: 0}}"
    )
    assert shown_as("watermark", at) == plainly and shown_as("watermark", None) == ""
    assert shown_as("checks", {"watermark": None, "late": 0, "violations": {"few": 1}}) == (
        "watermark: none, late: 0, violations: {few: 1}"
    )
    assert shown_as("violations", {}) == "" and shown_as("cost", {"bytes": 2048}) == "bytes: 2.0 KB"
