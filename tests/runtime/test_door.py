"""The runner's socket: whose it is, what goes through it, and when it is not used."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.cli.remote import ask
from headwater.cli.style import has_colour, width_of
from headwater.project.load.loader import load_project
from headwater.runner.socket.address import folder_of, socket_of
from headwater.runner.socket.frames import Frame, Line
from headwater.runner.socket.server import Answers, Request, RunnerSocket
from tests.runtime.terminal import Terminal

ASK = "import sys; from headwater.cli.remote import ask; sys.exit(ask(sys.argv[1:]))"
"""A command that is answered, in a process of its own."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_project(tmp_path)
    return tmp_path


def write_project(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "name: ${DOOR_NAME:-shop}\nsources: {s: {type: files, path: in}}\ntopics: {orders: {from: s}}\n"
    (folder / "headwater.yml").write_text(text + "targets: {prod: {warehouse: ./other}}\n", encoding="utf-8")


@contextmanager
def opened(root: Path, run: Callable[[Request], int]) -> Iterator[RunnerSocket]:
    door = RunnerSocket(load_project(root), Answers(frozenset({"query", "topic append"}), run))
    door.open()
    try:
        yield door
    finally:
        door.close()


def asking(root: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", ASK, *arguments, "--project", str(root)]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(("no_colour", "expected"), [("", "True 97 True"), ("1", "False 97 False")])
def test_the_terminal_of_a_command_is_known(
    root: Path, monkeypatch: pytest.MonkeyPatch, no_colour: str, expected: str
) -> None:
    """How wide it is, and whether it wants colour: of its own environment, and not the runner's."""
    for name, value in {"TERM": "xterm", "COLUMNS": "97", "NO_COLOR": no_colour}.items():
        monkeypatch.setenv(name, value)

    def run(request: Request) -> int:
        out, err = request.streams.stdout, request.streams.stderr
        monkeypatch.setenv("NO_COLOR", "" if no_colour else "1")
        monkeypatch.setenv("COLUMNS", "20")
        out.write(f"{has_colour(out)} {width_of(out)} {has_colour(err)}\n")
        return 0

    with opened(root, run):
        terminal = Terminal([sys.executable, "-c", ASK, "query", "x", "--project", str(root)])
        try:
            assert terminal.wait() == 0
        finally:
            terminal.end()
    assert terminal.said.strip() == expected


def test_a_command_gets_its_output_errors_and_exit_code_and_gives_its_folder(root: Path, tmp_path: Path) -> None:
    def run(request: Request) -> int:
        request.streams.stdout.write(f"{request.arguments[1]} in {request.folder} äöü\n")
        request.streams.stderr.write("careful\n")
        return 3

    with opened(root, run):
        answer = asking(root, "query", "SELECT 1", cwd=tmp_path)
        assert answer.stdout.decode() == f"SELECT 1 in {tmp_path} äöü\n"
        assert (answer.stderr, answer.returncode) == (b"careful\n", 3)
        place = socket_of(root / "headwater.yml")
        assert place is not None
        assert stat.S_IMODE(place.stat().st_mode) == 0o600 and stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert not place.exists() and ask(["query", "x", "--project", str(root)]) is None


def test_input_goes_through_when_it_is_read_and_is_left_alone_when_not(root: Path) -> None:
    def run(request: Request) -> int:
        if request.arguments[0] == "topic":
            request.streams.stdout.write(f"{sum(len(line) for line in request.streams.stdin)}\n")
        return 0

    with opened(root, run):
        assert asking(root, "topic", "append", input=b"abc\n" * 100_000).stdout == b"400000\n"
        rest = f"{sys.executable} -c '{ASK}' query x --project {root}; cat"
        assert subprocess.check_output(["sh", "-c", rest], input=b"for the next\n", timeout=60) == b"for the next\n"


def test_a_large_answer_is_streamed_and_held_back_by_a_slow_reader(root: Path) -> None:
    written = 0

    def run(request: Request) -> int:
        nonlocal written
        for _ in range(640):
            request.streams.stdout.write("x" * 65_536)
            written += 65_536
        return 0

    with opened(root, run):
        command = [sys.executable, "-c", ASK, "query", "x", "--project", str(root)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            time.sleep(0.5)
            assert written < 8 << 20, "what nobody reads is not piled up"
            assert len(process.stdout.read()) == 640 * 65_536 - 1
        assert process.returncode == 0


def test_a_command_that_goes_away_ends_what_was_done_for_it(root: Path) -> None:
    begun, ended = threading.Event(), threading.Event()

    def run(request: Request) -> int:
        begun.set()
        try:
            while True:
                request.streams.stdout.write("on and on\n")
                request.streams.stdout.flush()
                time.sleep(0.01)
        finally:
            ended.set()

    with opened(root, run):
        process = subprocess.Popen(
            [sys.executable, "-c", ASK, "query", "x", "--project", str(root)], stdout=subprocess.DEVNULL
        )
        assert begun.wait(120)
        process.send_signal(2)
        assert process.wait(60) == 130 and ended.wait(60)


def test_a_command_for_something_else_is_not_answered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(root, lambda request: 0):
        assert ask(["query", "x", "--project", str(root)]) == 0
        assert ask(["status", "--project", str(root)]) is None, "not a command that the runner takes"
        assert ask(["query", "x", "--project", str(root), "--target", "prod"]) is None
        monkeypatch.setenv("DOOR_NAME", "another")
        assert ask(["query", "x", "--project", str(root)]) is None, "another environment means another project"


def test_a_runner_that_does_not_answer_is_not_waited_for(root: Path) -> None:
    folder = folder_of(root / "headwater.yml")
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "runner.sock"))
        silent.listen(1)
        (folder / "socket").write_text(str(folder / "runner.sock"))
        begun = time.monotonic()
        assert ask(["query", "x", "--project", str(root)]) is None
        assert time.monotonic() - begun < 5


def test_a_socket_left_behind_is_taken_over_and_a_second_runner_leaves_the_first_ones(root: Path) -> None:
    folder = folder_of(root / "headwater.yml")
    folder.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "runner.sock"))
    (folder / "socket").write_text(str(folder / "runner.sock"))
    assert ask(["query", "x", "--project", str(root)]) is None
    with opened(root, lambda request: 11):
        with opened(root, lambda request: 12) as second:
            assert ask(["query", "x", "--project", str(root)]) == 11
        assert ask(["query", "x", "--project", str(root)]) == 11, "the second one's end is not the first one's"
    second.open()
    assert ask(["query", "x", "--project", str(root)]) == 12
    second.close()


