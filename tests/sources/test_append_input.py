"""Rows as programs and files have them become JSON records to the letter, or are refused with their place."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, UsageError
from headwater.core.storage import Files
from headwater.sources.append.config import AppendSource
from headwater.sources.append.inbox import Inbox
from headwater.sources.append.reader import AppendReader
from headwater.sources.append.records import JsonRecords, records
from headwater.sources.append.text import TextFormat, parse
from headwater.sources.reader import ReaderContext
from tests.hints.followed import follows
from tests.support import headwater


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("0.10"), "0.10"),
        (Decimal("12345678901234567890.123456789"), "12345678901234567890.123456789"),
        (Decimal("1E+3"), "1000"),
        (2**200, str(2**200)),
        (-(2**63), "-9223372036854775808"),
        (True, "true"),
        (1e22, "1e+22"),
        (0.1, "0.1"),
        (None, "null"),
        ('naïve "\u0001\n\U0001f600', '"naïve \\"\\u0001\\n\U0001f600"'),
        (datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2))), '"2026-03-29T00:30:00Z"'),
        (datetime(2026, 3, 29, 2, 30, 0, 7), '"2026-03-29T02:30:00.000007Z"'),
        (date(1, 1, 1), '"0001-01-01"'),
        (b"\x00\xff", '"AP8="'),
        ([1, {"a": Decimal("1.50")}], '[1, {"a": 1.50}]'),
        (np.int64(7), "7"),
        (pd.NaT, "null"),
    ],
)
def test_values_are_exact(value: Any, text: str) -> None:
    assert records({"v": value}).lines == ('{"v": ' + text + "}",)


def test_arrow_and_pandas() -> None:
    schema = pa.schema([("n", pa.decimal128(20, 2)), ("m", pa.map_(pa.string(), pa.int32()))])
    table = pa.table({"n": [Decimal("1.10"), None], "m": [[("k", 1)], None]}, schema=schema)
    assert records(table).lines == ('{"n": 1.10, "m": {"k": 1}}', '{"n": null, "m": null}')
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, float("nan")]})
    assert records(frame).lines == ('{"a": 1, "b": "x", "c": 1.5}', '{"a": 2, "b": null, "c": null}')


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([{"a": 1}, {"a": {"b": float("nan")}}], "row 2, a.b: JSON has no number nan"),
        ([{"a": Decimal("Infinity")}], "row 1, a"),
        ([1], "a row is a dict, not a int"),
        ([{1: 2}], "a key is a text"),
        ([{"a": object()}], "has no form in JSON"),
        ([{"a": "\ud800"}], "not valid Unicode"),
        ("text", "can't be of type str"),
        ([], "no rows"),
    ],
)
def test_rows_that_are_none(rows: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        records(rows)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "format", "lines"),
    [
        ('{"a": 1.10}\n\n {"b":1e400}\r\n', "ndjson", ['{"a": 1.10}', '{"b":1e400}']),
        ('\ufeff[ {"a":\n 1} ,{"a":[1,\r\n2]}]\n', "json", ['{"a":  1}', '{"a":[1,  2]}']),
        ('{\n"a": 99999999999999999999.01\n}', "json", ['{ "a": 99999999999999999999.01 }']),
        (
            'id,n,ok,code,note\n1,1.50,true,007,"a\nb"\n-2,-0,1e5,,\n',
            "csv",
            [
                '{"id": 1, "n": 1.50, "ok": true, "code": "007", "note": "a\\nb"}',
                '{"id": -2, "n": "-0", "ok": "1e5", "code": null, "note": null}',
            ],
        ),
    ],
)
def test_text_is_kept_to_the_letter(text: str, format: TextFormat, lines: list[str]) -> None:
    found = parse(text.encode(), format).lines
    assert list(found) == lines
    assert all(isinstance(json.loads(line), dict) for line in found)


@pytest.mark.parametrize(
    ("content", "format", "told"),
    [
        (b'{"a": 1}\n{"a": }\n', "ndjson", "line 2: not valid JSON"),
        (b'{"a": 1}\n[1]\n', "ndjson", "line 2: a row is a JSON object, not an array"),
        (b'{"a": 1} {"a": 2}\n', "ndjson", "line 1: there is something after"),
        (b'{"a": NaN}', "ndjson", "not valid JSON"),
        (b'[{"a": 1},\n{"a": 2},]', "json", "line 2: a value is missing"),
        (b'[{"a": 1}\n{"a": 2}]', "json", "line 2: expected a comma"),
        (b'[{"a": 1}', "json", "line 1"),
        (b'[{"a": 1}] x', "json", "line 1: not valid JSON"),
        (b'{"a": "\xff"}\n', "ndjson", "line 1: not UTF-8"),
        (b"a,b\n1,2\n1,2,3\n", "csv", "line 3: 3 values under 2 columns"),
        (b"a,a\n1,2\n", "csv", "the column 'a' twice"),
        (b"  \n\n", "ndjson", "no rows"),
        (b"[]", "json", "no rows"),
        (b"a,b\n", "csv", "no rows"),
        (b"[" * 100_000, "json", "line 1"),
    ],
)
def test_text_that_is_none(content: bytes, format: TextFormat, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(content, format)
    assert told in str(caught.value)


@follows("nothing was appended", "give a dict, a list of dicts, an Arrow table or a pandas frame")
def test_rows_that_are_corrected_are_appended(tmp_path: Path) -> None:
    for wrong, right in (({"a": float("nan")}, {"a": 1.5}), ("a", [{"a": 1}]), ("a", pa.table({"a": [1]}))):
        with pytest.raises(UsageError):
            records(wrong)
        assert len(records(right).lines) == 1
    with pytest.raises(UsageError):
        parse(b'{"a": 1}\n{"a": }\n', "ndjson")
    assert len(parse(b'{"a": 1}\n{"a": 2}\n', "ndjson").lines) == 2


@follows("give each append a key of its own, and the same key only with the same rows")
def test_keys_of_an_inbox(tmp_path: Path) -> None:
    inbox = Inbox(Files(str(tmp_path)))
    one, other = (JsonRecords((line,)) for line in ('{"a": 1}', '{"a": 2}'))
    first = inbox.put(one, "k1")
    again = inbox.put(one, "k1")
    assert (first.repeated, again.repeated, again.name) == (False, True, first.name)
    with pytest.raises(UsageError) as caught:
        inbox.put(other, "k1")
    assert caught.value.code is Code.KEY_REUSED
    assert not Inbox(Files(str(tmp_path / "other"))).put(other, "k2").repeated
    (tmp_path / "inbox" / first.name).unlink()  # as if the first try had died after it had claimed the key
    assert inbox.put(one, "k1").repeated and inbox.holds(first.name)
    inbox.taken([first.name])
    inbox.taken([first.name])
    assert inbox.put(one, "k1").repeated and not inbox.holds(first.name)
    inbox.forget(before=0.0)
    assert inbox.put(one, "k1").repeated
    inbox.forget(before=2e10)
    assert not inbox.put(other, "k1").repeated
    assert [found.rows for found in inbox.waiting()] == [1]


def test_a_key_that_two_have_claimed_brings_its_rows_once(tmp_path: Path) -> None:
    """As an object store lets two processes that ask at the same instant."""
    context = ReaderContext(cast(SparkSession, None), "topics.clicks", Files(str(tmp_path)), str, {})
    reader, inbox = AppendReader(AppendSource(type="append"), context), Inbox(Files(str(tmp_path)))
    first = inbox.put(JsonRecords(('{"a": 1}',)), "k1")
    time, rest = first.name.split("-", 1)
    second = f"{int(time) + 1:020d}-{rest}"
    (tmp_path / "inbox" / second).write_text((tmp_path / "inbox" / first.name).read_text())
    range = reader.next(None)
    assert range is not None and range.rows == 1
    end = reader.fix_range(None, range)
    reader.committed(end)
    assert [one.name for one in inbox.waiting()] == [second]
    assert reader.next(end) is None and inbox.waiting() == []


def test_wrong_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "headwater.yml").write_text(
        "name: shop\nsources: {api: {type: append}, landing: {type: files, path: ./landing}}\n"
        "topics: {clicks: {from: api}, orders: {from: landing}}\n"
    )
    rows = tmp_path / "rows.ndjson"
    rows.write_text('{"a": 1}\n')
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    for arguments, told in (
        (("clics", rows), "did you mean 'clicks'"),
        (("orders", rows), "source 'landing' of type files"),
        (("clicks", tmp_path / "nowhere.json"), "can't read"),
        (("clicks", empty), "no rows"),
        (("clicks", rows, "--format", "jsn"), "did you mean 'json'"),
        (("clicks", rows, "--key", ""), "a key has"),
    ):
        answer = headwater("topic", "append", *arguments, "--project", tmp_path)
        assert answer.code == 2 and told in answer.err, (arguments, answer)
    assert not list((tmp_path / "lake").rglob("*.ndjson"))
