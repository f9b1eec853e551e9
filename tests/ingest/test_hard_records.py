"""Records that are hard to keep: too large, with keys without a name, with halves of characters, with too many keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.sources.decoding.json import LONGEST_TEXT
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
    assert f"{len(large) + 17:,} bytes" in said[9][2]

    # The same where nothing odd was there before, and in a step that Spark commits.
    desk.land("2.json", *good[:4])
    assert desk.run()["kept"]["rows"] == 4
    desk.land("3.json", '{"n": 20, "t": "\\ud800"}')
    desk.land("4.json", '{"n": 21, "": 1}')
    flow = desk.run()["kept"]
    assert (flow["rows"], flow["rejected"]) == (0, 2)
