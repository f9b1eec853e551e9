"""What a query may be at most. Engines, and the libraries that translate for them, follow it by recursion."""

from __future__ import annotations

from sqlglot import exp

from headwater.core.errors import Code
from headwater.sql.places import InvalidSql

DEEPEST = 500
"""Levels of a query. A chain such as `1 + 1 + 1`, `a AND b AND c` or one of joins has one for each part."""
LONGEST_NUMBER = 400
"""Characters of a number. The largest double has 309 digits; Python itself reads no more than 4,300."""


def require_bounded(tree: exp.Expr) -> None:
    """Raise QUERY_TOO_DEEP for what no engine could follow to its end, INVALID_SQL for a number that is none."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        depth += len(node.args.get("joins") or ())
        if depth > DEEPEST:
            raise too_deep()
        if isinstance(node, exp.Literal) and not node.is_string and len(node.name) > LONGEST_NUMBER:
            raise InvalidSql(f"a number has {LONGEST_NUMBER} digits at most")
        waiting.extend((child, depth + 1) for child in node.iter_expressions())


def too_deep() -> InvalidSql:
    """Also for what Python or Java has not followed to its end, though it is less deep than that."""
    return InvalidSql(
        "the query is nested too deeply",
        hint="give a part of it a name: WITH x AS (…); a long chain of OR can be an IN (…)",
        code=Code.QUERY_TOO_DEEP,
    )
