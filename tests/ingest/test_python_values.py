"""What Python functions give, put under the declared types: as it is, or not at all."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from headwater.ingest.code.batches import ContractBroken, Packed, Rows

UTC = timezone.utc
MONEY = pa.decimal128(12, 2)
INSTANT = pa.timestamp("us", "UTC")
PROBLEM = pa.struct([("reason", pa.string()), ("message", pa.string())])


def mapped(mode: str, function: Any, of: pa.DataType, events: int = 1) -> list[dict[str, Any]]:
    """The rows that a mapper with one column `f` makes of some events."""
    row = pa.struct([("f", of)])
    code = cloudpickle.dumps(function)  # type: ignore[attr-defined]
    maker = Rows(
        {0: Packed(code, "mapper m", "shop.py", 1, mode, row)}, row, frozenset({"_event", "_problem", "_mapper"})
    )
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"n": n} for n in range(events)], pa.struct([("n", pa.int64())])),
            pa.nulls(events, PROBLEM),
            pa.array([0] * events, pa.int32()),
        ],
        names=["_event", "_problem", "_mapper"],
    )
    (made,) = maker([batch])
    found: list[dict[str, Any]] = made.select(["_row", "_problem"]).to_pylist()
    return found


@pytest.mark.parametrize(
    ("value", "of", "kept"),
    [
        (Decimal("1.2300"), MONEY, Decimal("1.23")),
        (3, MONEY, Decimal("3.00")),
        (datetime(2020, 1, 1), INSTANT, datetime(2020, 1, 1, tzinfo=UTC)),
        (datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2))), INSTANT, datetime(2019, 12, 31, 22, tzinfo=UTC)),
        (2.0, pa.int64(), 2),
        (2**62 + 1, pa.int64(), 2**62 + 1),
        ({"a": 1}, pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (None, pa.list_(pa.string()), None),
    ],
)
def test_values_that_fit(value: Any, of: pa.DataType, kept: Any) -> None:
    (row,) = mapped("event", lambda event: {"f": value}, of)
    assert row == {"_row": {"f": kept}, "_problem": None}


@pytest.mark.parametrize(
    ("value", "of"),
    [
        (1.5, MONEY),
        (Decimal("1.234"), MONEY),
        (1.5, pa.int64()),
        (Decimal("2.5"), pa.int64()),
        (float("nan"), pa.int64()),
        (2**63, pa.int64()),
        (True, pa.int64()),
        ("5", pa.int64()),
        (5, pa.string()),
        (b"x", pa.string()),
        ("x", pa.binary()),
        (datetime(2020, 1, 1, 5), pa.date32()),
        (date(2020, 1, 1), INSTANT),
        ("x", pa.list_(pa.string())),
        ([1], pa.map_(pa.string(), pa.int64())),
        ({"b": 1}, pa.struct([("a", pa.int64())])),
    ],
)
def test_values_that_do_not_fit(value: Any, of: pa.DataType) -> None:
    (row,) = mapped("event", lambda event: {"f": value}, of)
    assert row["_row"] is None
    assert row["_problem"]["reason"] == "mapper"
    assert "'f" in row["_problem"]["message"]
    assert "mapper m" in row["_problem"]["message"]


@pytest.mark.parametrize(
    ("series", "of", "kept"),
    [
        (pd.Series([1.0, None]), pa.int64(), [1, None]),
        (pd.Series([None, 2**62 + 1], dtype="Int64"), pa.int64(), [None, 2**62 + 1]),
        (pd.Series([Decimal("1.5"), None]), MONEY, [Decimal("1.50"), None]),
        (pd.Series(["a", None], dtype="category"), pa.string(), ["a", None]),
        (pd.Series([["a"], None]), pa.list_(pa.string()), [["a"], None]),
        (pd.Series([{"a": 1}, None]), pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
        (pd.Series([1.5, None]), MONEY, None),
        (pd.Series([1, 2]), pa.string(), None),
        (pd.Series(["1", "2"], dtype="string"), pa.int64(), None),
        (pd.to_datetime(pd.Series(["2020-01-01T05:00", None])), pa.date32(), None),
        (pd.Series([300, 300]), pa.int8(), None),
    ],
)
def test_columns_of_a_batch(series: Any, of: pa.DataType, kept: list[Any] | None) -> None:
    rows = mapped("pandas", lambda events: pd.DataFrame({"f": series[: len(events)]}), of, events=2)
    if kept is not None:
        assert [row["_row"]["f"] for row in rows] == kept
    else:
        assert rows[0]["_row"] is None
        assert "'f' does not fit" in rows[0]["_problem"]["message"]


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda events: pa.record_batch({"f": pa.array([1])}), "returned 1 rows for 2 events in 'f'"),
        (lambda events: pa.record_batch({"g": events["n"]}), "returned 'g', which is not in its schema"),
        (lambda events: events["n"], "it returns a RecordBatch or Table"),
    ],
)
def test_a_broken_contract(made: Any, says: str) -> None:
    with pytest.raises(ContractBroken) as caught:
        mapped("batch", made, pa.int64(), events=2)
    assert says in str(caught.value)
    assert "mapper m (shop.py:1)" in str(caught.value)
