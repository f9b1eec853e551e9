"""What a query may do with inputs that are only looked up: nothing that would take a row back.

A row holds what was looked up when it was made. It could be taken back only by the same values, which nobody knows any
more when the input has changed since.
"""

from __future__ import annotations

from headwater.core.errors import Code, UsageError
from headwater.core.model import Kind
from headwater.incremental.joins import Join, JoinKind
from headwater.incremental.operator import Operator, Strategy
from headwater.incremental.state.base import StoredResult
from headwater.incremental.state.grouped import Grouped
from headwater.views.compile import Compiled, ViewQuery

HINT = "put the other inputs into stream() too: then all of them drive the result"


def require_no_retraction(made: Compiled) -> None:
    """Refuse a query that looks something up, and whose rows may go again."""
    view_query = made.view_query
    looked_up = [one for one in view_query.inputs() if one.label not in view_query.driving and one.at is None]
    if not looked_up or made.query is None or made.kept is None:
        return
    what = f"{looked_up[0].label} is only looked up, and"
    for relation in view_query.inputs():
        if relation.label in view_query.driving and relation.kind is not Kind.TOPIC:
            message = f"{what} rows of {relation.label} may be changed or deleted"
            raise UsageError(Code.INVALID_SQL, message, where=view_query.origin, hint=HINT)
    for operator in _below(made.kept, made.query.operator):
        if not _only_adds(operator, view_query):
            message = f"{what} '{operator.title}' takes rows back"
            raise UsageError(Code.INVALID_SQL, message, where=view_query.origin, hint=HINT)


def _below(kept: StoredResult, operator: Operator) -> list[Operator]:
    """All operators but an aggregate at the top that is maintained incrementally: it adds to what is stored."""
    if not (isinstance(kept, Grouped) and kept.brings_forward):
        return operator.walk()
    return [one for one in operator.walk() if one is not kept.aggregate]


def _only_adds(operator: Operator, view_query: ViewQuery) -> bool:
    if operator.strategy is Strategy.LINEAR:
        return True
    if not isinstance(operator, Join):
        return False
    other = {JoinKind.RIGHT: operator.left, JoinKind.FULL: None}.get(operator.kind, operator.right)
    return other is not None and not any(
        view_query.relations[name].label in view_query.driving for name in other.sources()
    )
