"""What becomes of a topic's rows when they are mapped again: those that come, go and change, record by record."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.core.model import WEIGHT, Row
from headwater.query.spark.outputs import collect_printable
from headwater.sources.decoders.base import POSITION, RAW
from headwater.spark.frames import column

EXAMPLES = 20
"""Rows of each kind that are shown."""
_ROW, _CAME, _WENT = "_hw_row", "_hw_came", "_hw_went"


@dataclass(frozen=True)
class Differences:
    """Numbers of rows. A record may give several, which its position holds together."""

    before: int
    after: int
    new: int
    gone: int
    changed: int

    def __add__(self, more: Differences) -> Differences:
        return Differences(
            self.before + more.before,
            self.after + more.after,
            self.new + more.new,
            self.gone + more.gone,
            self.changed + more.changed,
        )


def differences(old: DataFrame, new: DataFrame) -> Differences:
    """Of a record that gave a row and gives another one, the row has changed."""
    both = F.least(column(_CAME), column(_WENT))
    found = _by_record(old, new).agg(F.sum(column(_CAME) - both), F.sum(column(_WENT) - both), F.sum(both)).first()
    assert found is not None
    came, went, changed = (int(one or 0) for one in found)
    before = old.count()
    return Differences(before, before + came - went, came, went, changed)


def examples_of(old: DataFrame, new: DataFrame) -> list[Row]:
    """Some records whose rows come, go or change: what they give before and after, in the order of their positions."""
    records = _by_record(old, new)
    kinds = {
        "new": column(_WENT) == 0,
        "gone": column(_CAME) == 0,
        "changed": (column(_CAME) > 0) & (column(_WENT) > 0),
    }
    found: list[Row] = []
    for kind, applies in kinds.items():
        some = records.where(applies).orderBy(column(POSITION)).limit(EXAMPLES).select(column(POSITION))
        rows = {side: _rows_at(df, some) for side, df in (("before", old), ("after", new))}
        positions = sorted({*rows["before"], *rows["after"]})
        found += [
            {"_difference": kind, "_position": at, **{side: each.get(at, []) for side, each in rows.items()}}
            for at in positions
        ]
    return found


def _rows_at(df: DataFrame, positions: DataFrame) -> dict[str, list[Row]]:
    shown = df.drop(RAW).join(F.broadcast(positions), POSITION, "left_semi")
    found: dict[str, list[Row]] = {}
    for row in collect_printable(shown):
        found.setdefault(str(row[POSITION]), []).append(row)
    return found


def _by_record(old: DataFrame, new: DataFrame) -> DataFrame:
    """By position, how many rows it has that were not there and how many are not there any more."""
    signed = [
        df.select(column(POSITION), _row(df).alias(_ROW), F.lit(n).alias(WEIGHT)) for df, n in ((old, -1), (new, 1))
    ]
    net = signed[0].unionByName(signed[1]).groupBy(POSITION, _ROW).agg(F.sum(WEIGHT).alias(WEIGHT))
    return (
        net.where(column(WEIGHT) != 0)
        .groupBy(POSITION)
        .agg(
            F.sum(F.greatest(column(WEIGHT), F.lit(0))).alias(_CAME),
            F.sum(F.greatest(-column(WEIGHT), F.lit(0))).alias(_WENT),
        )
    )


def _row(df: DataFrame) -> Column:
    """A row's values: a column that is not there is one that is NULL."""
    exact = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
    options = {"timestampFormat": exact, "timestampNTZFormat": exact}
    return F.md5(F.to_json(F.struct(*map(column, sorted(df.columns))), options))
