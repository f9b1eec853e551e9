"""`headwater sql`: piped, at a terminal, and what Tab offers."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from headwater.cli.completion.statements import Completion
from headwater.cli.prompt import REMEMBERED, Editor
from headwater.project.load.files import HOME
from tests.conftest import TINY
from tests.hints.followed import follows
from tests.sql.lab import Bench
from tests.support import Answer, headwater

NAMES = {"topic": ["events", "orders"], "table": ["countries"], "mv": ["hourly"], "system": ["steps"]}
COLUMNS = {
    "events": ["event_id", "event_type"],
    "countries": ["code", "name"],
    "orders": ["total"],
    "hourly": ["n"],
    "steps": ["duration_ms", "flow"],
}


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
        ("SELECT * FROM ", "system.s", ["system.steps"]),
        ("SELECT * FROM ", "st", []),
        ("SELECT * FROM system.steps WHERE ", "dur", ["duration_ms"]),
        ("SELECT * FROM changes('", "st", []),
        ("SHOW ", "SYS", ["SYSTEM", "system.steps"]),
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
    text = "\\o ndjson\nSELECT 1 AS a;\nSET headwater.stale = serve;\nSELECT\n  ';' AS b -- ;\n; SELECT 3 AS c"
    answer = piped(bench, text, monkeypatch)
    assert answer.code == 0, answer.err
    assert answer.out.splitlines() == [
        '{"a": 1}', '{"name": "headwater.stale", "value": "serve"}', '{"b": ";"}', '{"c": 3}',
    ]  # fmt: skip


@follows("\\? lists them")
def test_what_fails_does_not_end_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = piped(bench, "SELECT nope FROM events;\n\\z\n\\?\nSELECT 1 AS a;", monkeypatch, "--output", "csv")
    assert answer.out.split() == ["a", "1"]
    assert "there is no column 'nope'" in answer.err and "^^^^" in answer.err
    assert "there is no command \\z" in answer.err and "Tab completes" in answer.err
    assert answer.code == 2


def test_commands_of_the_shell(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = piped(bench, "\\d\n\\d events\n\\h events\n\\?\n", monkeypatch)
    assert answer.code == 0, answer.err
    assert "landing" in answer.out and "event_timestamp" in answer.out and "topics.events" in answer.out
    assert "Tab completes" in answer.err


def test_how_rows_look_is_chosen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "SELECT * FROM topic('events') LIMIT 1;\n"
    answer = piped(bench, f"{query}\\a\n\\x\n{query}", monkeypatch)
    assert answer.code == 0, answer.err
    head, row, *below = answer.out.splitlines()
    assert head.split()[:2] == ["event_id", "event_type"] and "_position" not in head and row.startswith("e")
    assert {"event_id", "_source", "_position", "_ingested_at"} <= {line.split()[0] for line in below}
    assert "not shown: _source, _position, _file_path, _file_modified, _ingested_at; \\a shows them" in answer.err
    assert answer.err.count("not shown") == 1


UP, DOWN, FIRST, END, RIGHT = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[C"
CTRL_C, CTRL_D = "\x03", "\x04"
PAUSE = "\0"


def typed(history: Path, keys: str) -> list[str]:
    """What the prompt hands over when these keys are pressed."""
    completion = Completion(lambda: NAMES, lambda _, name: COLUMNS[name])
    with create_pipe_input() as pipe:

        def type_them() -> None:
            for some in keys.split(PAUSE):
                pipe.send_text(some)
                time.sleep(0.2)

        threading.Thread(target=type_them).start()
        return list(Editor(history, completion, input=pipe, output=DummyOutput()).entered())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("SELECT 1;\r" + CTRL_D, ["SELECT 1;"]),
        ("SELECT\r  ';'\r;\r\\d\rquit\rSELECT 2;\r", ["SELECT\n  ';'\n  ;", "\\d"]),
        # The first of two lines is corrected, then the second goes on.
        (f"SELCT 1\rFROM x{UP}{FIRST}{RIGHT * 3}E{DOWN}{END};\r{CTRL_D}", ["SELECT 1\nFROM x;"]),
        (f"SELECT nope{CTRL_C}SELECT\r{CTRL_C}SELECT 3;\r{CTRL_D}", ["SELECT 3;"]),
        (f"SELECT * FROM topic('ev\t');\r{CTRL_D}", ["SELECT * FROM topic('events');"]),
        (
            f"SELECT\r1;\rSELECT 2;\r{PAUSE}{UP}{UP}\r{CTRL_D}",
            ["SELECT\n1;", "SELECT 2;", "SELECT\n1;"],
        ),
        (f"SELECT 1;\x1b\rSELECT 2;\r{CTRL_D}", ["SELECT 1;\nSELECT 2;"]),
        ("\r  \r" + CTRL_D, []),
    ],
    ids=["one line", "several lines", "edited", "dropped", "completed", "brought back", "two at once", "nothing"],
)
def test_what_is_typed(tmp_path: Path, keys: str, expected: list[str]) -> None:
    assert typed(tmp_path / "history", keys) == expected


def test_history_outlives_the_shell(tmp_path: Path) -> None:
    history = tmp_path / "history"
    assert typed(history, f"SELECT a\rFROM b;\r{CTRL_D}") == ["SELECT a\nFROM b;"]
    assert history.stat().st_mode & 0o077 == 0
    assert typed(history, f"{UP}\r{CTRL_D}") == ["SELECT a\nFROM b;"]


def test_history_is_cut(tmp_path: Path) -> None:
    history = FileHistory(tmp_path / "history")
    for number in range(2 * REMEMBERED + 1):
        history.store_string(f"SELECT {number};")
    assert typed(tmp_path / "history", f"{UP}\r{CTRL_D}") == [f"SELECT {2 * REMEMBERED};"]
    assert len(list(history.load_history_strings())) <= REMEMBERED + 1


def test_at_a_terminal(bench: Bench) -> None:
    """Several lines, completion, history and an error, without a JVM: what is asked needs none."""
    with Terminal(bench.root) as shell:
        shell.expect("headwater>")
        shell.type("sho\t topics\r")
        shell.expect(r"\.\.\.")
        shell.type(";\r")
        shell.expect("landing.*headwater>")
        shell.type("SHOW TABELS;\r")
        shell.expect(r"\^\^\^\^\^\^.*headwater>")
        shell.type(f"SELECT{CTRL_C}")
        shell.expect("headwater>")
        shell.type("\\q\r")
        assert shell.ended() == 0
    history = list(FileHistory(bench.root / HOME / "sql_history").load_history_strings())
    assert history[:3] == ["\\q", "SHOW TABELS;", "show topics\n;"]


ENDLESS = "SELECT sum(id % 7) AS n FROM range(1000000000000)"


def empty_project(root: Path) -> Path:
    conf = ", ".join(f'{key}: "{value}"' for key, value in TINY.items())  # compiled: else no task looks for a cancel
    text = f"name: empty\nspark: {{conf: {{{conf}}}}}\ntables: {{t: {{keys: [a]}}}}\n"
    (root / "headwater.yml").write_text(text, encoding="utf-8")
    return root


@pytest.mark.spark
def test_ctrl_c_on_spark_brings_the_prompt_back(tmp_path: Path) -> None:
    with Terminal(empty_project(tmp_path), "--engine", "spark", "--output", "csv") as shell:
        shell.expect("headwater>")
        shell.type("SELECT 41 + 1 AS started;\r")
        shell.expect("42.*headwater>")
        shell.type(f"{ENDLESS};\r")
        time.sleep(1.5)
        begun = time.monotonic()
        shell.type(CTRL_C)
        seen = shell.expect("cancelled.*headwater>")
        assert time.monotonic() - begun < 5  # under a second where nothing else runs
        shell.type("SELECT 42 + 1 AS again;\r")
        seen += shell.expect("43.*headwater>")
        assert "Traceback" not in seen and "ERROR" not in seen
        shell.type(CTRL_D)
        assert shell.ended() == 0


@contextmanager
def asked(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, which is ended if a test fails."""
    command = [str(Path(sys.executable).with_name("headwater")), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def wait_for_java(process: subprocess.Popen[str], seconds: float = 180) -> None:
    """Until the JVM of a command is there; Spark's launcher has a short-lived one before it."""
    until = time.monotonic() + seconds
    while not any(is_spark(cmdline(child)) for child in psutil.Process(process.pid).children(recursive=True)):
        assert process.poll() is None and time.monotonic() < until, "no JVM was started"
        time.sleep(0.05)


def is_spark(words: list[str]) -> bool:
    return words[:1] != [] and words[0].endswith("java") and "org.apache.spark.launcher.Main" not in words


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def assert_nothing_is_left(root: Path, seconds: float = 20) -> None:
    """A JVM has the project's folder in its settings."""
    until = time.monotonic() + seconds
    while left := [one for one in map(cmdline, psutil.process_iter()) if any(str(root) in word for word in one)]:
        assert time.monotonic() < until, f"this was left behind: {left}"
        time.sleep(0.1)


@pytest.mark.spark
@pytest.mark.parametrize(
    "command",
    [["query", ENDLESS, "--engine", "spark"], ["mv", "create", "v", "SELECT 1 AS n", "--refresh", "manual"]],
    ids=["query", "another command"],
)
def test_ctrl_c_while_spark_starts(tmp_path: Path, command: list[str]) -> None:
    with asked(*command, "--project", str(empty_project(tmp_path))) as process:
        wait_for_java(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, "")
        assert "Traceback" not in err and "ERROR" not in err
        assert_nothing_is_left(tmp_path)


@pytest.mark.spark
def test_ctrl_c_while_spark_answers_a_command(tmp_path: Path) -> None:
    """In the middle of a result that would go on for hours."""
    rows = "SELECT id FROM range(0, 1000000000, 1, 10000)"
    root = str(empty_project(tmp_path))
    with asked("query", rows, "--engine", "spark", "--output", "ndjson", "--project", root) as process:
        assert process.stdout is not None and process.stdout.readline() == '{"id": 0}\n'
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert time.monotonic() - begun < 5
        assert process.returncode == 130
        assert "Traceback" not in err and "ERROR" not in err
        assert_nothing_is_left(tmp_path)


class Terminal:
    """`headwater sql` at a terminal of its own, which hands Ctrl-C to it as a signal."""

    def __init__(self, root: Path, *options: str) -> None:
        command = [str(Path(sys.executable).with_name("headwater")), "sql", "--project", str(root), *options]
        self._process, self._line = pty.fork()
        if self._process == 0:
            os.environ.update(TERM="vt100", PROMPT_TOOLKIT_NO_CPR="1")
            os.execv(command[0], command)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
        os.close(self._line)

    def type(self, keys: str) -> None:
        os.write(self._line, keys.encode())

    def expect(self, pattern: str, seconds: float = 60) -> str:
        """Read until a pattern has been printed; how the cursor moves about is left out."""
        seen, until = "", time.monotonic() + seconds
        while not re.search(pattern, seen, re.DOTALL):
            assert time.monotonic() < until, f"{pattern!r} did not come; what came: {seen!r}"
            if select.select([self._line], [], [], 0.2)[0]:
                seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen + os.read(self._line, 4096).decode(errors="replace"))
        return seen

    def ended(self, seconds: float = 20) -> int:
        """Its exit code."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                if select.select([self._line], [], [], 0.1)[0]:
                    os.read(self._line, 4096)
            except OSError:
                pass  # it has closed its end
            process, status = os.waitpid(self._process, os.WNOHANG)
            if process:
                self._process = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the shell does not end")
