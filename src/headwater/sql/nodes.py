"""Parts of a query, besides functions, that SQL served to others may have. What is not listed is refused."""

from __future__ import annotations

from sqlglot import exp

_QUERIES = (
    exp.All, exp.Any, exp.CTE, exp.Cluster, exp.Cube, exp.Distinct, exp.Distribute, exp.Except, exp.Exists,
    exp.Filter, exp.From, exp.Group, exp.GroupingSets, exp.Having, exp.Hint, exp.Intersect, exp.Join, exp.JoinHint,
    exp.Lateral, exp.Limit, exp.Offset, exp.Order, exp.Ordered, exp.Pivot, exp.PivotAlias, exp.Qualify, exp.Rollup,
    exp.Select, exp.Sort, exp.Subquery, exp.Table, exp.TableAlias, exp.TableSample, exp.Union, exp.Values,
    exp.Version, exp.Where, exp.Window, exp.WindowSpec, exp.With, exp.WithinGroup,
)  # fmt: skip
_EXPRESSIONS = (
    exp.Add, exp.Alias, exp.Aliases, exp.And, exp.AtTimeZone, exp.Between, exp.BitwiseLeftShift,
    exp.BitwiseRightShift, exp.BitwiseAnd, exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseXor, exp.Bracket, exp.Case,
    exp.Column, exp.CurrentDate, exp.DPipe, exp.Div, exp.Dot, exp.EQ, exp.Escape, exp.FromTimeZone, exp.GT, exp.GTE,
    exp.ILike, exp.IgnoreNulls, exp.In, exp.IntDiv, exp.Is, exp.Kwarg, exp.LT, exp.LTE, exp.Lambda, exp.Like,
    exp.Localtimestamp, exp.Mod, exp.Mul, exp.NEQ, exp.Neg, exp.Not, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Or,
    exp.Paren, exp.PropertyEQ, exp.RegexpLike, exp.RespectNulls, exp.Star, exp.Sub, exp.Tuple,
)  # fmt: skip
_VALUES = (
    exp.Boolean, exp.ColumnConstraint, exp.ColumnDef, exp.CommentColumnConstraint, exp.DataType, exp.DataTypeParam,
    exp.HexString, exp.Identifier, exp.Interval, exp.IntervalSpan, exp.JSONPath, exp.JSONPathKey, exp.JSONPathRoot,
    exp.JSONPathSubscript, exp.JSONPathWildcard, exp.Literal, exp.NotNullColumnConstraint, exp.Null, exp.RawString,
    exp.Var,
)  # fmt: skip

NODES: frozenset[type[exp.Expr]] = frozenset((*_QUERIES, *_EXPRESSIONS, *_VALUES))

IN_HINTS: frozenset[type[exp.Expr]] = frozenset(
    (exp.Hint, exp.JoinHint, exp.Table, exp.TableAlias, exp.Column, exp.Identifier, exp.Literal, exp.Var)
)
"""Names and numbers: nothing in a hint is computed."""
