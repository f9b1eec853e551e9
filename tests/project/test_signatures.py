"""What `check` reads from the annotations of mappers, upcasters and filters, without running them."""

from __future__ import annotations

import pytest

from headwater.project.load.loader import load_project
from headwater.project.signatures import Mode, signature_of
from tests.project.conftest import BASE, Find, Write, places

HEAD = """\
from __future__ import annotations
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional, TypedDict
import pandas as pd
import pyarrow as pa
from headwater import Event, filter, mapper, upcaster
if TYPE_CHECKING:
    import polars as pl

class Inner(TypedDict, total=False):
    a: bool

@dataclass
class Data:
    id: int
    at: Optional[datetime]
    day: date | None
    raw: bytes
    ratio: float

class Tuple(NamedTuple):
    price: Annotated[Decimal, (12, 2)]
    rest: Decimal
    small: Annotated[int, "smallint"]
    texts: list[str]
    by_name: dict[str, list[Inner]]

class Wrong(TypedDict):
    it: Any

"""
LINE = HEAD.count("\n") + 1


@pytest.mark.parametrize(
    ("function", "mode", "schema"),
    [
        ("@mapper\ndef f(event): ...", Mode.COLUMN, None),
        ("@mapper\ndef f(event: Event): ...", Mode.COLUMN, None),
        ('@mapper(schema="id bigint")\ndef f(event: Event): ...', Mode.COLUMN, "id bigint"),
        (
            "@mapper\ndef f(event: dict) -> Data: ...",
            Mode.EVENT,
            "`id` bigint, `at` timestamp, `day` date, `raw` binary, `ratio` double",
        ),
        (
            "@mapper\ndef f(event: dict[str, Any]) -> Tuple: ...",
            Mode.EVENT,
            "`price` decimal(12,2), `rest` decimal(38,18), `small` smallint, `texts` array<string>, "
            "`by_name` map<string, array<struct<`a`: boolean>>>",
        ),
        ("@mapper(schema=Inner)\ndef f(event: pd.DataFrame): ...", Mode.PANDAS, "`a` boolean"),
        ('@mapper(schema="a int")\ndef f(event: pa.RecordBatch): ...', Mode.BATCH, "a int"),
        ('@mapper(schema="a int")\ndef f(event: pa.Table, *, more=1): ...', Mode.TABLE, "a int"),
        ('@upcaster("A", from_version=1)\ndef f(payload: dict) -> dict: ...', Mode.EVENT, None),
        ('@upcaster("A", from_version=1)\ndef f(payload: Inner) -> Inner: ...', Mode.EVENT, "`a` boolean"),
        ("@filter\ndef f(event: Event): ...", Mode.COLUMN, None),
    ],
)
def test_what_annotations_say(write: Write, function: str, mode: Mode, schema: str | None) -> None:
    project = load_project(write(BASE + "code: shop.py\n", {"shop.py": HEAD + function + "\n"}))
    found = signature_of(project.functions[0])
    assert (found.mode, found.schema) == (mode, schema)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("@mapper\ndef f(): ...", "one parameter"),
        ("@mapper\ndef f(a, b): ...", "one parameter"),
        ("@mapper\ndef f(event: int): ...", "annotate the parameter with headwater.Event, dict"),
        ("@mapper\ndef f(event: pl.LazyFrame): ...", "can't be resolved"),
        ("@mapper\ndef f(event: dict): ...", "a TypedDict, dataclass or NamedTuple"),
        ("@mapper\ndef f(event: dict) -> dict: ...", 'schema="order_id string'),
        ("@mapper\ndef f(event: dict) -> Nowhere: ...", "name 'Nowhere' is not defined"),
        ("@mapper\ndef f(event: dict) -> Wrong: ...", "Wrong: 'it' is annotated with"),
        ("@mapper\ndef f(event: pd.DataFrame) -> pd.DataFrame: ...", "the types of its rows are not known"),
        ('@mapper(schema="a, b")\ndef f(event: dict): ...', "is not a schema"),
        ("@mapper(schema=int)\ndef f(event: dict): ...", "has no fields"),
        ('@upcaster("A", from_version=1)\ndef f(payload: pa.Table): ...', "headwater.Event or dict"),
        ("@filter\ndef f(event: dict): ...", "Column expressions"),
    ],
)
def test_what_can_not_be_used(find: Find, function: str, says: str) -> None:
    problems = find(BASE + "code: shop.py\n", {"shop.py": HEAD + function + "\n"})
    assert places(problems) == [("INVALID_FUNCTION", f"shop.py:{LINE}")]
    assert says in str(problems[0])


def test_two_groups_with_a_mapper_for_one_type(find: Find) -> None:
    code = (
        "from headwater import mapper\n@mapper('A', group='x')\ndef f(e): ...\n@mapper('A', group='y')\ndef g(e): ...\n"
    )
    topics = "code: shop.py\ntopics: {t: {from: landing, mappers: [x, y]}, u: {from: landing, mappers: [x]}}\n"
    problems = find(BASE + topics, {"shop.py": code})
    assert places(problems) == [("DUPLICATE_NAME", "shop.py:4")]
    assert "a second mapper for A in topics.t" in problems[0].message


def test_a_filter_with_a_misspelt_column(find: Find) -> None:
    topics = "topics:\n  t: {from: landing, filter: \"tenant_idd = 'a' AND amount > 1 AND payload.event_types = 1\"}\n"
    problems = find(BASE + topics)
    assert places(problems) == [("INVALID_SQL", "headwater.yml:4 topics.t.filter")]
    assert problems[0].hint == "did you mean 'tenant_id'? A key of the payload is payload.tenant_idd"
