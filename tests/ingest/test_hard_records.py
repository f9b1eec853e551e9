"""Records that are hard to keep: too large, with keys without a name, with halves of characters, with too many keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.api.lake import Lake
from headwater.ingest import topic
from headwater.ingest.pipeline import Pipeline
from headwater.sources.decoders.json import LONGEST_TEXT
from tests.ingest.test_ingest import Desk

pytestmark = pytest.mark.usefixtures("spark")


def test_what_would_be_lost_or_changed_is_a_dead_letter(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": ""})
    large = '"' + "x" * (LONGEST_TEXT + 1) + '"'
    good = [
        '{"n": 1, "t": "\\ud83d\\ude00 \\uD83D\\uDE00"}',
        '{"n": 2, "t": "a literal \\\\ud800"}',
        '{"n": 3, "t": "", "a\\"": ""}',
        '{"n": 4, "t": "\\"\\": 5 and \\"x\\" :"}',
        '{"n": 5, "": null, "t": "nothing is lost"}',
    ]
    bad = {
        '{"n": 10, "": "gone"}': "a key is empty",
        '{"n": 11, "" \t: {"x": 1}}': "a key is empty",
        '{"n": 12, "in": {"": 5, "x": 1}}': "a key is empty",
        '{"n": 13, "list": [{"":5}]}': "a key is empty",
        '{"n": 14, "t": "half \\ud800"}': "lone surrogate",
        '{"n": 15, "t": "\\udc00 half"}': "lone surrogate",
        '{"n": 16, "t": "\\ude00\\ud83d"}': "lone surrogate",
        '{"n": 17, "k\\uDBFF": 1}': "lone surrogate",
        f'{{"n": 18, "t": {large}}}': "20,000,000 characters",
        f'{{"n": 19, "t": {large}': "not one JSON object",
    }
    desk.land("1.json", *good, *bad)
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (4, 11)
    assert desk.rows("kept", "n, t") == [(1, "😀 😀"), (2, "a literal \\ud800"), (3, ""), (4, '"": 5 and "x" :')]
    dead_letters = desk("dlq", "list", "--json").json
    said = sorted((letter["position"], letter["reason"], letter["message"]) for letter in dead_letters)
    expected = ["a key is empty", *bad.values()]
    assert [part in message for part, (_, _, message) in zip(expected, said, strict=True)] == [True] * 11, said
    reasons = [reason for _, reason, _ in said]
    assert reasons == ["decode"] * 9 + ["too_large", "decode"]
    assert f"{len(large) + 16:,} bytes" in said[9][2]

    # The same where nothing odd was there before, and in a step that Spark commits.
    desk.land("2.json", *good[:4])
    assert desk.run()["kept"]["rows"] == 4
    desk.land("3.json", '{"n": 20, "t": "\\ud800"}')
    desk.land("4.json", '{"n": 21, "": 1}')
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (0, 2)


@pytest.mark.parametrize("native_rows", [topic.NATIVE_ROWS, 0])
def test_one_record_with_thousands_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_rows: int) -> None:
    monkeypatch.setattr(topic, "NATIVE_ROWS", native_rows)
    desk = Desk(tmp_path, {"kept": ""})
    wide = {f"a{n}": n for n in range(3000)}
    desk.land("1.json", {"n": 1}, {"n": 2, **wide}, {"n": 3, "zeta": "x"}, {"n": 4, "in": wide}, deep(4, 300))
    flow = desk.run()["kept"]
    assert flow["error"] is None and (flow["rows"], flow["rejected"]) == (2, 3)
    assert desk.rows("kept", "n, zeta") == [(1, None), (3, "x")]
    dead_letters = desk("dlq", "list", "--json").json
    reasons = [letter["reason"] for letter in sorted(dead_letters, key=lambda letter: letter["position"])]
    assert reasons[:2] == ["too_many_columns"] * 2 and reasons[2] in ("too_many_columns", "failed")
    said = [letter["message"] for letter in dead_letters if letter["reason"] == "too_many_columns"]
    assert all("at most 1,000 (`schema.max_columns`)" in message for message in said)
    # Later ones too, and what is new in others is ingested.
    desk.land("2.json", {"n": 5, "new": 1}, {"n": 6, **wide}, {"n": 7, "new": 2})
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (2, 1)
    assert desk.rows("kept", "n, new", "n")[2:] == [(5, 1), (7, 2)]


def test_the_bound_of_columns(tmp_path: Path) -> None:
    policies = {"added": "", "rescued": "new_column: rescue, ", "ignored": "new_column: ignore, "}
    desk = Desk(tmp_path, {name: f"schema: {{{policy}max_columns: 5}}" for name, policy in policies.items()})
    desk.land("1.json", {"n": 1, "s": {"a": 1, "b": 2}, "t": "x"})
    assert {name: flow["rows"] for name, flow in desk.run().items()} == dict.fromkeys(policies, 1)
    spaced = '{"n" : 3, "s" : {"a" : 1}, "u" : null, "none": null}'
    desk.land("2.json", {"n": 2, "u": 1}, spaced, {"n": 4, "v": 1, "u": 2}, {"n": 5, "s": {"c": 3}}, {"n": 6})
    flows = desk.run()
    assert {name: (flow["rows"], flow["rejected"]) for name, flow in flows.items()} == {
        "added": (3, 2),
        "rescued": (3, 2),
        "ignored": (5, 0),
    }
    file = desk.root / "headwater.yml"
    file.write_text(file.read_text().replace("max_columns: 5", "max_columns: 9"))
    assert desk("dlq", "replay", "added", "--json").code == 0
    assert [row[0] for row in desk.rows("added", "n", "n")] == [1, 2, 3, 4, 5, 6]
    assert desk("dlq", "list", "--topic", "added", "--json").json == []


def test_files_with_types_and_too_many_columns(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": "schema: {max_columns: 4}"}, source=", file_format: parquet")
    landing = tmp_path / "landing"
    pq.write_table(pa.table({"n": [1, 2]}), landing / "1.parquet")
    assert desk.run()["kept"]["rows"] == 2
    pq.write_table(pa.table({"n": [3], **{f"c{n}": [n] for n in range(9)}}), landing / "2.parquet")
    pq.write_table(pa.table({"n": [4]}), landing / "3.parquet")
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (1, 1)
    assert [row[0] for row in desk.rows("kept", "n")] == [1, 2, 4]


@pytest.mark.parametrize("native_rows", [topic.NATIVE_ROWS, 0])
def test_a_record_that_spark_fails_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_rows: int) -> None:
    """An expression that overflows the stack or raises for one value: here by a filter that is no user's function."""
    monkeypatch.setattr(topic, "NATIVE_ROWS", native_rows)
    monkeypatch.setattr(Pipeline, "calls_functions", False)
    desk = Desk(tmp_path, {"kept": 'filter: "assert_true(n <> 3) IS NULL"'})
    desk.land("1.json", *({"n": n} for n in range(1, 6)))
    flow = desk.run()["kept"]
    assert flow["error"] is None and (flow["rows"], flow["rejected"]) == (4, 1)
    (letter,) = desk("dlq", "list", "--json").json
    assert letter["reason"] == "failed" and "Spark can't process it" in letter["message"]


