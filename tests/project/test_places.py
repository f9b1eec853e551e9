"""Nothing is kept in, around or in the place of something else, and no source reads the lake that it fills."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Code
from headwater.project.check import all_problems
from headwater.project.load.loader import examine
from tests.hints.followed import follows
from tests.project.conftest import BASE, Find, places

DUPLICATE, INVALID = Code.DUPLICATE_NAME, Code.INVALID_VALUE
FROM = "from: landing"

SAME = [
    ("a: {{{f}, path: ./lake/topics/b}}\n  b: {{{f}}}", DUPLICATE, "topics.a.path", "topics.b is kept"),
    ("b: {{{f}}}\n  c: {{{f}, path: lake/x/../topics/b/}}", DUPLICATE, "topics.c.path", "topics.b is kept"),
    ("a: {{{f}, path: ./x}}\n  b: {{{f}, path: x/}}", DUPLICATE, "topics.b.path", "topics.a is kept"),
    ("a: {{{f}, path: ./x}}\n  b: {{{f}, path: ./x/y}}", DUPLICATE, "topics.b.path", "lies in the folder of topics.a"),
    ("a: {{{f}, path: ./x/y/z}}\n  b: {{{f}, path: ./x}}", DUPLICATE, "topics.a.path", "in the folder of topics.b"),
    ("a: {{{f}, path: ./lake/topics}}\n  b: {{{f}}}", DUPLICATE, "topics.a.path", "holds the folder of topics.b"),
    ("a: {{{f}, path: ./lake/topics/b/c}}\n  b: {{{f}}}", DUPLICATE, "topics.a.path", "in the folder of topics.b"),
]


@pytest.mark.parametrize("format", ["delta", "iceberg", "hudi", "parquet"])
@pytest.mark.parametrize(("topics", "code", "path", "told"), SAME)
@follows(
    "give one of them another `{}`; the other is at {}",
    "give it a folder of its own, outside of the other, which is at {}",
    here=False,
)
def test_two_in_one_folder(find: Find, format: str, topics: str, code: Code, path: str, told: str) -> None:
    text = f"{BASE}format: {format}\ntopics:\n  " + topics.format(f=FROM) + "\n"
    problems = find(text)
    assert [(problem.code, str(problem.where).split()[1]) for problem in problems] == [(code, path)], problems
    assert told in problems[0].message and "headwater.yml:" in str(problems[0].hint)
    one = problems[0].where
    assert one is not None and one.line is not None
    lines = text.splitlines()
    lines[one.line - 1] = f"  {path.split('.')[1]}: {{{FROM}, path: ./elsewhere}}"
    assert find("\n".join(lines)) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("topics: {a: {from: landing, table: lake.topics.b}, b: {from: landing}}", "topics.a.table"),
        ("topics: {a: {from: landing, table: lake.tables.d}}\ntables: {d: {keys: [id]}}", "topics.a.table"),
        ("topics: {a: {from: landing, table: lake.x.y}}\ntables: {d: {keys: [id], table: lake.x.y}}", "tables.d.table"),
    ],
)
def test_two_of_one_name_in_a_catalog(find: Find, text: str, where: str) -> None:
    lake = "format: iceberg\ncatalogs: {lake: {type: jdbc}}\n"
    problems = find(BASE + lake + text + "\n")
    assert [(p.code, str(p.where).split()[1]) for p in problems] == [(DUPLICATE, where)]
    assert "another `table`" in str(problems[0].hint)
    assert find(BASE + lake + text.replace("lake.x.y}}\nta", "lake.x.z}}\nta").replace("lake.t", "lake.x") + "\n") == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".", "holds the project"),
        ("..", "holds the project"),
        ("./lake", "holds the whole lake"),
        ("./lake/_headwater", "its own records"),
        ("./lake/_headwater/x", "its own records"),
        ("./.headwater", "its own records"),
        (".headwater/x", "its own records"),
    ],
)
@follows("leave `path` out, or give it a folder of its own", here=False)
def test_what_is_no_place_for_a_table(find: Find, path: str, why: str) -> None:
    def of(path: str) -> str:
        return f"name: x\nsources: {{up: {{type: append}}}}\ntopics: {{a: {{from: up{path}}}}}\n"

    problems = find(of(f", path: {path}"))
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 topics.a.path")]
    assert why in problems[0].message and problems[0].hint == "leave `path` out, or give it a folder of its own"
    assert find(of("")) == find(of(", path: ./own")) == find(of(", path: ./lake/gold/a")) == []


@pytest.mark.parametrize("path", ["./landing", "landing/x", "./landing/x/y"])
def test_a_table_in_the_folder_of_a_source(find: Find, path: str) -> None:
    problems = find(BASE + f"topics: {{a: {{from: landing, path: {path}}}}}\n")
    assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 topics.a.path")]
    assert "sources.landing" in problems[0].message and "headwater.yml:2 sources.landing.path" in str(problems[0].hint)
    assert find(BASE + "topics: {a: {from: landing, path: ./landing_too}}\n") == []
    assert find(BASE + "topics: {a: {from: landing, path: ./landing/_kept}}\n") == []


READS = "let `path` be a folder that only its files land in, next to the lake; a table is read by `type: table`"


@pytest.mark.parametrize("after", ["keep", "delete", "archive"])
@pytest.mark.parametrize(
    ("warehouse", "path", "what"),
    [
        ("./lake", "./lake/topics", "the lake"),
        ("./lake", "./lake", "the lake"),
        ("./lake", "./lake/topics/*.parquet", "the lake"),
        ("./lake", "./**/*.json", "the lake"),
        ("./lake", "./l*/**", "the lake"),
        ("./landing/lake", "./landing", "the lake"),
        (".", ".", "the lake"),
        ("./lake", ".", "the lake"),
        ("./lake", "./*.yml", "the project"),
        ("s3://b/lake", ".", "the project"),
        ("s3://b/lake", "s3a://b", "the lake"),
    ],
)
@follows(
    "let `path` be a folder that only its files land in, next to the lake; a table is read by `type: table`", here=False
)
def test_a_source_that_reads_the_lake_or_the_project(
    find: Find, warehouse: str, path: str, what: str, after: str
) -> None:
    more = {"archive": ", archive_to: '../done'"}.get(after, "")
    text = f"name: x\nwarehouse: {warehouse}\nsources: {{l: {{type: files, path: '{path}', after: {after}{more}}}}}\n"
    problems = find(text)
    assert [(p.code, str(p.where)) for p in problems] == [(INVALID, "headwater.yml:3 sources.l.path")]
    assert f"reads {what} itself" in problems[0].message and problems[0].hint == READS
    assert (after in problems[0].message) is (after != "keep")
    moved = text.replace(f"'{path}'", "./next").replace("warehouse: .\n", "warehouse: ./lake\n")
    assert find(moved) == []


@pytest.mark.parametrize(
    ("warehouse", "source"),
    [
        ("./lake", "path: ./lake_files"),
        ("./landing/_lake", "path: ./landing"),
        ("./landing/lake", "path: ./landing, recursive: false"),
        ("./lake", "path: './land*/*.json'"),
        ("./lake", "path: ., recursive: false, pattern: '*.csv'"),
        ("./lake", "path: ./one.json"),
        ("s3://b/lake", "path: s3://b/landing"),
    ],
)
def test_a_source_next_to_the_lake(find: Find, warehouse: str, source: str) -> None:
    assert find(f"name: x\nwarehouse: {warehouse}\nsources: {{l: {{type: files, {source}}}}}\n") == []


def test_links_do_not_hide_a_place(tmp_path: Path) -> None:
    text = "name: x\nsources: {l: {type: files, path: ./*.yml}, up: {type: append}}\ntopics: {a: {from: up, path: .}}\n"
    (tmp_path / "real").mkdir()
    (tmp_path / "real/headwater.yml").write_text(text, encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    problems = all_problems(examine(tmp_path / "link", None, {}))
    assert places(problems) == [
        ("INVALID_VALUE", "headwater.yml:2 sources.l.path"),
        ("INVALID_VALUE", "headwater.yml:3 topics.a.path"),
    ]


def test_a_table_of_the_lake_is_read_as_a_table(find: Find) -> None:
    text = "name: x\nsources: {l: {type: table, format: delta, path: ./lake/topics/a}}\ntopics: {b: {from: l}}\n"
    assert find(text) == []


@follows("name a folder next to it, or one whose name begins with `_`", here=False)
def test_an_archive_lies_outside_of_what_is_ingested(find: Find, tmp_path: Path) -> None:
    text = "name: x\nsources:\n  l: {type: files, path: ./landing, after: archive, archive_to: ./ARCHIVE}\n"
    for archive in ("landing/done", "landing", "lake/topics/x"):
        problems = find(text.replace("ARCHIVE", archive))
        assert places(problems) == [("INVALID_VALUE", "headwater.yml:3 sources.l.archive_to")], archive
        assert problems[0].hint == "name a folder next to it, or one whose name begins with `_`"
    for archive in ("done", "landing/_done"):
        assert find(text.replace("ARCHIVE", archive)) == []
