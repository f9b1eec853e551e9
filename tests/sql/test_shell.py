"""`headwater sql`: piped, at a terminal, and what Tab offers."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.cli.completing import Completion
from headwater.project.files import HOME
from tests.sql.lab import Bench
from tests.support import Answer, headwater

NAMES = {"topic": ["events", "orders"], "table": ["countries"], "mv": ["hourly"]}
COLUMNS = {"events": ["event_id", "event_type"], "countries": ["code", "name"], "orders": ["total"], "hourly": ["n"]}


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [
        ("SELECT * FROM topic('", "ev", ["events"]),
        ("SELECT * FROM table('", "", ["countries"]),
        ("SELECT * FROM changes('", "h", ["hourly"]),
        ("SELECT * FROM ", "co", ["countries"]),
        ("SELECT * FROM ", "topics.o", ["topics.orders"]),
        ("SELECT * FROM ", "mv", ["mv('"]),
        ("SELECT * FROM events WHERE ", "event_", ["event_id", "event_type"]),
        ("SELECT * FROM countries WHERE ", "event_", []),
        ("SELECT ", "event_", ["event_id", "event_type"]),
        ("", "SEL", ["SELECT"]),
        ("", "refr", ["refresh"]),
    ],
)
def test_what_tab_offers(before: str, word: str, expected: list[str]) -> None:
    completion = Completion(lambda: NAMES, lambda _, name: COLUMNS[name])
    assert completion.candidates(before, word) == expected


def piped(bench: Bench, text: str, monkeypatch: pytest.MonkeyPatch, *options: str) -> Answer:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return headwater("sql", "--project", bench.root, *options)


def test_statements_are_piped_in(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\\o ndjson\nSELECT 1 AS a;\nSET headwater.rewrite = on;\nSELECT\n  ';' AS b -- ;\n; SELECT 3 AS c"
    answer = piped(bench, text, monkeypatch)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [
        '{"a": 1}', '{"name": "headwater.rewrite", "value": "on"}', '{"b": ";"}', '{"c": 3}',
    ]  # fmt: skip


def test_what_fails_does_not_end_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = piped(bench, "SELECT nope FROM events;\n\\x\nSELECT 1 AS a;", monkeypatch, "--output", "csv")
    assert answer.out.split() == ["a", "1"]
    assert "there is no column 'nope'" in answer.err and "^^^^" in answer.err
    assert "there is no command \\x" in answer.err
    assert answer.code == 2


def test_commands_of_the_shell(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = piped(bench, "\\d\n\\d events\n\\h events\n\\?\n", monkeypatch)
    assert answer.code == 0, answer.err
    assert "landing" in answer.out and "event_timestamp" in answer.out and "topics.events" in answer.out
    assert "Tab completes" in answer.err


def test_at_a_terminal(bench: Bench) -> None:
    """Several lines, completion, history and an error, without a JVM: what is asked needs none."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("headwater")), "sql", "--project", str(bench.root)]
    environment = {**os.environ, "TERM": "dumb", "INPUTRC": os.devnull}
    shell = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        expect(ours, "headwater> ")
        os.write(ours, b"sho\t topics\n")
        expect(ours, r"\.\.\. ")
        os.write(ours, b";\n")
        expect(ours, "landing.*headwater> ")
        os.write(ours, b"SHOW TABELS;\n")
        expect(ours, r"\^\^\^\^\^\^.*headwater> ")
        os.write(ours, b"\\q\n")
        assert shell.wait(20) == 0
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
    history = (bench.root / HOME / "sql_history").read_text(encoding="utf-8")
    assert "show topics ;\nSHOW TABELS;\n" in history


def expect(terminal: int, pattern: str, seconds: float = 30) -> str:
    """Read until a pattern has been printed."""
    seen, until = "", time.monotonic() + seconds
    while not re.search(pattern, seen, re.DOTALL):
        assert time.monotonic() < until, f"{pattern!r} did not come; what came: {seen!r}"
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 4096).decode("utf-8", errors="replace")
    return seen