@pytest.mark.parametrize("native_rows", [topic.NATIVE_ROWS, 0])
def test_a_key_that_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native_rows: int) -> None:
    monkeypatch.setattr(topic, "NATIVE_ROWS", native_rows)
    desk = Desk(
        tmp_path, {"kept": "", "ignoring": "schema: {new_column: ignore}"}, ', schema_hints: "m map<string,int>"'
    )
    bad = ['{"n": 2, "k": "b", "k": "c"}', '{"n": 3, "s": {"x": 1, "x": 2}}', '{"n": 4, "m": {"x": 1, "x": 2}}']
    desk.land("1.json", '{"n": 1, "k": "a"}', *bad, "null", "[1]", '{"n": 5, "s": {"x": 1}}')
    flows = desk.run()
    assert {name: (flow["error"], flow["rows"], flow["rejected"]) for name, flow in flows.items()} == {
        "kept": (None, 2, 5),
        "ignoring": (None, 2, 5),
    }
    assert desk.rows("kept", "n, k, s.x") == [(1, "a", None), (5, None, 1)]
    desk.land("2.json", '{"n": 6, "k": "d"}', '{"n": 7, "k": "e", "n": 8}', '{"n": 9, "new": 1, "new": 2}')
    assert desk.run()["kept"]["rejected"] == 2
    dead_letters = desk("dlq", "list", "--topic", "kept", "--json").json
    said = [letter["message"] for letter in sorted(dead_letters, key=lambda letter: letter["position"])]
    expected = [f"an object has a key more than once: {key}" for key in "kxxn"]
    expected[3:3] = ["null, not a JSON object", "an array, not one JSON object"]
    assert said == [*expected, "an object has a key more than once: new"]
    with Lake.open(desk.root) as lake:
        assert "new" not in lake.topic("kept").df().columns


