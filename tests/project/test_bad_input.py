"""Mistakes in a project file: each found, with its place, its code and a hint, and all of them at once."""

from __future__ import annotations

import pytest

from headwater.core.errors import Code, ProjectError, UsageError
from headwater.project.load.files import find_project
from headwater.project.load.loader import load_project
from tests.project.conftest import BASE, Find, Write, places


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("warehose: x\n", "headwater.yml:3 warehose", "warehouse"),
        ("spark: {mster: x}\n", "headwater.yml:3 spark.mster", "master"),
        ("storage:\n  s3:\n    endpont: x\n", "headwater.yml:5 storage.s3.endpont", "endpoint"),
        ("topics: {t: {from: landing, partion_by: a}}\n", "headwater.yml:3 topics.t.partion_by", "partition_by"),
        (
            "topics:\n  t:\n    from: landing\n    parquet:\n      compresion: zstd\n",
            "headwater.yml:7 topics.t.parquet.compresion",
            "compression",
        ),
        (
            "topics: {t: {from: landing, schema: {mismtch: fail}}}\n",
            "headwater.yml:3 topics.t.schema.mismtch",
            "mismatch",
        ),
        (
            "tables:\n  t:\n    sql: select 1 as x\n    expect:\n      a: {check: x > 0, on_violaton: warn}\n",
            "headwater.yml:7 tables.t.expect.a.on_violaton",
            "on_violation",
        ),
        ("catalogs: {lake: {type: rest, url: x}}\n", "headwater.yml:3 catalogs.lake.url", "uri"),
        ("alerts: {ops: {web_hook: x}}\n", "headwater.yml:3 alerts.ops.web_hook", "webhook"),
    ],
)
def test_a_misspelt_key_at_any_depth(find: Find, text: str, place: str, hint: str) -> None:
    problems = find(BASE + text)
    assert places(problems) == [("UNKNOWN_KEY", place)]
    assert problems[0].hint == f"did you mean '{hint}'?"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("batch_size: lots", "should be a whole number, not 'lots'"),
        ("batch_size: 1.5", "should be a whole number, not '1.5'"),
        ("batch_size: 0", "should be more than 0, not '0'"),
        ("batch_size: true", "should be a number"),
        ("flush_interval: 30", "a number and a unit"),
        ("flush_interval: soon", "'soon' is not a duration"),
        ("flush_interval: 0s", "longer than nothing"),
        ("target_file_size: big", "'big' is not a size"),
        ("target_file_size: 0", "larger than nothing"),
        ("keep_raw: maybe", "should be true or false, not 'maybe'"),
        ("delivery: exactly_onze", "did you mean 'exactly_once'?"),
        ("partition_by: {a: b}", "should be a list"),
        ("partition_by: [a, a]", "'a' is named twice"),
        ("include_events: [1]", "put it in quotes"),
        ("description: 5", "put it in quotes"),
        ("parquet: [zstd]", "should be a mapping"),
        ("parquet: {compression: zst}", "did you mean 'zstd'?"),
        ("options: {a: {b: c}}", "should be text"),
        ("trigger: sometimes", "should be continuous, once, or how often: 5m"),
        ("deduplicate_within: 7d", "`deduplicate_within` needs `deduplicate_by`"),
        ("include_events: [A], exclude_events: [A]", "event 'A' is both included and excluded"),
        ("filter: 'a = = b'", "near"),
        ("format: detla", "unknown format 'detla'; did you mean 'delta'?"),
    ],
)
def test_a_wrong_value(find: Find, entry: str, says: str) -> None:
    problems = find(
        BASE + f"topics:\n  t:\n    from: landing\n    {entry.replace(', exclude', chr(10) + '    exclude')}\n"
    )
    assert len(problems) == 1
    assert says in str(problems[0])
    assert str(problems[0].where).startswith("headwater.yml:")


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("name: x\n\ttopics: y\n", Code.INVALID_YAML, "indent with spaces"),
        ("name: [x\n", Code.INVALID_YAML, "headwater.yml:2"),
        ("name: {a: ${B}}\n", Code.INVALID_YAML, "headwater.yml:1"),
        ("name: x\n---\nname: y\n", Code.INVALID_YAML, "another document"),
        ("name: !!python/name:os.system x\n", Code.INVALID_YAML, "tags"),
        ("name: x\ntopics: &a {b: *a}\n", Code.INVALID_YAML, "an anchor holds itself"),
        ("name: x\n? [a]\n: b\n", Code.INVALID_YAML, "a key should be a word"),
        ("name: x\x07\n", Code.INVALID_YAML, "headwater.yml:1"),
        ("- a\n", Code.INVALID_VALUE, "should be a mapping"),
        ("just words\n", Code.INVALID_VALUE, "should be a mapping"),
        ("", Code.MISSING_KEY, "'name' must be given"),
        ("name: x\ntopics: [a]\n", Code.INVALID_VALUE, "headwater.yml:2 topics: should be a mapping"),
        ("name: x\ntopics: {t: 5}\n", Code.INVALID_VALUE, "headwater.yml:2 topics.t: should be a mapping"),
        ("name: x\ntopics: {t: }\n", Code.MISSING_KEY, "'from' must be given"),
        ("name: x\nsources: {s: {path: y}}\n", Code.MISSING_KEY, "'type' must be given; one of append, datagen, files"),
        ("name: x\nsources: {s: {type: fles}}\n", Code.UNKNOWN_SOURCE_TYPE, "did you mean 'files'?"),
        ("name: x\ncatalogs: {s: {type: rst}}\n", Code.UNKNOWN_CATALOG_TYPE, "did you mean 'rest'?"),
        ("name: x\nwarehouse: ftp://a/b\n", Code.INVALID_VALUE, "a warehouse can't be at ftp://"),
        ("name: x\nstate: mysql://h\n", Code.INVALID_VALUE, "should be sqlite or postgresql://…"),
        ("name: x\nserver: {port: 70000}\n", Code.INVALID_VALUE, "should be at most 65535"),
    ],
)
def test_a_file_that_is_not_a_project(find: Find, text: str, code: Code, says: str) -> None:
    problems = find(text)
    assert problems[0].code is code
    assert says in str(problems[0])


