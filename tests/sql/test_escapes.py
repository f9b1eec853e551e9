"""Data that would speak to the terminal: told, not obeyed, wherever people read it; JSON stays as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli.output import note, print_json, print_line, show_error, show_record, show_records
from headwater.core.errors import Code, UsageError
from tests.sql.lab import Bench

EVIL = "a\x1b]0;owned\x07b\x1b[2Jc\r\x9b31md\u202ee\x7ff\x00"
SAFE = r"a\x1b]0;owned\x07b\x1b[2Jc\r\x9b31md\u202ee\x7ff\x00"
DANGEROUS = set("\x1b\x07\r\x9b\u202e\x7f\x00")


def test_everything_for_people_goes_through_the_same_hands(capsys: pytest.CaptureFixture[str]) -> None:
    show_records([{"a": EVIL, EVIL: 1, "m": {"k": EVIL}, "l": [EVIL]}], ["a", EVIL, "m", "l"], as_json=False)
    show_record({EVIL: EVIL}, as_json=False)
    note(EVIL)
    print_line(EVIL)
    show_error(UsageError(Code.USAGE, EVIL, hint=EVIL, excerpt=EVIL), as_json=False)
    out, err = capsys.readouterr()
    assert not DANGEROUS & set(out + err)
    assert SAFE in out and SAFE in err


def test_what_people_write_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "línea\tdos\nmañana 日本 👍 العربية"
    show_record({"a": text}, as_json=False)
    print_line(text)
    out, _ = capsys.readouterr()
    assert "línea" in out and "日本 👍 العربية" in out and text in out


def test_json_keeps_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{EVIL: EVIL}])
    out, _ = capsys.readouterr()
    assert json.loads(out) == [{EVIL: EVIL}] and not DANGEROUS & set(out)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_rows_dead_letters_and_errors_with_escapes(bench: Bench, engine: str) -> None:
    sql = r"SELECT concat(user, '\u001b]0;owned\u0007') AS evil, map('k', concat(user, '\u001b[2J')) AS m FROM events"
    told = bench.do("query", sql, "--engine", engine) if engine == "spark" else bench.do("query", sql)
    assert told.code == 0, told.err
    assert r"\x1b]0;owned\x07" in told.out and "\x1b" not in told.out
    found = bench.do("query", sql, "--json").json
    assert found[0]["evil"].endswith("\x1b]0;owned\x07")
    refused = bench.do("query", "SELECT \x1b[31mx FROM events", "--engine", engine)
    assert refused.code != 0 and "\x1b[31mx" not in refused.err


def test_dead_letters_with_escapes(tmp_path: Path, bench: Bench) -> None:
    del bench  # one Spark
    (tmp_path / "headwater.yml").write_text(
        "name: evil\nsources: {s: {type: files, path: ./in, schema: 'id bigint'}}\ntopics: {t: {from: s}}\n"
    )
    (tmp_path / "in").mkdir()
    rows = [{"id": EVIL.replace("\x00", "")}, {"id": 1}]
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows) + "\x1b[2Jbroken\n")
    other = Bench(tmp_path)
    other.do("run", "--once")
    listed = other.do("dlq", "list")
    assert listed.code == 0 and "schema" in listed.out and not DANGEROUS & set(listed.out)
    dead_letters = other.do("dlq", "list", "--json").json
    assert len(dead_letters) == 2
    for letter in dead_letters:
        shown = other.do("dlq", "show", letter["id"])
        assert shown.code == 0 and not DANGEROUS & set(shown.out)
        assert "\x1b" in json.loads(other.do("dlq", "show", letter["id"], "--json").out)["raw"] or letter["reason"]
    cut = other.do("dlq", "list", "--limit", "1", "--json")
    assert len(cut.json) == 1, "a list, whatever is left out"
    assert json.loads(cut.err)["cut"]["shown"] == 1 and "--all" in cut.err
    assert "--all" in other.do("dlq", "list", "--limit", "1").err
    for whole in (["--all"], ["--limit", "2"], []):
        answer = other.do("dlq", "list", "--json", *whole)
        assert (len(answer.json), answer.err) == (2, "")
    assert other.do("dlq", "list", "--all", "--limit", "1").code == 2
