"""Scalar functions that were compared with Spark: text, numbers, arrays and maps."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from headwater.query.duckdb import coercion as types
from headwater.query.duckdb.conditions import chosen, is_null
from headwater.query.duckdb.expressions import NAMED, Expressions, Rule, argument, call, rule
from headwater.query.duckdb.regexes import for_duckdb, groups
from headwater.query.duckdb.terms import Refused, Term, derived, duckdb_type, literal, spark_name, text

ROUNDED = 6
"""To how many places DOUBLE is rounded as Spark does it."""

# --- text


def _ascii_only(function: str) -> Rule:
    """Beyond ASCII the engines know other letters: such a value is an error here, and then Spark's to answer."""

    def rule(to: Expressions, node: exp.Func) -> Term:
        found = to.string(node.this)
        sql = (
            f"CASE WHEN strlen({found.sql}) = length({found.sql}) THEN {function}({found.sql}) "
            f"WHEN {found.sql} IS NOT NULL THEN error({found.sql}) END"
        )
        return derived(sql, types.STRING, found, name=call(function, found))

    return rule


rule(exp.Upper)(_ascii_only("upper"))
rule(exp.Lower)(_ascii_only("lower"))


@rule(exp.Length)
def _length(to: Expressions, node: exp.Length) -> Term:
    found = to.string(node.this)
    return derived(f"CAST(length({found.sql}) AS INTEGER)", types.INT, found, name=call("length", found))


@rule(exp.Concat)
def _concat(to: Expressions, node: exp.Concat) -> Term:
    parts = [to.string(part) for part in node.expressions]
    return derived("(" + " || ".join(part.sql for part in parts) + ")", types.STRING, *parts)


@rule(exp.DPipe)
def _pipe(to: Expressions, node: exp.DPipe) -> Term:
    left, right = to.string(node.this), to.string(node.expression)
    return derived(f"({left.sql} || {right.sql})", types.STRING, left, right)


@rule(exp.ConcatWs)
def _concat_ws(to: Expressions, node: exp.ConcatWs) -> Term:
    separator, *rest = node.expressions
    parts = [to.string(part) for part in rest]
    if not parts:
        raise Refused("concat_ws of nothing is left to Spark")
    inner = ", ".join(part.sql for part in parts)
    return derived(f"concat_ws({text(to.word(separator))}, {inner})", types.STRING, *parts)


@rule(exp.Substring)
def _substring(to: Expressions, node: exp.Substring) -> Term:
    found, start = to.string(node.this), to.integer(argument(node, "start"))
    length = node.args.get("length")
    if start < 1 or (length is not None and to.integer(length) < 0):
        raise Refused("substring from zero or from the end is left to Spark")
    size = "" if length is None else f", {to.integer(length)}"
    return derived(f"substring({found.sql}, {start}{size})", types.STRING, found)


@rule(exp.Left, exp.Right)
def _end(to: Expressions, node: exp.Func) -> Term:
    found, size = to.string(node.this), to.integer(node.expression)
    if size < 1:
        raise Refused("left or right of no letters is left to Spark")
    return derived(f"{'left' if isinstance(node, exp.Left) else 'right'}({found.sql}, {size})", types.STRING, found)


@rule(exp.Trim)
def _trim(to: Expressions, node: exp.Trim) -> Term:
    if node.args.get("expression") is not None or node.args.get("collation") is not None:
        raise Refused("trim of other letters than spaces is left to Spark")
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    found = to.string(node.this)
    return derived(f"{function}({found.sql}, ' ')", types.STRING, found, name=call(function, found))


@rule(exp.Replace)
def _replace(to: Expressions, node: exp.Replace) -> Term:
    found, searched = to.string(node.this), to.word(node.expression)
    new = node.args.get("replacement")
    if not searched or new is None:
        raise Refused("replace of nothing is left to Spark")
    return derived(f"replace({found.sql}, {text(searched)}, {text(to.word(new))})", types.STRING, found)


