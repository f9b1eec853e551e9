"""A list of like things that the Python API gives: relations, versions, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from headwater.core.record import Record, html_table
from headwater.query.records import result_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

R = TypeVar("R", bound=Record)

SHOWN = 50
"""How many of a list a notebook shows."""


class Listing(list[R]):
    """A list of like things; a notebook shows it as a table."""

    def to_dicts(self) -> list[dict[str, object]]:
        """Each as a dict, as commands print them with `--json`."""
        return [one.to_dict() for one in self]

    def head(self, n: int = 5) -> Listing[R]:
        """The first of them."""
        return Listing(self[:n])

    def to_arrow(self) -> pa.Table:
        """As an Arrow table; what is nested is JSON."""
        rows = self.to_dicts()
        return result_of(rows, _columns(rows)).to_arrow()

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas frame; what is nested is JSON."""
        rows = self.to_dicts()
        return result_of(rows, _columns(rows)).to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """As a polars frame; what is nested is JSON."""
        rows = self.to_dicts()
        return result_of(rows, _columns(rows)).to_polars()

    def _repr_html_(self) -> str:
        rows = self.to_dicts()
        note = f"{len(rows)} in all, the first {SHOWN} are shown" if len(rows) > SHOWN else "" if rows else "none"
        return html_table(_columns(rows), rows[:SHOWN], note=note)


def _columns(rows: Sequence[dict[str, object]]) -> list[str]:
    """Those that one of them has, in their order."""
    return list(dict.fromkeys(name for row in rows for name in row))
