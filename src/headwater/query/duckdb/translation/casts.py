"""Casts that people write: those whose every result is Spark's, or an error that leads to Spark."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.terms import Refused, Term, cast_node, derived, literal, spark_name

_TYPES = {
    exp.DType.BOOLEAN: pa.bool_(),
    exp.DType.TINYINT: pa.int8(),
    exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: pa.int32(),
    exp.DType.BIGINT: pa.int64(),
    exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(),
    exp.DType.TEXT: pa.string(),
    exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}

_DIGITS = 38
"""The most that a decimal has."""
PLAIN_SCALE = 6
"""Decimals of a larger scale may be written with an exponent by Spark."""


def spark_type(written: exp.DataType) -> pa.DataType:
    """The type that a cast names."""
    if written.this is exp.DType.DECIMAL:
        sizes = [int(size.name) if size.name.isdecimal() else -1 for size in written.expressions]
        precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
        if len(sizes) > 2 or not 1 <= precision <= _DIGITS or not 0 <= scale <= precision:
            raise Refused(f"a cast to {written.sql('spark').lower()} is left to Spark")
        return pa.decimal128(*(sizes or (10, 0)))
    found = _TYPES.get(written.this)
    if found is None or written.expressions:
        raise Refused(f"a cast to {written.sql('spark').lower()} is left to Spark")
    return found


def cast_to(term: Term, type: pa.DataType) -> Term:
    """What Spark's cast gives, with ANSI mode off."""
    source = term.type
    if source.equals(type):
        return term
    if term.is_literal and isinstance(term.value, str):
        return _text(term, type)
    if pa.types.is_decimal128(type) and isinstance(term.value, (int, Decimal)) and not isinstance(term.value, bool):
        return literal(Decimal(term.value).quantize(Decimal(1).scaleb(-type.scale), ROUND_HALF_UP), type)
    if types.is_widening(source, type):
        return types.cast(term, type)
    if types.is_integer(source) and (types.is_integer(type) or pa.types.is_decimal128(type)):
        return _made(term.node, type, term)  # what does not fit is an error here, and then Spark's to answer
    if source == types.BOOLEAN and types.is_integer(type):
        return _made(term.node, type, term)
    if source in (types.DOUBLE, types.FLOAT) and types.is_integer(type):
        return _made(nodes.function("trunc", term.node), type, term)
    if source == types.DOUBLE and type == types.FLOAT:
        return _made(term.node, type, term)
    if pa.types.is_decimal128(source) and pa.types.is_decimal128(type):
        return _made(term.node, type, term)
    if (source, type) == (types.TIMESTAMP, types.DATE):
        return _made(term.node, type, term)
    if type == types.STRING and source == types.DATE:
        return derived(types.within_four_digits(term, cast_node(term.node, type)), type, term)
    if type == types.STRING and _is_written_alike(source):
        return _made(term.node, type, term)
    raise Refused(f"a cast of {spark_name(source)} to {spark_name(type)} is left to Spark")


def _is_written_alike(type: pa.DataType) -> bool:
    if pa.types.is_decimal128(type):
        return bool(type.scale <= PLAIN_SCALE)
    return types.is_integer(type) or type == types.BOOLEAN


def _text(term: Term, type: pa.DataType) -> Term:
    if type in (types.DATE, types.TIMESTAMP, types.TIMESTAMP_NTZ):
        return types.moment(term.value, type)
    if pa.types.is_decimal128(type):
        try:
            return literal(Decimal(term.value), type) if term.value.strip() == term.value else _refuse(term, type)
        except ArithmeticError:
            return _refuse(term, type)
    return _refuse(term, type)


def _refuse(term: Term, type: pa.DataType) -> Term:
    raise Refused(f"'{term.value}' as {spark_name(type)} is left to Spark")


def _made(node: exp.Expr, type: pa.DataType, term: Term) -> Term:
    return derived(cast_node(node, type), type, term)
