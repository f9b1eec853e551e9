"""`headwater check`, `schema` and `init`, as they are run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.commands.standalone.demo import _make_room
from headwater.cli.main import main
from headwater.project.check import check_project
from headwater.project.load.loader import load_project
from headwater.project.runnable import not_runnable
from headwater.project.schema import project_schema
from headwater.project.templates import template_names
from tests.hints.followed import follows
from tests.project.conftest import BASE, Write

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command: its exit code, what it printed, and what it said on the side."""

    def ran(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headwater", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        code: Any = ended.value.code
        return code or 0, out, err

    return ran


def landed(folder: Path, name: str = "landing") -> Path:
    """The project, with a file for its source."""
    (folder / name).mkdir()
    (folder / name / "a.json").write_text("{}\n", encoding="utf-8")
    return folder


def test_check_of_a_right_project(run: Run, write: Write) -> None:
    code, out, err = run("check", "--project", landed(write(BASE + "topics: {t: {from: landing}}\n")))
    assert (code, out) == (0, "")
    assert "the project is fine" in err


def test_check_of_a_wrong_project(run: Run, write: Write) -> None:
    folder = landed(write(BASE + "wharehouse: x\ntopics:\n  t: {from: landin}\n"))
    code, out, err = run("check", "--project", folder)
    assert code == 2
    assert out.splitlines() == [
        "error headwater.yml:3 wharehouse: unknown key 'wharehouse'; did you mean 'warehouse'? [UNKNOWN_KEY]",
        "error headwater.yml:5 topics.t.from: there is no source 'landin'; did you mean 'landing'? [UNKNOWN_REFERENCE]",
    ]
    assert "2 problems" in err


def test_check_for_programs(run: Run, write: Write) -> None:
    folder = write(BASE + "wharehouse: x\ntopics: {t: {from: landing}}\nmonitors: {e: {on: t, freshness: 5m}}\n")
    code, out, _ = run("check", "--project", landed(folder), "--json")
    found = json.loads(out)
    assert code == 2
    assert (found["project"], found["ok"]) == ("shop", False)
    assert found["problems"] == [
        {
            "level": "error",
            "code": "UNKNOWN_KEY",
            "message": "unknown key 'wharehouse'",
            "file": "headwater.yml",
            "line": 3,
            "path": "wharehouse",
            "hint": "did you mean 'warehouse'?",
        }
    ]
    assert [(note["level"], note["code"]) for note in found["notes"]] == [("note", "NOT_RUNNABLE_YET")]


def test_check_tells_problems_from_notes(run: Run, write: Write) -> None:
    code, out, err = run("check", "--project", landed(write(BASE + "server: {port: 80}\nformat: detla\n")))
    assert code == 2
    assert [line.partition(": ")[0] for line in out.splitlines()] == [
        "error headwater.yml:4 format",
        "note headwater.yml:3 server",
    ]
    assert "\x1b" not in out, "colours are for terminals"
    assert "1 problem, 1 note" in err


def test_check_tells_of_columns_by_other_names(run: Run, write: Write) -> None:
    columns = "event_date date, id bigint, ID string, at timestamp, event_timestamp string, _file string, EVENT_ID int"
    text = f"name: shop\nsources: {{l: {{type: files, path: ./l, schema: '{columns}', columns: {{timestamp: at}}}}}}\n"
    code, out, _ = run("check", "--project", landed(write(text + "topics: {t: {from: l}}\n"), "l"))
    assert code == 0
    assert [line.partition("column ")[2].partition(";")[0] for line in out.splitlines()] == [
        "'event_date' is kept as 'payload_event_date': every topic has a column 'event_date' of its own",
        "'ID' is kept as 'payload_ID': another one differs from it only in case",
        "'event_timestamp' is kept as 'payload_event_timestamp': every topic has a column 'event_timestamp' of its own",
        "'_file' is kept as 'payload__file': table formats keep that name for themselves",
    ]
    assert "note headwater.yml:2 sources.l.schema: " in out and "RENAMED_COLUMN" in out


def test_check_of_a_target(run: Run, write: Write) -> None:
    folder = write(BASE + "targets: {prod: {warehouse: 'ftp://x'}}\n")
    assert run("check", "--project", folder)[0] == 0
    code, out, _ = run("check", "--project", folder, "--target", "prod")
    assert code == 2
    assert "ftp://" in out


@follows("go to the project's folder, give --project PATH, or begin one with `headwater init DIR`")
def test_check_without_a_project(run: Run, tmp_path: Path) -> None:
    code, out, err = run("check", "--project", tmp_path)
    assert (code, out) == (2, "")
    assert "PROJECT_NOT_FOUND" in err


def test_schema(run: Run) -> None:
    code, out, _ = run("schema")
    assert code == 0
    assert json.loads(out) == project_schema()


@pytest.mark.parametrize("template", template_names())
def test_init_writes_a_project_that_passes_check(run: Run, tmp_path: Path, template: str) -> None:
    folder = tmp_path / "My Shop"
    code, out, _ = run("init", "--template", template, folder)
    assert code == 0
    assert str(folder / "headwater.yml") in out.splitlines()
    project = load_project(folder, env={})
    assert project.name == "my_shop"
    assert check_project(project) == []


@pytest.mark.parametrize("template", ["shop", "files"])
def test_projects_on_files_run_and_bring_data(run: Run, tmp_path: Path, template: str) -> None:
    run("init", tmp_path / "p", "--template", template)
    project = load_project(tmp_path / "p", env={})
    assert not_runnable(project) == []
    landed = [file.read_text() for file in (tmp_path / "p" / "landing").glob("*.json")]
    rows = [json.loads(line) for text in landed for line in text.splitlines()]
    assert 50 <= len(rows) <= 500


def test_init_is_the_same_every_time(run: Run, tmp_path: Path) -> None:
    for name in ("a/p", "b/p"):
        run("init", tmp_path / name)
    made = [
        {file.name: file.read_bytes() for file in (tmp_path / name).rglob("*") if file.is_file()}
        for name in ("a/p", "b/p")
    ]
    assert made[0] == made[1]


@follows("choose another folder, or remove it")
def test_init_writes_over_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text("name: mine\n")
    code, _, err = run("init", tmp_path)
    assert code == 2
    assert "ALREADY_EXISTS" in err
    assert [file.name for file in tmp_path.iterdir()] == ["headwater.yml"]
    assert run("init", tmp_path / "other")[0] == 0
    (tmp_path / "headwater.yml").unlink()
    assert run("init", tmp_path)[0] == 0


@follows("choose another folder: headwater demo DIR")
def test_a_demo_takes_no_folder_that_holds_something(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = run("demo", tmp_path)
    assert code == 2 and "ALREADY_EXISTS" in err
    _make_room(tmp_path / "another")
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["notes.txt"]


def test_init_into_a_folder_with_other_things(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert run("init", tmp_path)[0] == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_init_where_it_cannot_write(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("init", tmp_path / "file" / "below")
    assert code == 2
    assert "can't be written" in err


def test_init_with_an_unknown_template(run: Run, tmp_path: Path) -> None:
    code, _, err = run("init", tmp_path / "p", "--template", "kafca")
    assert code == 2
    assert "did you mean 'kafka'?" in err


def test_what_is_known_is_listed_once(run: Run, write: Write) -> None:
    folder = write(BASE + "topics: {orders: {from: landing}, clicks: {from: landing}}\n")
    for command in (("pause",), ("resume",), ("rebuild",), ("rebuild", "--yes"), ("reset",), ("reset", "--yes")):
        code, _, err = run("flow", command[0], "nosuch", *command[1:], "--project", folder)
        assert code == 2
        assert "there is no flow 'nosuch'; known: topics.clicks, topics.orders [" in err
    assert "did you mean 'orders'?" in run("flow", "pause", "ordres", "--project", folder)[2]
    columns = "name: x\nsources: {l: {type: files, path: ./l, schema: 'event_id string, a int'}}\n"
    folder = write(columns + "topics: {t: {from: l, deduplicate_by: zzzzz}}\n")
    assert run("check", "--project", folder)[1].count(" event_id,") == 1
