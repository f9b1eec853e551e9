"""What the parser of arguments refuses, and a reader who has had enough."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headwater import HeadwaterError, Lake
from tests.hints.followed import follows
from tests.support import headwater

PROJECT = "name: x\nsources: {l: {type: files, path: ./l}}\ntopics: {log: {from: l}}\n"


@follows("`headwater --help` lists the commands; each has a `--help` of its own")
@pytest.mark.parametrize(
    ("arguments", "told", "command"),
    [
        ("nope", "nope", "headwater"),
        ("topic nope", "nope", "headwater topic"),
        ("query", "Missing argument", "headwater query"),
        ("query --limit -1 x", "--limit", "headwater query"),
        ("topic diff log", "Missing argument", "headwater topic diff"),
        ("status --nope", "--nope", "headwater status"),
    ],
)
def test_wrong_use_is_an_object_for_programs(arguments: str, told: str, command: str) -> None:
    answer = headwater(*arguments.split(), "--json")
    (error,) = json.loads(answer.err)["errors"]
    assert answer.code == 2 and error["code"] == "USAGE" and told in error["message"]
    listed = headwater("--help")
    assert listed.code == 0 and all(word in listed.out for word in command.split()[1:2])
    assert headwater(*command.split()[1:], "--help").code == 0
    assert "Usage: " in headwater(*arguments.split()).err


@pytest.mark.parametrize("arguments", [["formats"], ["formats", "--json"], ["schema"], ["--help"], ["check", "--help"]])
def test_a_reader_who_has_had_enough_is_no_failure(arguments: list[str]) -> None:
    program = "from headwater.cli.main import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        told = running.stderr.read().decode()
    assert (running.returncode, told) == (0, "")


def test_python_is_told_what_it_gave(tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text(PROJECT, encoding="utf-8")
    for wrong in (5, None, b"x"):
        with pytest.raises(HeadwaterError, match="is a text, not"):
            Lake.open(wrong)  # type: ignore[arg-type]
        with pytest.raises(HeadwaterError, match="is a text, not"):
            Lake.look(wrong)  # type: ignore[arg-type]
    with Lake.open(tmp_path) as lake:
        for ask in (lake.topic, lake.table, lake.view, lake.relation, lake.sql):
            for wrong in (5, None, ["log"]):
                with pytest.raises(HeadwaterError, match="is a text, not"):
                    ask(wrong)  # type: ignore[operator]