def test_neighbours_of_a_record_that_is_too_deep(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": ""})
    good = [
        '{"n": 1, "v1": {}}',
        '{"n": 2, "v2": []}',
        '{"n": 3, "v3": [{"a": null}, {}]}',
        '{"n": 4, "v4": {"a": {}}}',
    ]
    bad = ['{"n": 5, "v5": 1e999}', '{"n": 6, "v6": NaN}']
    desk.land("1.json", *good, *bad, deep(7, 60), '{"n": 8, "v8": "[]"}')
    flow = desk.run()["kept"]
    assert (flow["error"], flow["rows"], flow["rejected"]) == (None, 5, 3)
    assert desk.rows("kept", "n, v8") == [(1, None), (2, None), (3, None), (4, None), (8, "[]")]
    dead_letters = desk("dlq", "list", "--json").json
    reasons = [letter["reason"] for letter in sorted(dead_letters, key=lambda letter: letter["position"])]
    assert reasons == ["schema", "schema", "too_many_columns"]


def test_keys_that_differ_in_case_alone(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"kept": ""})
    desk.land("1.json", '{"n": 1, "foo": 1, "FOO": 2, "Foo": 3, "fOO": 4, "s": {"a": 5, "A": 6}}')
    assert desk.run()["kept"]["rows"] == 1
    with Lake.open(desk.root) as lake:
        columns = lake.topic("kept").df().columns
    twins = [name for name in columns if name.lower().removeprefix("payload_").startswith("foo")]
    assert twins == ["FOO", "payload_Foo", "payload_fOO_2", "payload_foo_3"]


def deep(n: int, levels: int) -> str:
    return f'{{"n": {n}, "deep": ' + '{"d": ' * levels + "1" + "}" * levels + "}"


@pytest.mark.parametrize("policy", ["mismatch: discard_value", "new_column: rescue"])
def test_a_row_without_the_value_that_does_not_fit_goes_by_the_filter(tmp_path: Path, policy: str) -> None:
    """It was let in whatever the filter said. What the filter can't tell for want of the value stays."""
    records = [
        '{"n": 1, "city": "X", "amount": 1}',
        '{"n": 2, "city": "X", "amount": "bad"}',
        '{"n": 3, "city": "A", "amount": "bad"}',
        '{"n": 4, "city": "A", "amount": 4}',
        '{"n": 5, "city": "A", "amount": 0}',
    ]
    schema = f"schema: {{{policy}}}"
    topics = {"kept": f"filter: \"city <> 'X' AND amount > 1\", {schema}"}
    desk = Desk(tmp_path, topics, source=', schema_hints: "amount bigint"')
    desk.land("1.json", *records)
    desk.run()
    assert desk.rows("kept", "n, amount") == [(3, None), (4, 4)]
