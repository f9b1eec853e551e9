"""Records that are hard to keep: too large, with keys without a name, with halves of characters, with too many keys."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.ingest import topic
from headwater.ingest.pipeline import Pipeline
from headwater.sources.decoders.json import LONGEST_TEXT
from tests.ingest.test_taking_in import Desk

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
    letters = desk("dlq", "list", "--json").json
    said = sorted((letter["position"], letter["reason"], letter["message"]) for letter in letters)
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


@pytest.mark.parametrize("light_rows", [topic.LIGHT_ROWS, 0])
def test_one_record_with_thousands_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, light_rows: int) -> None:
    monkeypatch.setattr(topic, "LIGHT_ROWS", light_rows)
    desk = Desk(tmp_path, {"kept": ""})
    wide = {f"a{n}": n for n in range(3000)}
    desk.land("1.json", {"n": 1}, {"n": 2, **wide}, {"n": 3, "zeta": "x"}, {"n": 4, "in": wide}, deep(4, 300))
    flow = desk.run()["kept"]
    assert flow["error"] is None and (flow["rows"], flow["rejected"]) == (2, 3)
    assert desk.rows("kept", "n, zeta") == [(1, None), (3, "x")]
    letters = desk("dlq", "list", "--json").json
    reasons = [letter["reason"] for letter in sorted(letters, key=lambda letter: letter["position"])]
    assert reasons[:2] == ["too_many_columns"] * 2 and reasons[2] in ("too_many_columns", "failed")
    said = [letter["message"] for letter in letters if letter["reason"] == "too_many_columns"]
    assert all("at most 1,000 (`schema.max_columns`)" in message for message in said)
    # Later ones too, and what is new in others is taken in.
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


@pytest.mark.parametrize("light_rows", [topic.LIGHT_ROWS, 0])
def test_a_record_that_spark_fails_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, light_rows: int) -> None:
    """An expression that overflows the stack or raises for one value: here by a filter that is no user's function."""
    monkeypatch.setattr(topic, "LIGHT_ROWS", light_rows)
    monkeypatch.setattr(Pipeline, "calls_functions", False)
    desk = Desk(tmp_path, {"kept": 'filter: "assert_true(n <> 3) IS NULL"'})
    desk.land("1.json", *({"n": n} for n in range(1, 6)))
    flow = desk.run()["kept"]
    assert flow["error"] is None and (flow["rows"], flow["rejected"]) == (4, 1)
    (letter,) = desk("dlq", "list", "--json").json
    assert letter["reason"] == "failed" and "Spark can't process it" in letter["message"]


def deep(n: int, levels: int) -> str:
    return f'{{"n": {n}, "deep": ' + '{"d": ' * levels + "1" + "}" * levels + "}"