def test_a_folder_whose_name_is_too_long_for_a_socket(tmp_path: Path) -> None:
    root = tmp_path / ("long" * 30)
    write_project(root)
    with opened(root, lambda request: 7):
        place = socket_of(root / "headwater.yml")
        assert place is not None and len(os.fsencode(place)) < 100
        assert ask(["query", "x", "--project", str(root)]) == 7
    assert not place.exists()


def test_nonsense_on_the_socket_ends_that_visit_alone(root: Path) -> None:
    with opened(root, lambda request: 0):
        place = socket_of(root / "headwater.yml")
        for nonsense in (b"?" * 100, b"O\x00\x00\x00\x02{}", b"R\x00\x00"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(place))
                line = Line(connection)
                hello = line.receive()
                assert hello is not None and hello[0] is Frame.HELLO
                connection.sendall(nonsense)
                connection.shutdown(socket.SHUT_WR)
                assert line.receive() is None, "it has hung up"
        assert ask(["query", "x", "--project", str(root)]) == 0


RIGHT = {"arguments": ["query", "x"], "folder": "/", "out_tty": False, "err_tty": False, "columns": 80}
WRONG = [
    "null", "1", '"query"', "[]", "{}", "true", "[[]]", '{"arguments": null}',
    *(
        json.dumps({**RIGHT, **bad})
        for bad in (
            {"arguments": "query"}, {"arguments": [1]}, {"arguments": [["query"]]}, {"arguments": {}},
            {"folder": None}, {"folder": 3}, {"folder": "a\0b"}, {"out_tty": "yes"}, {"err_tty": None},
            {"columns": "wide"}, {"columns": True}, {"columns": -1}, {"columns": 1e400},
        )
    ),
    "[" * 100_000, "{", "\xff",
]  # fmt: skip


def test_a_request_of_the_wrong_type_is_answered_with_what_is_wrong(root: Path) -> None:
    thrown: list[threading.ExceptHookArgs] = []
    before, threading.excepthook = threading.excepthook, thrown.append
    try:
        with opened(root, lambda request: 0):
            place = socket_of(root / "headwater.yml")
            for wrong in WRONG:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(str(place))
                    connection.settimeout(20)
                    line = Line(connection)
                    line.receive()
                    line.send(Frame.REQUEST, wrong.encode("latin-1"))
                    answers = dict(iter(line.receive, None))
                assert b"not a request" in answers[Frame.ERR], wrong
                assert json.loads(answers[Frame.EXIT]) == {"code": 2}
            assert ask(["query", "x", "--project", str(root)]) == 0
    finally:
        threading.excepthook = before
    assert thrown == []
