"""Scalar functions that were compared with Spark: text, numbers, arrays and maps."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb.translation import coercion as types
from headwater.query.duckdb.translation import nodes
from headwater.query.duckdb.translation.conditions import chosen, is_null
from headwater.query.duckdb.translation.expressions import (
    NAMED,
    Expressions,
    Rule,
    argument,
    call,
    first_argument,
    rule,
    typed,
)
from headwater.query.duckdb.translation.regexes import for_duckdb, groups
from headwater.query.duckdb.translation.terms import Refused, Term, cast_node, derived, literal, spark_name

ROUNDED = 6
"""To how many places DOUBLE is rounded as Spark does it."""

# --- text


def _ascii_only(function: str) -> Rule:
    """Beyond ASCII the engines know other letters: such a value is an error here, and then Spark's to answer."""

    def rule(to: Expressions, node: exp.Func) -> Term:
        found = to.string(node.this)
        plain = exp.EQ(this=nodes.function("strlen", found.node), expression=nodes.function("length", found.node))
        other = exp.Is(this=found.node, expression=exp.Null(), negate=True)
        made = nodes.case([(plain, nodes.function(function, found.node)), (other, nodes.function("error", found.node))])
        return derived(made, types.STRING, found, name=call(function, found))

    return rule


rule(exp.Upper)(_ascii_only("upper"))
rule(exp.Lower)(_ascii_only("lower"))


@rule(exp.Length)
def _length(to: Expressions, node: exp.Length) -> Term:
    found = to.string(node.this)
    return typed(nodes.function("length", found.node), types.INT, found, name=call("length", found))


@rule(exp.Concat)
def _concat(to: Expressions, node: exp.Concat) -> Term:
    parts = [to.string(part) for part in node.expressions]
    return derived(_concatenated(parts), types.STRING, *parts)


@rule(exp.DPipe)
def _pipe(to: Expressions, node: exp.DPipe) -> Term:
    left, right = to.string(node.this), to.string(node.expression)
    return derived(_concatenated([left, right]), types.STRING, left, right)


def _concatenated(parts: list[Term]) -> exp.Expr:
    return exp.Paren(this=nodes.joined(exp.DPipe, [part.node for part in parts]))


@rule(exp.ConcatWs)
def _concat_ws(to: Expressions, node: exp.ConcatWs) -> Term:
    separator, *rest = node.expressions
    parts = [to.string(part) for part in rest]
    if not parts:
        raise Refused("concat_ws of nothing is left to Spark")
    made = nodes.function("concat_ws", nodes.string(to.word(separator)), *(part.node for part in parts))
    return derived(made, types.STRING, *parts)


@rule(exp.Substring)
def _substring(to: Expressions, node: exp.Substring) -> Term:
    found, start = to.string(node.this), to.integer(argument(node, "start"))
    length = node.args.get("length")
    if start < 1 or (length is not None and to.integer(length) < 0):
        raise Refused("substring from zero or from the end is left to Spark")
    size = [] if length is None else [nodes.number(to.integer(length))]
    return derived(nodes.function("substring", found.node, nodes.number(start), *size), types.STRING, found)


@rule(exp.Left, exp.Right)
def _end(to: Expressions, node: exp.Func) -> Term:
    found, size = to.string(node.this), to.integer(node.expression)
    if size < 1:
        raise Refused("left or right of no letters is left to Spark")
    function = "left" if isinstance(node, exp.Left) else "right"
    return derived(nodes.function(function, found.node, nodes.number(size)), types.STRING, found)


@rule(exp.Trim)
def _trim(to: Expressions, node: exp.Trim) -> Term:
    if node.args.get("expression") is not None or node.args.get("collation") is not None:
        raise Refused("trim of other letters than spaces is left to Spark")
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    found = to.string(node.this)
    made = nodes.function(function, found.node, nodes.string(" "))
    return derived(made, types.STRING, found, name=call(function, found))


@rule(exp.Replace)
def _replace(to: Expressions, node: exp.Replace) -> Term:
    found, searched = to.string(node.this), to.word(node.expression)
    new = node.args.get("replacement")
    if not searched or new is None:
        raise Refused("replace of nothing is left to Spark")
    made = nodes.function("replace", found.node, nodes.string(searched), nodes.string(to.word(new)))
    return derived(made, types.STRING, found)


def _searched(function: str) -> Rule:
    def rule(to: Expressions, node: exp.Binary) -> Term:
        found, part = to.string(node.this), to.string(node.expression)
        return derived(nodes.function(function, found.node, part.node), types.BOOLEAN, found, part)

    return rule


rule(exp.StartsWith)(_searched("starts_with"))
rule(exp.EndsWith)(_searched("ends_with"))
rule(exp.Contains)(_searched("contains"))


@rule(exp.StrPosition)
def _position(to: Expressions, node: exp.StrPosition) -> Term:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise Refused("a search from a position is left to Spark")
    found, part = to.string(node.this), to.word(argument(node, "substr"))
    if not part:
        raise Refused("a search for nothing is left to Spark")
    return typed(nodes.function("instr", found.node, nodes.string(part)), types.INT, found)


