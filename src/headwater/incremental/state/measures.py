"""Aggregates that can be maintained from what was stored and what has changed, without the rows between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, IntegralType
from sqlglot import exp

from headwater.core.model import WEIGHT

TypeOf = Callable[[str], DataType]
"""The type of an expression over the aggregate's input."""


@dataclass(frozen=True)
class StoredMeasure:
    """A number that is stored for a group. `{new}` stands for what the change brings, `{old}` for what is stored."""

    whole: str
    """Over plain rows."""
    change: str
    """Over rows with a weight of 1 or -1."""
    merged: str
    """Of `{old}` and `{new}`."""


@dataclass(frozen=True)
class Measure:
    """One aggregate by its states, which stand in `value` and `stale` as {0}, {1} …"""

    states: tuple[StoredMeasure, ...]
    value: str
    """Of the merged states."""
    aids: tuple[str, ...] = ()
    """Aggregates over the change alone, in `stale` as {a0}, {a1} …"""
    stale: str | None = None
    """When this group has to be recomputed; of the stored states as {0}, and the aids."""
    lost: str | None = None
    """The same, of the merged states."""


def added(whole: str, change: str) -> StoredMeasure:
    return StoredMeasure(whole, f"COALESCE({change}, 0)", "COALESCE({old}, 0) + {new}")


def measure_of(text: str, type_of: TypeOf) -> Measure | None:
    """How an aggregate call is maintained; None if it has to be recomputed from the group's rows."""
    call = sqlglot.parse_one(text, dialect="spark")
    condition: exp.Expression | None = None
    if isinstance(call, exp.Filter):
        condition, call = call.expression.this, call.this
    argument = call.this
    if isinstance(argument, exp.Distinct) or call.args.get("expressions"):
        return None
    if isinstance(call, exp.Count):
        if argument is None or isinstance(argument, (exp.Star, exp.Literal)):
            return _count(_when("1", condition))
        return _count(_when(_sql(argument), condition))
    if isinstance(call, exp.CountIf):
        return _count(_when(f"CASE WHEN {_sql(argument)} THEN 1 END", condition))
    if type(call) not in (exp.Sum, exp.Avg, exp.Min, exp.Max) or not isinstance(argument, exp.Expression):
        return None
    value = _when(_sql(argument), condition)
    found = type_of(value)
    if isinstance(call, exp.Sum):
        return _sum(value, found)
    if isinstance(call, exp.Avg):
        return _average(value, found)
    return _extreme(value, "MIN" if isinstance(call, exp.Min) else "MAX")


def count_of_rows() -> Measure:
    return _count("1")


def _count(value: str) -> Measure:
    weighed = f"SUM(CASE WHEN {value} IS NOT NULL THEN {WEIGHT} ELSE 0 END)"
    return Measure((added(f"COUNT({value})", weighed),), "{0}")


def _sum(value: str, data_type: DataType) -> Measure | None:
    count = _count(value).states[0]
    if not isinstance(data_type, (IntegralType, DecimalType, DoubleType, FloatType)):
        return None
    if isinstance(data_type, IntegralType):
        value = f"CAST({value} AS BIGINT)"
    return _total(value, data_type, count)


def _total(value: str, data_type: DataType, count: StoredMeasure) -> Measure:
    """A sum in the value's own type, with the count of its values."""
    total = StoredMeasure(
        f"SUM({value})",
        f"SUM(CASE WHEN {WEIGHT} > 0 THEN {value} ELSE -{_bracketed(value)} END)",
        "CASE WHEN {old} IS NULL THEN {new} WHEN {new} IS NULL THEN {old} ELSE {old} + {new} END",
    )
    result = "CASE WHEN {1} > 0 THEN {0} END"
    aids, stale = _inexact(value, data_type)
    # A sum that has left its type is NULL though its group has values: only the rows can tell what it is now.
    lost = "({1} > 0 AND {0} IS NULL)"
    return Measure((total, count), result, aids, f"{lost}{stale}", lost)


def _average(value: str, data_type: DataType) -> Measure | None:
    count = _count(value).states[0]
    if isinstance(data_type, IntegralType):
        inner = f"CAST({value} AS DECIMAL(20, 0))"
        result = "CAST({0} AS DOUBLE) / {1}"
    elif isinstance(data_type, DecimalType):
        inner = value
        precision, scale = min(data_type.precision + 4, 38), min(data_type.scale + 4, 38)
        if precision != data_type.precision + 4:
            return None
        result = f"CAST({{0}} / CAST({{1}} AS DECIMAL(20, 0)) AS DECIMAL({precision}, {scale}))"
    elif isinstance(data_type, (DoubleType, FloatType)):
        inner = f"CAST({value} AS DOUBLE)"
        result = "{0} / {1}"
    else:
        return None
    total = _total(inner, data_type, count)
    shown = f"CASE WHEN {{1}} > 0 THEN {result} END"
    return Measure((total.states[0], count), shown, total.aids, total.stale, total.lost)


def _inexact(value: str, data_type: DataType) -> tuple[tuple[str, ...], str]:
    """Sums of doubles drift when rows are taken back."""
    if not isinstance(data_type, (DoubleType, FloatType)):
        return (), ""
    return (f"COUNT(CASE WHEN {WEIGHT} < 0 THEN {value} END)",), " OR {a0} > 0"


def _extreme(value: str, function: str) -> Measure:
    pick, beyond = ("LEAST", "<=") if function == "MIN" else ("GREATEST", ">=")
    state = StoredMeasure(
        f"{function}({value})",
        f"{function}(CASE WHEN {WEIGHT} > 0 THEN {value} END)",
        f"{pick}({{old}}, {{new}})",
    )
    went = f"{function}(CASE WHEN {WEIGHT} < 0 THEN {value} END)"
    return Measure((state,), "{0}", (went,), f"{{a0}} {beyond} {{0}} OR ({{a0}} IS NOT NULL AND {{0}} IS NULL)")


def _when(value: str, condition: exp.Expression | None) -> str:
    return value if condition is None else f"CASE WHEN {_sql(condition)} THEN {value} END"


def _bracketed(value: str) -> str:
    return f"({value})"


def _sql(expression: exp.Expression) -> str:
    return expression.sql(dialect="spark")
