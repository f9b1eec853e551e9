"""How a view is kept, as a tree that people can read."""

from __future__ import annotations

from headwater.incremental.linear import Scan
from headwater.incremental.operator import Operator, Strategy
from headwater.incremental.state.grouped import Grouped
from headwater.views.compile import Compiled, ViewQuery, in_words_of
from headwater.views.explanation import ExplainNode as ExplainNode
from headwater.views.explanation import Explanation as Explanation

_MEANING = {
    Strategy.LINEAR: "the change flows through",
    Strategy.KEY_LOCAL: "reads both states of its inputs, by the keys that the change touches",
    Strategy.WHOLE: "reads all of its inputs' two states: any change may change everything",
}


def explained(view: str, policy: str, made: Compiled, next: str | None = None) -> Explanation:
    """A compiled view's plan; where it can't be kept, the part of the query that is to blame."""
    if made.query is None or made.kept is None:
        assert made.refused is not None
        hint = f"; {made.refused.hint}" if made.refused.hint else ""
        return Explanation(view, False, made.refused.message() + hint, policy, "", None, next)
    stored = made.kept.description
    node = _topped if isinstance(made.kept, Grouped) and made.kept.brings_forward else _node
    plan = node(made.query.operator, made.view_query)
    strategies = sorted({one.strategy.value for one in made.query.operator.walk()})
    return Explanation(view, True, f"operators are {', '.join(strategies)}", policy, stored, plan, next)


def _node(operator: Operator, view_query: ViewQuery) -> ExplainNode:
    if isinstance(operator, Scan):
        read = view_query.relations.get(operator.source)
        return ExplainNode(f"scan {operator.source if read is None else read.label}", "linear", "reads its changes")
    inputs = tuple(_node(one, view_query) for one in operator.inputs)
    return ExplainNode(
        in_words_of(view_query, operator.title), operator.strategy.value, _MEANING[operator.strategy], inputs
    )


def _topped(operator: Operator, view_query: ViewQuery) -> ExplainNode:
    """The aggregate at the top is incrementally maintained from what is stored of it."""
    if operator.strategy is Strategy.LINEAR and len(operator.inputs) == 1:
        inner = _topped(operator.inputs[0], view_query)
        return ExplainNode(
            in_words_of(view_query, operator.title), operator.strategy.value, _MEANING[operator.strategy], (inner,)
        )
    inputs = tuple(_node(one, view_query) for one in operator.inputs)
    return ExplainNode(
        in_words_of(view_query, operator.title),
        "incrementally maintained",
        "adds the change to the stored groups",
        inputs,
    )
