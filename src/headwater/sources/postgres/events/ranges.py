"""Sets of positions as ranges: gaps and what fills them are many numbers, but few runs of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_RANGE = re.compile(r"\[(-?\d+),(-?\d+)\)")


@dataclass(frozen=True)
class Ranges:
    """Ordered and apart from each other; both ends belong to a range."""

    runs: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def of(runs: Iterable[Sequence[int]]) -> Ranges:
        merged: list[tuple[int, int]] = []
        for low, high in sorted((run[0], run[1]) for run in runs):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return Ranges(tuple(merged))

    @staticmethod
    def from_sql(text: str | None) -> Ranges:
        """What Postgres prints of an `int8multirange`."""
        found = _RANGE.findall(text or "")
        return Ranges(tuple((int(low), int(end) - 1) for low, end in found))

    def to_sql(self) -> str:
        """As an `int8multirange`."""
        return "'{" + ",".join(f"[{low},{high}]" for low, high in self.runs) + "}'::int8multirange"

    def to_json(self) -> list[int]:
        """Flat, and each number as the distance from the one before it: gaps lie close together."""
        flat: list[int] = []
        last = 0
        for low, high in self.runs:
            flat += (low - last, high - low)
            last = high
        return flat

    @staticmethod
    def from_json(flat: Sequence[int]) -> Ranges:
        runs: list[tuple[int, int]] = []
        last = 0
        for step, length in zip(flat[::2], flat[1::2], strict=True):
            low = last + step
            last = low + length
            runs.append((low, last))
        return Ranges(tuple(runs))

    def __bool__(self) -> bool:
        return bool(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges.of((*self.runs, *other.runs))

    def __sub__(self, other: Ranges) -> Ranges:
        left: list[tuple[int, int]] = []
        taken = iter((*other.runs, (1 << 64, 1 << 64)))
        out_low, out_high = next(taken)
        for low, high in self.runs:
            while out_high < low:
                out_low, out_high = next(taken)
            while out_low <= high:
                if low < out_low:
                    left.append((low, out_low - 1))
                low = out_high + 1
                if out_high > high:
                    break
                out_low, out_high = next(taken)
            if low <= high:
                left.append((low, high))
        return Ranges(tuple(left))

    def within(self, low: int, high: int) -> Ranges:
        """What of it lies between two positions, both included."""
        return Ranges(tuple((max(a, low), min(b, high)) for a, b in self.runs if b >= low and a <= high))