@rule(exp.Pad)
def _pad(to: Expressions, node: exp.Pad) -> Term:
    found, size = to.string(node.this), to.integer(node.expression)
    pattern = node.args.get("fill_pattern")
    fill = " " if pattern is None else to.word(pattern)
    if size < 0 or not fill:
        raise Refused("padding with nothing is left to Spark")
    function = "lpad" if node.args.get("is_left") else "rpad"
    made = nodes.function(function, found.node, nodes.number(size), nodes.string(fill))
    return derived(made, types.STRING, found)


@rule(exp.MD5)
def _md5(to: Expressions, node: exp.MD5) -> Term:
    found = to.string(node.this)
    return derived(nodes.function("md5", found.node), types.STRING, found)


@rule(exp.SHA2)
def _sha2(to: Expressions, node: exp.SHA2) -> Term:
    found = to.string(node.this)
    if to.integer(argument(node, "length")) != 256:
        raise Refused("sha2 of other than 256 bits is left to Spark")
    return derived(nodes.function("sha256", found.node), types.STRING, found)


# --- regular expressions


@rule(exp.RegexpLike)
def _rlike(to: Expressions, node: exp.RegexpLike) -> Term:
    found, pattern = to.string(node.this), for_duckdb(to.word(node.expression))
    return derived(nodes.function("regexp_matches", found.node, nodes.string(pattern)), types.BOOLEAN, found)


@rule(exp.RegexpExtract)
def _regexp_extract(to: Expressions, node: exp.RegexpExtract) -> Term:
    written = to.word(node.expression)
    group = 1 if node.args.get("group") is None else to.integer(argument(node, "group"))
    if not 0 <= group <= groups(written):
        raise Refused("a group that the pattern has not is left to Spark")
    found = to.string(node.this)
    pattern = nodes.string(for_duckdb(written))
    return derived(nodes.function("regexp_extract", found.node, pattern, nodes.number(group)), types.STRING, found)


@rule(exp.RegexpReplace)
def _regexp_replace(to: Expressions, node: exp.RegexpReplace) -> Term:
    found, pattern, new = (
        to.string(node.this),
        for_duckdb(to.word(node.expression)),
        to.word(argument(node, "replacement")),
    )
    plain = not any(node.args.get(key) for key in ("position", "occurrence", "modifiers"))
    if "$" in new or "\\" in new or not plain:
        raise Refused("regexp_replace with groups is left to Spark")
    made = nodes.function("regexp_replace", found.node, nodes.string(pattern), nodes.string(new), nodes.string("g"))
    return derived(made, types.STRING, found)


# --- choice


@rule(exp.Coalesce)
def _coalesce(to: Expressions, node: exp.Coalesce) -> Term:
    terms = [to.term(node.this), *(to.term(each) for each in node.expressions)]
    type_ = types.common(terms)
    terms = [types.cast(term, type_) for term in terms]
    name = call("coalesce", *terms)
    return derived(nodes.function("coalesce", *(term.node for term in terms)), type_, *terms, name=name)


@rule(exp.Nullif)
def _nullif(to: Expressions, node: exp.Nullif) -> Term:
    left = to.term(node.this)
    same, right = types.compared(left, to.term(node.expression))
    if not same.type.equals(left.type):
        raise Refused("nullif of two types is left to Spark")
    return derived(nodes.function("nullif", left.node, right.node), left.type, left, right)


@rule(exp.Nvl2)
def _nvl2(to: Expressions, node: exp.Nvl2) -> Term:
    yes, no = to.term(argument(node, "true")), to.term(argument(node, "false"))
    return chosen([is_null(to.term(node.this))], [no], yes)


@rule(exp.Greatest, exp.Least)
def _extreme(to: Expressions, node: exp.Func) -> Term:
    terms = [to.term(node.this), *(to.term(each) for each in node.expressions)]
    type_ = types.common(terms)
    if not types.is_plain(type_):
        raise Refused(f"the greatest {spark_name(type_)} is left to Spark")
    terms = [types.cast(term, type_) for term in terms]
    function = "greatest" if isinstance(node, exp.Greatest) else "least"
    return derived(nodes.function(function, *(term.node for term in terms)), type_, *terms)


# --- numbers


@rule(exp.Abs)
def _abs(to: Expressions, node: exp.Abs) -> Term:
    found = to.term(node.this)
    if not types.is_number(found.type):
        raise Refused(f"abs of a {spark_name(found.type)} is left to Spark")
    return typed(nodes.function("abs", found.node), found.type, found, name=call("abs", found))


@rule(exp.Ceil, exp.Floor)
def _whole(to: Expressions, node: exp.Func) -> Term:
    found = to.of(node.this, types.DOUBLE)
    if node.args.get("decimals") is not None:
        raise Refused("ceil and floor to a scale are left to Spark")
    function = "ceil" if isinstance(node, exp.Ceil) else "floor"
    name = call("CEIL" if function == "ceil" else "FLOOR", found)
    return typed(nodes.function(function, found.node), types.LONG, found, name=name)


