"""An answer that is known already: what SHOW, DESCRIBE, EXPLAIN and the like give, as the result of a query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from headwater.query.result import HeldAnswer, Result

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = (bool, int, float, str, Decimal, bytes, date, datetime)


def result_of(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> Result:
    """Rows that were not asked of an engine; what is nested in them is JSON."""
    import pyarrow as pa

    table = pa.table({name: _column([row.get(name) for row in rows]) for name in columns})
    answer = HeldAnswer(table, "headwater", "it is known without reading a table")
    return Result(answer, lambda: answer)


def _column(values: list[object]) -> pa.Array:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1 and kinds <= set(_PLAIN):
        return pa.array(values)
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)