def test_anchors_that_stand_for_billions_are_refused_quickly(find: Find) -> None:
    lines = ["name: x", "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert find("\n".join(lines))[0].code is Code.INVALID_YAML


def test_a_file_that_is_not_utf8(write: Write) -> None:
    folder = write("name: x\n")
    (folder / "headwater.yml").write_bytes(b"name: x\ndescription: \xff\xfe\n")
    with pytest.raises(ProjectError, match="headwater.yml:2: the file is not UTF-8"):
        load_project(folder)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("Orders", "orders"),
        ("order-items", "order_items"),
        ("1st", "n_1st"),
        ("a b", "a_b"),
        ("é", "e"),
        ("''", "name"),
        ('"x\'; DROP TABLE"', "x_drop_table"),
        ("../../etc", "etc"),
        ("_hidden", "hidden"),
        ("OrderPlaced", "order_placed"),
        ("日本", "name"),
        ("a" * 101, "a" * 100),
    ],
)
def test_names_with_odd_characters(find: Find, name: str, better: str) -> None:
    problems = find(BASE + f"topics: {{{name}: {{from: landing}}}}\n")
    assert [problem.code for problem in problems] == [Code.INVALID_NAME]
    assert problems[0].hint == f"'{better}' would do"


def test_the_same_name_twice(find: Find) -> None:
    problems = find(BASE + "topics:\n  t: {from: landing}\n  t: {from: landing}\nname: again\n")
    assert places(problems) == [
        ("DUPLICATE_NAME", "headwater.yml:5 topics"),
        ("DUPLICATE_NAME", "headwater.yml:6"),
    ]
    assert problems[0].hint == "first on line 4"


