"""Joins: inner ones follow both sides' changes; the others recompute the keys that either side touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headwater.core.model import WEIGHT
from headwater.incremental.keys import KeySet, keys_of, narrowed
from headwater.incremental.operator import Moment, Operator, Strategy, shown
from headwater.incremental.run import Run, signed
from headwater.spark.arrow_bridge import following, joined, united
from headwater.spark.frames import column


class JoinKind(Enum):
    """Kinds of joins, by Spark's names."""

    INNER = "inner"
    LEFT = "left_outer"
    RIGHT = "right_outer"
    FULL = "full_outer"
    SEMI = "left_semi"
    ANTI = "left_anti"


@dataclass(frozen=True)
class Pair:
    """A column of the left side that equals one of the right."""

    left: str
    right: str
    null_safe: bool = False


class Join(Operator):
    """Two inputs by equal columns, and a further condition."""

    def __init__(
        self, left: Operator, right: Operator, kind: JoinKind, pairs: Sequence[Pair], condition: str | None = None
    ) -> None:
        self.inputs = (left, right)
        self.kind = kind
        self._pairs = tuple(pairs)
        self._condition = condition
        only_left = kind in (JoinKind.SEMI, JoinKind.ANTI)
        self.columns = left.columns if only_left else (*left.columns, *right.columns)

    @property
    def left(self) -> Operator:
        return self.inputs[0]

    @property
    def right(self) -> Operator:
        return self.inputs[1]

    @property
    def strategy(self) -> Strategy:
        if self.kind is JoinKind.INNER:
            return Strategy.LINEAR
        return Strategy.KEY_LOCAL if self._pairs else Strategy.WHOLE

    @property
    def title(self) -> str:
        kind = self.kind.value.replace("_", " ")
        if not self._pairs:
            return f"{kind} join without equal columns"
        return f"{kind} join on {', '.join(f'{shown(p.left)} = {shown(p.right)}' for p in self._pairs)}"

    def rows(self, at: Moment, run: Run, keys: KeySet | None = None) -> DataFrame:
        left, right = self._followed(keys)
        df = self._joined(self.left.rows(at, run, left), self.right.rows(at, run, right))
        return df if keys is None else narrowed(df, keys)

    def change(self, run: Run) -> DataFrame | None:
        came_left, came_right = run.held(self.left), run.held(self.right)
        if came_left is None and came_right is None:
            return None
        if self.kind is JoinKind.INNER:
            return self._by_both(run, came_left, came_right)
        if came_right is None and self.kind in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
            assert came_left is not None
            return self._by_left(run, came_left)
        if came_left is None and self.kind is JoinKind.RIGHT:
            assert came_right is not None
            return self._by_right(run, came_right, Moment.NEW)
        return self._anew(run, came_left, came_right)

    # --- the ways

    def _by_both(self, run: Run, came_left: DataFrame | None, came_right: DataFrame | None) -> DataFrame:
        """ΔA ⋈ B_new + A_old ⋈ ΔB."""
        if came_left is None:
            assert came_right is not None
            return self._by_right(run, came_right, Moment.OLD)
        if came_right is None:
            return self._by_left(run, came_left)
        return united(self._by_left(run, came_left), self._by_right(run, came_right, Moment.OLD))

    def _by_left(self, run: Run, came: DataFrame) -> DataFrame:
        keys = self._touched([(came, self._left_columns)], self._right_columns)
        return self._joined(came, self.right.rows(Moment.NEW, run, keys), weighted=True)

    def _by_right(self, run: Run, came: DataFrame, at: Moment) -> DataFrame:
        keys = self._touched([(came, self._right_columns)], self._left_columns)
        return self._joined(self.left.rows(at, run, keys), came, weighted=True)

    def _anew(self, run: Run, came_left: DataFrame | None, came_right: DataFrame | None) -> DataFrame:
        """Q(new | K) − Q(old | K), K being the keys in either change, NULL among them."""
        touched = []
        if came_left is not None:
            touched.append((came_left, self._left_columns))
        if came_right is not None:
            touched.append((came_right, self._right_columns))
        keys = self._touched(touched, self._left_columns)
        new, old = (self._at(at, run, keys) for at in (Moment.NEW, Moment.OLD))
        return signed(new, old)

    def _at(self, at: Moment, run: Run, keys: KeySet | None) -> DataFrame:
        if keys is None:
            return self._joined(self.left.rows(at, run), self.right.rows(at, run))
        others = keys.under({pair.left: pair.right for pair in self._pairs})
        assert others is not None
        # Exactly these keys on both sides: what has no partner there has none at all.
        left = narrowed(self.left.rows(at, run, keys), keys)
        return self._joined(left, narrowed(self.right.rows(at, run, others), others))

    # --- parts

    @property
    def _left_columns(self) -> list[str]:
        return [pair.left for pair in self._pairs]

    @property
    def _right_columns(self) -> list[str]:
        return [pair.right for pair in self._pairs]

    def _touched(self, frames: Sequence[tuple[DataFrame, Sequence[str]]], names: Sequence[str]) -> KeySet | None:
        return keys_of(frames, names) if self._pairs else None

    def _joined(self, left: DataFrame, right: DataFrame, *, weighted: bool = False) -> DataFrame:
        on: Column | None = None
        for pair in self._pairs:
            one, other = column(pair.left), column(pair.right)
            same = one.eqNullSafe(other) if pair.null_safe else one == other
            on = same if on is None else on & same
        if self._condition is not None:
            on = F.expr(self._condition) if on is None else on & F.expr(self._condition)
        if on is None and self.kind is JoinKind.INNER:
            df = left.crossJoin(right)
        elif self._pairs:
            df = joined(left, right, on, self.kind.value)
        else:
            df = left.join(right, F.lit(True) if on is None else on, self.kind.value)
        return following(df.select(*map(column, self.columns), *([column(WEIGHT)] if weighted else [])), df)

    def _followed(self, keys: KeySet | None) -> tuple[KeySet | None, KeySet | None]:
        """The keys on each side, as far as they can be followed: over the equality to the other side too.

        A side whose rows are all kept narrows the other one, and never the other way round: a row without its partner
        would seem to have none.
        """
        if keys is None or self.kind is JoinKind.FULL:
            return None, None
        left = {name: name for name in keys.columns if name in self.left.columns}
        right = {name: name for name in keys.columns if name in self.right.columns}
        to_right = {pair.left: pair.right for pair in self._pairs if pair.left in left}
        to_left = {pair.right: pair.left for pair in self._pairs if pair.right in right}
        if self.kind is JoinKind.INNER:
            left |= {name: other for name, other in to_left.items() if other not in left}
            right |= {name: other for name, other in to_right.items() if other not in right}
        elif self.kind is JoinKind.RIGHT:
            left = to_left
        else:
            right = to_right
        return keys.under(left), keys.under(right)
