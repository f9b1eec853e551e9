"""Projects that `headwater init` writes, run as their README says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from headwater.operations.scaffold.files import project_files
from headwater.operations.scaffold.sample import Look, SampleColumn
from headwater.operations.scaffold.texts import quoted
from headwater.project.check import check_project
from headwater.project.columns import declared_columns
from headwater.project.load.loader import load_project
from headwater.sources.discovery import Discovered
from headwater.sources.files.config import FilesSource
from headwater.sources.registry import discovered
from tests.hints.followed import follows
from tests.support import Answer, headwater


def commands_of(readme: Path) -> list[list[str]]:
    """The lines of a README's `sh` blocks, in words, without `headwater`."""
    blocks = re.findall(r"^```sh\n(.*?)^```", readme.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def run_readme(root: Path) -> list[Answer]:
    """Each of its commands, which has to work."""
    answers = []
    for words in commands_of(root / "README.md"):
        answers.append(headwater(*words, "--project", root))
        assert answers[-1].code == 0, f"{words}: {answers[-1].err}"
    return answers


PAID = "SELECT count(*) AS n FROM topic('orders') WHERE event_type = 'PaymentProcessed'"
ROWS = {
    "shop": ("mv('revenue_per_day')", PAID),
    "files": ("mv('warmest')", "SELECT count(DISTINCT sensor) AS n FROM topic('readings')"),
}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("template", ROWS)
def test_a_project_of_files_runs_to_its_views_rows(template: str, tmp_path: Path) -> None:
    root = tmp_path / "my shop"
    assert headwater("init", "--template", template, root).code == 0
    run_readme(root)
    view, counted = ROWS[template]
    rows = headwater("query", f"SELECT * FROM {view}", "--output", "json", "--project", root).json
    (expected,) = headwater("query", counted, "--output", "json", "--project", root).json
    found = len(rows) if template == "files" else sum(row["orders"] for row in rows)
    assert found == expected["n"] > 0


def test_what_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    assert headwater("init", tmp_path).code == 0
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine"
    assert (tmp_path / ".gitignore").read_text(encoding="utf-8") == "*.log\n"
    assert headwater("check", "--project", tmp_path).code == 0


@follows("did you mean '{}'?")
def test_a_file_whose_name_is_misspelt(tmp_path: Path) -> None:
    (tmp_path / "rides 2026.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    told = headwater("init", "--from", tmp_path / "ride 2026.csv", tmp_path / "mine")
    assert told.code == 2 and f"did you mean '{tmp_path / 'rides 2026.csv'}'?" in told.err
    assert not (tmp_path / "mine").exists()


SALES = """Sale ID;amount;sold_on;shop;note
1001;19.90;2026-10-31;north;
1002;5.00;2026-10-31;south;a "good" one
1003;7.25;2026-11-01;south;x
1004;120.00;2026-11-02;north;y;too many
"""
"""As a spreadsheet writes it in half of Europe, one row broken."""


@pytest.mark.usefixtures("spark")
@follows(
    "name a file or folder that is there, kafka://broker:9092/topic, or …",
    "put one there, or begin with sample data: headwater init --template files DIR",
)
def test_a_csv_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    missing = headwater("init", "--from", tmp_path / "data" / "sales.csv", tmp_path / "mine")
    assert missing.code == 2 and "nothing is found at" in missing.err
    empty = headwater("init", "--from", tmp_path / "data", tmp_path / "mine")
    assert empty.code == 2 and "there are no files in" in empty.err and not (tmp_path / "mine").exists()
    (tmp_path / "data" / "sales.csv").write_text(SALES, encoding="utf-8")
    made = headwater("init", "--from", tmp_path / "data" / "sales.csv", tmp_path / "mine", "--json")
    assert made.code == 0, made.err
    told = made.json
    assert (told["records"], told["rejected"]) == (4, ["not 5 columns"])
    types = {one["name"]: one["type"] for one in told["columns"]}
    assert types == {
        "Sale ID": "bigint",
        "amount": "double",
        "sold_on": "date",
        "shop": "string",
        "note": "string",
    }
    text = (tmp_path / "mine" / "headwater.yml").read_text(encoding="utf-8")
    assert "path: ../data/sales.csv" in text and "options: {sep: ;}" in text
    assert "`Sale ID` bigint,      -- 1001, 1002, 1003" in text and "amount decimal(12,2),  -- 19.9, 5.0, 7.25" in text
    assert "# 1 of them can't be ingested, and will be dead letters: not 5 columns" in text
    run_readme(tmp_path / "mine")
    query = "SELECT shop, records, total_amount FROM mv('sales_by_shop') ORDER BY shop"
    rows = headwater("query", query, "--output", "json", "--project", tmp_path / "mine").json
    assert rows == [
        {"shop": "north", "records": 1, "total_amount": "19.90"},
        {"shop": "south", "records": 2, "total_amount": "12.25"},
    ]
    assert len(headwater("dlq", "list", "--json", "--project", tmp_path / "mine").json) == 1
    again = headwater("init", "--from", tmp_path / "data" / "sales.csv", tmp_path / "mine")
    assert again.code == 2 and "ALREADY_EXISTS" in again.err


@pytest.mark.usefixtures("spark")
def test_records_without_words_that_repeat_are_counted_by_their_own_day(tmp_path: Path) -> None:
    rows = [
        "Sale ID,Sold At,Paid",
        "1,2026-01-05 08:30:00,true",
        "2,2026-01-05 09:10:00,false",
        "3,2026-01-06 10:00:00,true",
    ]
    (tmp_path / "sales.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    made = headwater("init", "--from", tmp_path / "sales.csv", tmp_path / "mine")
    assert made.code == 0, made.err
    text = (tmp_path / "mine" / "headwater.yml").read_text(encoding="utf-8")
    assert "-- true, false" in text and "`headwater flow rebuild sales --yes`" in text
    run_readme(tmp_path / "mine")
    query = "SELECT day, records FROM mv('sales_by_day') ORDER BY day"
    found = headwater("query", query, "--output", "json", "--project", tmp_path / "mine").json
    assert found == [{"day": "2026-01-05", "records": 2}, {"day": "2026-01-06", "records": 1}]


@pytest.mark.usefixtures("spark")
@follows("try again when the first records are there")
def test_a_folder_of_json_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "lines.json.part").write_text("{", encoding="utf-8")
    early = headwater("init", "--from", tmp_path / "events", tmp_path / "events-lake")
    assert early.code == 2 and "there is nothing to look at yet" in early.err
    rows = [{"id": n, "at": f"2026-11-0{n}T08:00:00Z", "kind": "ab"[n % 2], "of": {"size": n}} for n in range(1, 5)]
    (tmp_path / "events" / "array.json").write_text(json.dumps(rows[:2], indent=1), encoding="utf-8")
    (tmp_path / "events" / "lines.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows[2:]))
    (tmp_path / "events" / "readme.txt").write_text("what this is", encoding="utf-8")
    made = headwater("init", "--from", tmp_path / "events", tmp_path / "events-lake", "--json")
    assert made.code == 0, made.err
    project = load_project(tmp_path / "events-lake", env={})
    source = project.sources["events"]
    assert isinstance(source, FilesSource) and (source.file_format, source.pattern) == ("json", "*.json")
    assert declared_columns(source.schema_hints or "") == ["at", "id", "kind", "of"]
    assert check_project(project) == []
    ran = headwater("run", "--once", "--json", "--project", tmp_path / "events-lake")
    assert ran.code == 0, ran.err
    described = headwater("topic", "describe", "events", "--json", "--project", tmp_path / "events-lake").json
    columns = {one["name"]: one["type"] for one in described["columns"]}
    found = {one["name"]: one["type"] for one in made.json["columns"]}
    assert {**found, "at": "timestamp"} == {name: columns[name] for name in found}


def test_a_folder_in_its_own_project(tmp_path: Path) -> None:
    both = headwater("init", "--from", tmp_path, "--template", "shop", tmp_path / "x")
    assert both.code == 2 and "give --template or --from, not both" in both.err


ODD = [
    "a\nb", "a\r\nb", "\x00", "\x1b[31m", "\u2028", "\x85", "\ufeff", "\ue000", "a\tb", "a # b", "a: b", "'q", '"q"',
    "it's", "`", "--", "a -- b", "{x", "[x", "*x", "&x", "!x", "| x", "> x", "%x", "@x", "- x", "? x", "yes", "null",
    "~", "1", "1.5", "${NOPE}", "$${x}", "${", "$x", "a\\nb", "a\\", "/* x", "*/", "\U0001f600", "x" * 300, " a ",
    "select", "from", "order", "case", "date", "interval", "current_date", "distinct", "", "a.b", "a,b", "a;b", "<x>",
]  # fmt: skip
"""Names that records may have, and texts in them."""


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_project_is_right_whatever_the_records_have_in_them(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "we'ird: # ${x} \"n$ame\n"
    folder.mkdir()
    nested = f"struct<{','.join(f'{quoted(name)}:string' for name in ODD[:4])}>"
    for names in (*([name] for name in ODD), ODD):
        columns = [SampleColumn(name, "string", [name, name, "b"]) for name in names]
        columns += [SampleColumn("of", nested, [{"a": 1}]), SampleColumn("day\nof", "timestamp", [])]
        columns += [
            SampleColumn(f"{names[0]} id", "bigint", [1, 2]),
            SampleColumn("total\r" + names[0], "double", [1.5]),
        ]
        path = str(folder / f"{names[0][:20]}.json".replace("\x00", "").replace("/", ""))
        found = Discovered("odd", {"type": "files", "path": path, "file_format": kind}, {"path": f"of {names[0]}"})
        look = Look(found, columns, 2, [f"not {names[0]}"], has_types=kind == "parquet")
        root = tmp_path / "mine"
        root.mkdir(exist_ok=True)
        for name, text in project_files(look, root, f"/x/{names[0]}").items():
            (root / name).write_text(text, encoding="utf-8", newline="")
        project = load_project(root, env={})
        source = project.sources["odd"]
        assert check_project(project) == [], names
        assert isinstance(source, FilesSource)
        assert str((root / source.path).resolve()) == str(Path(path).resolve())
        if kind == "json":
            assert declared_columns(source.schema_hints or "") == [one.name for one in columns if one.name], names


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('id,note\n1,"two\nlines"\n2,one\n', {"multiLine": True}),
        ('id;"the\r\nnote"\r\n1;a\r\n', {"sep": ";", "multiLine": True}),
        ('id,note\n1,"two\nlines"\n2,"cut', {"multiLine": True}),
        ('id,note\n1,"one line"\n', {}),
        ('id,note\n1,"a quote\n2,that is,not closed\n3,"x\n', {}),
        ('id,note\n1,a "good" one\n2,b\n', {}),
        ("id,note\n" + '1,"two\nlines"\n' * 9000, {"multiLine": True}),
    ],
)
def test_line_feeds_inside_of_quotes_are_found(tmp_path: Path, text: str, options: dict[str, object]) -> None:
    (tmp_path / "notes.csv").write_text(text, encoding="utf-8", newline="")
    found = discovered(str(tmp_path / "notes.csv"))
    assert found.keys.get("options", {}) == options
