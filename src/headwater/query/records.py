"""An answer that is known already: what SHOW, DESCRIBE, EXPLAIN and the like give, as the result of a query."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headwater.query.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = (bool, int, float, str, datetime)


def told(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Result:
    """Rows that were not asked of an engine; what is nested in them is JSON."""
    answer = _Told(rows, columns)
    return Result(answer, lambda: answer)


class _Told:
    """The rows in Arrow."""

    engine = "headwater"
    reason = "it is known without reading a table"

    def __init__(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        import pyarrow as pa

        self._table = pa.table({name: _column([row.get(name) for row in rows]) for name in columns})
        self.versions: dict[str, int | None] = {}

    @property
    def schema(self) -> pa.Schema:
        return self._table.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches()

    def rows(self) -> None:
        """Only by batches."""

    def close(self) -> None:
        """Nothing is held."""


def _column(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1 and kinds <= set(_PLAIN):
        return pa.array(values)
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str, ensure_ascii=False)