def _searched(function: str) -> Rule:
    def rule(to: Expressions, node: exp.Binary) -> Term:
        found, part = to.string(node.this), to.string(node.expression)
        return derived(f"{function}({found.sql}, {part.sql})", types.BOOLEAN, found, part)

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
    return derived(f"CAST(instr({found.sql}, {text(part)}) AS INTEGER)", types.INT, found)


@rule(exp.Pad)
def _pad(to: Expressions, node: exp.Pad) -> Term:
    found, size = to.string(node.this), to.integer(node.expression)
    pattern = node.args.get("fill_pattern")
    fill = " " if pattern is None else to.word(pattern)
    if size < 0 or not fill:
        raise Refused("padding with nothing is left to Spark")
    function = "lpad" if node.args.get("is_left") else "rpad"
    return derived(f"{function}({found.sql}, {size}, {text(fill)})", types.STRING, found)


@rule(exp.MD5)
def _md5(to: Expressions, node: exp.MD5) -> Term:
    found = to.string(node.this)
    return derived(f"md5({found.sql})", types.STRING, found)


@rule(exp.SHA2)
def _sha2(to: Expressions, node: exp.SHA2) -> Term:
    found = to.string(node.this)
    if to.integer(argument(node, "length")) != 256:
        raise Refused("sha2 of other than 256 bits is left to Spark")
    return derived(f"sha256({found.sql})", types.STRING, found)


# --- regular expressions


@rule(exp.RegexpLike)
def _rlike(to: Expressions, node: exp.RegexpLike) -> Term:
    found, pattern = to.string(node.this), for_duckdb(to.word(node.expression))
    return derived(f"regexp_matches({found.sql}, {text(pattern)})", types.BOOLEAN, found)


@rule(exp.RegexpExtract)
def _regexp_extract(to: Expressions, node: exp.RegexpExtract) -> Term:
    written = to.word(node.expression)
    group = 1 if node.args.get("group") is None else to.integer(argument(node, "group"))
    if not 0 <= group <= groups(written):
        raise Refused("a group that the pattern has not is left to Spark")
    found = to.string(node.this)
    return derived(f"regexp_extract({found.sql}, {text(for_duckdb(written))}, {group})", types.STRING, found)


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
    return derived(f"regexp_replace({found.sql}, {text(pattern)}, {text(new)}, 'g')", types.STRING, found)


# --- choice


@rule(exp.Coalesce)
def _coalesce(to: Expressions, node: exp.Coalesce) -> Term:
    terms = [to.term(node.this), *(to.term(each) for each in node.expressions)]
    type_ = types.common(terms)
    terms = [types.cast(term, type_) for term in terms]
    name = call("coalesce", *terms)
    return derived(f"coalesce({', '.join(term.sql for term in terms)})", type_, *terms, name=name)


@rule(exp.Nullif)
def _nullif(to: Expressions, node: exp.Nullif) -> Term:
    left = to.term(node.this)
    same, right = types.compared(left, to.term(node.expression))
    if not same.type.equals(left.type):
        raise Refused("nullif of two types is left to Spark")
    return derived(f"NULLIF({left.sql}, {right.sql})", left.type, left, right)


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
    return derived(f"{function}({', '.join(term.sql for term in terms)})", type_, *terms)


# --- numbers


@rule(exp.Abs)
def _abs(to: Expressions, node: exp.Abs) -> Term:
    found = to.term(node.this)
    if not types.is_number(found.type):
        raise Refused(f"abs of a {spark_name(found.type)} is left to Spark")
    return derived(f"CAST(abs({found.sql}) AS {duckdb_type(found.type)})", found.type, found, name=call("abs", found))


@rule(exp.Ceil, exp.Floor)
def _whole(to: Expressions, node: exp.Func) -> Term:
    found = to.of(node.this, types.DOUBLE)
    if node.args.get("decimals") is not None:
        raise Refused("ceil and floor to a scale are left to Spark")
    function = "ceil" if isinstance(node, exp.Ceil) else "floor"
    name = call("CEIL" if function == "ceil" else "FLOOR", found)
    return derived(f"CAST({function}({found.sql}) AS BIGINT)", types.LONG, found, name=name)