@rule(exp.Sqrt)
def _sqrt(to: Expressions, node: exp.Sqrt) -> Term:
    found = types.cast(to.term(node.this), types.DOUBLE)
    return derived(nodes.function("sqrt", found.node), types.DOUBLE, found)


@rule(exp.Round)
def _round(to: Expressions, node: exp.Round) -> Term:
    found = to.term(node.this)
    places = 0 if node.args.get("decimals") is None else to.integer(argument(node, "decimals"))
    if not 0 <= places <= ROUNDED:
        raise Refused("round to so many places is left to Spark")
    if types.is_integer(found.type):
        return derived(found.node, found.type, found)
    if pa.types.is_decimal128(found.type):
        scale = min(found.type.scale, places)
        type_ = pa.decimal128(min(38, found.type.precision - found.type.scale + 1 + scale), scale)
        return typed(_rounded(found.node, places), type_, found)
    if found.type != types.DOUBLE:
        raise Refused(f"round of a {spark_name(found.type)} is left to Spark")
    # Spark rounds the decimal digits that a DOUBLE is written with, half up.
    digits = nodes.cast(cast_node(found.node, types.STRING), "DECIMAL(38,20)")
    return typed(cast_node(_rounded(digits, places), types.STRING), types.DOUBLE, found)


def _rounded(node: exp.Expr, places: int) -> exp.Expr:
    return nodes.function("round", node, nodes.number(places))


@rule(exp.IsNan)
def _isnan(to: Expressions, node: exp.IsNan) -> Term:
    found = to.of(node.this, types.DOUBLE, types.FLOAT)
    return derived(
        nodes.function("coalesce", nodes.function("isnan", found.node), nodes.boolean(False)), types.BOOLEAN, found
    )


# --- arrays and maps


def _size(to: Expressions, node: exp.Func) -> Term:
    found = to.term(first_argument(node))
    if pa.types.is_list(found.type):
        counted = nodes.function("len", found.node)
    elif pa.types.is_map(found.type):
        counted = nodes.function("cardinality", found.node)
    else:
        raise Refused(f"size of a {spark_name(found.type)} is left to Spark")
    made = nodes.function("coalesce", counted, nodes.number(-1))
    return typed(made, types.INT, found, name=call("size", found))


rule(exp.ArraySize)(_size)
NAMED["cardinality"] = _size


@rule(exp.ArrayContains)
def _array_contains(to: Expressions, node: exp.ArrayContains) -> Term:
    found, item = to.term(node.this), to.term(node.expression)
    if not pa.types.is_list(found.type) or not types.is_plain(found.type.value_type) or item.value is None:
        raise Refused("array_contains of this is left to Spark")
    same, item = types.compared(Term(exp.Null(), found.type.value_type), item)
    if not same.type.equals(found.type.value_type):
        raise Refused("array_contains of another type is left to Spark")
    null = exp.Null()
    unknown = exp.Or(this=exp.Is(this=found.node, expression=null), expression=exp.Is(this=item.node, expression=null))
    is_null = exp.Lambda(this=exp.Is(this=nodes.variable("x"), expression=null), expressions=[nodes.variable("x")])
    with_null = exp.GT(
        this=nodes.function("len", nodes.function("list_filter", found.node, is_null)), expression=nodes.number(0)
    )
    holds = nodes.function("list_contains", found.node, item.node)
    branches: list[tuple[exp.Expr, exp.Expr]] = [(unknown, null), (holds, nodes.boolean(True)), (with_null, null)]
    return derived(nodes.case(branches, nodes.boolean(False)), types.BOOLEAN, found, item)


@rule(exp.Bracket)
def _element(to: Expressions, node: exp.Bracket) -> Term:
    found, (key,) = to.term(node.this), node.expressions
    if pa.types.is_map(found.type):
        same, wanted = types.compared(Term(exp.Null(), found.type.key_type), to.term(key))
        if not same.type.equals(found.type.key_type) or not wanted.is_literal:
            raise Refused("this look-up in a map is left to Spark")
        entry = exp.Bracket(this=found.node, expressions=[wanted.node], offset=1)
        return derived(entry, found.type.item_type, found)
    if not pa.types.is_list(found.type):
        raise Refused(f"an element of a {spark_name(found.type)} is left to Spark")
    at = to.integer(key)
    if not node.args.get("offset"):
        if at < 0:
            return literal(None, found.type.value_type)
        name = None if found.name is None else f"{found.name}[{at}]"
        made = nodes.function("list_extract", found.node, nodes.number(at + 1))
        return derived(made, found.type.value_type, found, name=name)
    if at == 0:
        raise Refused("element_at 0 is left to Spark")
    return derived(nodes.function("list_extract", found.node, nodes.number(at)), found.type.value_type, found)
