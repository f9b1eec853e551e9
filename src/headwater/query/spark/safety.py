"""What Spark's own parser makes of a query that others send: the last word on what it reads and calls.

`sql.safety` judges the text as sqlglot reads it. Where Spark reads the same text differently, this is what counts: each
relation, function and kind of node in Spark's parsed plan has to be known, before the plan is analysed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from sqlglot import exp

from headwater.core.errors import Code, UsageError
from headwater.spark.internals import analyzed_plan, java, java_session
from headwater.sql.functions import SAFE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PACKAGE = "org.apache.spark.sql.catalyst."

_PLANS = """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit Offset OneRowRelation
    Pivot Project RepartitionByExpression Sample Sort SubqueryAlias Union Unpivot UnresolvedHint UnresolvedWith
"""
_UNRESOLVED = """
    MultiAlias RelationTimeTravel UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction
    UnresolvedGenerator UnresolvedHaving UnresolvedInlineTable UnresolvedRegex UnresolvedRelation UnresolvedStar
    UnresolvedSubqueryColumnAliases UnresolvedTVFAliases UnresolvedTableValuedFunction
"""
_EXPRESSIONS = """
    Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Concat CreateNamedStruct Cube
    CurrentDate CurrentRow CurrentTimestamp Divide EqualNullSafe EqualTo Exists GreaterThan GreaterThanOrEqual
    GroupingSets ILike In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction LateralSubquery LessThan
    LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Lower Multiply NamedArgumentExpression Not NotLikeAll
    NotLikeAny Or Overlay RLike Remainder Rollup ScalarSubquery SortOrder SpecifiedWindowFrame StringLocate StringTrim
    StringTrimLeft StringTrimRight Substring Subtract TimestampAdd TimestampDiff TryCast UnaryMinus UnaryPositive
    UnboundedFollowing UnboundedPreceding UnresolvedNamedLambdaVariable UnspecifiedFrame WindowExpression
    WindowSpecDefinition aggregate.AggregateExpression aggregate.AnyValue aggregate.First aggregate.Last
    aggregate.PercentileCont aggregate.PercentileDisc
"""

_NODES = frozenset(
    f"{_PACKAGE}{package}.{name}"
    for package, names in (("plans.logical", _PLANS), ("analysis", _UNRESOLVED), ("expressions", _EXPRESSIONS))
    for name in names.split()
)

_TELLING = ("CurrentUser", "CurrentDatabase", "CurrentCatalog")
"""What Spark puts in for a bare name that is no column: `SELECT user`."""


def require_safe_text(session: SparkSession, text: str, relations: Collection[str]) -> None:
    """Raise NOT_ALLOWED if Spark would find more in a query's text than it may have; `relations` it may read."""
    parser: Any = java_session(session).sessionState().sqlParser()
    parsed = parser.parsePlan(text)
    try:
        found = json.loads(parsed.toJSON())
    except (Py4JError, ValueError, RecursionError):
        raise _refusal("the query is nested too deeply to be looked through") from None
    readable = {f"[{name.lower()}]" for name in relations if "," not in name}
    for node in _nodes(found):
        _require_known(node, readable)


def require_quiet(answered: DataFrame) -> None:
    """Raise NOT_ALLOWED if an analysed query tells of the session or its user."""
    session = answered.sparkSession
    found: Any = java(session).org.apache.spark.sql.catalyst.expressions
    # A map is a partial function in Scala: each of these in the plan is replaced by what is none of them.
    instead = {getattr(found, name)(): found.SparkVersion() for name in _TELLING}
    rule = java(session).PythonUtils.toScalaMap(instead)
    plan = analyzed_plan(answered)
    if not plan.transformAllExpressionsWithSubqueries(rule).equals(plan):
        raise _refusal("the session and its user can't be asked for")


def with_windows_inside(query: exp.Query) -> exp.Query:
    """The query without `WINDOW w AS (…)`: Spark does not show what is in there."""
    query = query.copy()
    for select in query.find_all(exp.Select):
        named = {window.name.lower(): window for window in select.args.get("windows") or ()}
        for window in list(select.find_all(exp.Window)) if named else ():
            definition = named.get(window.alias.lower())
            if definition is None or window is definition or window.find_ancestor(exp.Select) is not select:
                continue
            window.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                value = definition.args.get(part)
                window.set(part, [one.copy() for one in value] if isinstance(value, list) else value and value.copy())
        select.set("windows", None)
    return query


def _require_known(node: dict[str, Any], readable: Collection[str]) -> None:
    kind = str(node["class"]).removesuffix("$")
    if kind not in _NODES:
        raise _refusal(f"{kind.rpartition('.')[2]} can't be used here")
    last = kind.rpartition(".")[2]
    if last == "UnresolvedRelation" and str(node.get("multipartIdentifier")).lower() not in readable:
        raise _refusal("only topics, tables and views of this lake can be read here")
    if last in ("UnresolvedFunction", "UnresolvedTableValuedFunction", "UnresolvedGenerator"):
        called = _function(node)
        if called.lower() not in SAFE:
            raise _refusal(f"the function '{called}' can't be used here")


def _function(node: dict[str, Any]) -> str:
    name = node.get("nameParts", node.get("name"))
    if isinstance(name, dict):  # of a generator: with its database and catalog
        return ".".join(str(name[key]) for key in ("catalog", "database", "funcName", "identifier") if name.get(key))
    return str(name).removeprefix("[").removesuffix("]")


def _nodes(found: Any) -> Iterator[dict[str, Any]]:
    """Every node in what a plan tells of itself, wherever it stands."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            waiting.extend(one.values())
            if "class" in one:
                yield one


def _refusal(message: str) -> UsageError:
    return UsageError(Code.NOT_ALLOWED, message)