@rule(exp.Sqrt)
def _sqrt(to: Expressions, node: exp.Sqrt) -> Term:
    found = types.cast(to.term(node.this), types.DOUBLE)
    return derived(f"sqrt({found.sql})", types.DOUBLE, found)


@rule(exp.Round)
def _round(to: Expressions, node: exp.Round) -> Term:
    found = to.term(node.this)
    places = 0 if node.args.get("decimals") is None else to.integer(argument(node, "decimals"))
    if not 0 <= places <= ROUNDED:
        raise Refused("round to so many places is left to Spark")
    if types.is_integer(found.type):
        return derived(found.sql, found.type, found)
    if pa.types.is_decimal128(found.type):
        scale = min(found.type.scale, places)
        type_ = pa.decimal128(min(38, found.type.precision - found.type.scale + 1 + scale), scale)
        return derived(f"CAST(round({found.sql}, {places}) AS {duckdb_type(type_)})", type_, found)
    if found.type != types.DOUBLE:
        raise Refused(f"round of a {spark_name(found.type)} is left to Spark")
    # Spark rounds the decimal digits that a DOUBLE is written with, half up.
    exact = f"round(CAST(CAST({found.sql} AS VARCHAR) AS DECIMAL(38,20)), {places})"
    return derived(f"CAST(CAST({exact} AS VARCHAR) AS DOUBLE)", types.DOUBLE, found)


@rule(exp.IsNan)
def _isnan(to: Expressions, node: exp.IsNan) -> Term:
    found = to.of(node.this, types.DOUBLE, types.FLOAT)
    return derived(f"coalesce(isnan({found.sql}), false)", types.BOOLEAN, found)


# --- arrays and maps


def _size(to: Expressions, node: exp.Func) -> Term:
    found = to.term(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this)
    if pa.types.is_list(found.type):
        counted = f"len({found.sql})"
    elif pa.types.is_map(found.type):
        counted = f"cardinality({found.sql})"
    else:
        raise Refused(f"size of a {spark_name(found.type)} is left to Spark")
    return derived(f"CAST(coalesce({counted}, -1) AS INTEGER)", types.INT, found, name=call("size", found))


rule(exp.ArraySize)(_size)
NAMED["cardinality"] = _size


@rule(exp.ArrayContains)
def _array_contains(to: Expressions, node: exp.ArrayContains) -> Term:
    found, item = to.term(node.this), to.term(node.expression)
    if not pa.types.is_list(found.type) or not types.is_plain(found.type.value_type) or item.value is None:
        raise Refused("array_contains of this is left to Spark")
    same, item = types.compared(Term("", found.type.value_type), item)
    if not same.type.equals(found.type.value_type):
        raise Refused("array_contains of another type is left to Spark")
    sql = (
        f"CASE WHEN {found.sql} IS NULL OR {item.sql} IS NULL THEN NULL WHEN list_contains({found.sql}, {item.sql}) "
        f"THEN true WHEN len(list_filter({found.sql}, lambda x: x IS NULL)) > 0 THEN NULL ELSE false END"
    )
    return derived(sql, types.BOOLEAN, found, item)


@rule(exp.Bracket)
def _element(to: Expressions, node: exp.Bracket) -> Term:
    found, (key,) = to.term(node.this), node.expressions
    if pa.types.is_map(found.type):
        same, wanted = types.compared(Term("", found.type.key_type), to.term(key))
        if not same.type.equals(found.type.key_type) or not wanted.is_literal:
            raise Refused("this look-up in a map is left to Spark")
        return derived(f"{found.sql}[{wanted.sql}]", found.type.item_type, found)
    if not pa.types.is_list(found.type):
        raise Refused(f"an element of a {spark_name(found.type)} is left to Spark")
    at = to.integer(key)
    if not node.args.get("offset"):
        if at < 0:
            return literal(None, found.type.value_type)
        name = None if found.name is None else f"{found.name}[{at}]"
        return derived(f"list_extract({found.sql}, {at + 1})", found.type.value_type, found, name=name)
    if at == 0:
        raise Refused("element_at 0 is left to Spark")
    return derived(f"list_extract({found.sql}, {at})", found.type.value_type, found)