def test_everything_is_reported_at_once(find: Find) -> None:
    problems = find(
        """\
name: Shop
warehouse: ${LAKE}
spark: {mster: x}
sources:
  landing: {type: fles, path: x}
  clicks: {type: kafka, brokers: x}
topics:
  orders: {from: lnding, batch_size: no}
  clicks: {from: clicks, format: icberg}
tables:
  a: {sql: "select * from table('b')"}
  b: {sql: "select * from table('a')"}
code: shop.py
""",
        files={"shop.py": "raise ValueError('boom')\n"},
    )
    assert places(problems) == [
        ("INVALID_NAME", "headwater.yml:1 name"),
        ("MISSING_VARIABLE", "headwater.yml:2 warehouse"),
        ("UNKNOWN_KEY", "headwater.yml:3 spark.mster"),
        ("UNKNOWN_SOURCE_TYPE", "headwater.yml:5 sources.landing.type"),
        ("INVALID_VALUE", "headwater.yml:6 sources.clicks"),
        ("INVALID_VALUE", "headwater.yml:8 topics.orders.batch_size"),
        ("UNKNOWN_REFERENCE", "headwater.yml:8 topics.orders.from"),
        ("UNKNOWN_FORMAT", "headwater.yml:9 topics.clicks.format"),
        ("CYCLE", "headwater.yml:11 tables.a"),
        ("CODE_FAILED", "shop.py:1"),
    ]


def test_what_names_a_wrong_definition_is_not_wrong_too(find: Find) -> None:
    problems = find(
        "name: x\nsources: {s: {type: files}}\ntopics: {t: {from: s}}\nviews: {v: {sql: select * from t}}\n"
    )
    assert places(problems) == [("MISSING_KEY", "headwater.yml:2 sources.s.path")]


def test_loading_a_wrong_project_raises_all_of_it(write: Write) -> None:
    folder = write(BASE + "frmat: x\ntopics: {t: {frm: landing}}\n")
    with pytest.raises(ProjectError) as caught:
        load_project(folder)
    assert caught.value.exit_code == 2
    assert len(caught.value.problems) == 2
    assert "frmat" in str(caught.value)
    assert "frm'" in str(caught.value)


def test_no_project_here(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as caught:
        find_project(tmp_path)
    assert caught.value.code is Code.PROJECT_NOT_FOUND
    with pytest.raises(UsageError):
        find_project(tmp_path / "nowhere")


def test_the_project_is_found_from_a_folder_below(write: Write) -> None:
    folder = write(BASE)
    below = folder / "a" / "b"
    below.mkdir(parents=True)
    assert find_project(below) == folder.resolve() / "headwater.yml"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("views: {v: {sql: SELECT id, id AS b FROM topic('t')}}", "id AS b FROM topic('t')"),
        ("views:\n  v:\n    sql: SELECT 1 AS a\n    descripton:", "descripton"),
        ("views: {v: {sql: SELECT 1 AS a, refresh: {mode: manual, evry: null}}}", "evry"),
        ("tables: {t: {sql: SELECT 1 AS a, expect: {e: {check: a > 1, on_violaton: }}}}", "on_violaton"),
    ],
)
def test_an_unknown_key_without_a_value_is_told(find: Find, text: str, key: str) -> None:
    """It may be the rest of a text that has a comma in it."""
    found = [(str(problem.code), problem.message) for problem in find(BASE + text + "\n")]
    assert ("UNKNOWN_KEY", f"unknown key '{key}'") in found, found


@pytest.mark.parametrize(
    ("key", "wrong", "right"),
    [
        ("include_events", "Placed, Shipped", "[Placed, Shipped]"),
        ("exclude_events", "Placed,Shipped", "['Placed,Shipped']"),
        ("partition_by", "event_date, tenant_id", "'bucket(8, tenant_id)'"),
        ("z_order_by", "a, b", "'`a, b`'"),
    ],
)
def test_several_names_in_a_text_are_no_name(find: Find, key: str, wrong: str, right: str) -> None:
    """Else no event would be of that type, and all of them would be left out without a word."""
    topic = f"{BASE}topics:\n  t:\n    from: landing\n    format: iceberg\n    {key}: "
    (problem,) = find(f"{topic}{wrong}\n")
    assert (str(problem.code), str(problem.where)) == ("INVALID_VALUE", f"headwater.yml:7 topics.t.{key}")
    assert f"several are a list: [{wrong}]" in problem.message
    assert find(f"{topic}{right}\n") == []
