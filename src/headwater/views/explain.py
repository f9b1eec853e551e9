"""How a view is kept, as a tree that people can read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from headwater.incremental.linear import Scan
from headwater.incremental.operator import Operator, Strategy
from headwater.incremental.state.grouped import Grouped
from headwater.views.compile import Asked, Compiled, in_words_of

_MEANING = {
    Strategy.LINEAR: "the change flows through",
    Strategy.KEY_LOCAL: "reads both states of its inputs, by the keys that the change touches",
    Strategy.WHOLE: "reads all of its inputs' two states: any change may change everything",
}


@dataclass(frozen=True)
class ExplainNode:
    """An operator of the maintenance plan."""

    operator: str
    strategy: str
    reads: str
    inputs: tuple[ExplainNode, ...] = ()

    def lines(self, depth: int = 0) -> list[str]:
        own = f"{'  ' * depth}{self.operator}  [{self.strategy}] {self.reads}"
        return [own, *(line for one in self.inputs for line in one.lines(depth + 1))]


@dataclass(frozen=True)
class Explanation:
    """What becomes of a change."""

    view: str
    incremental: bool
    reason: str
    policy: str
    stored: str
    plan: ExplainNode | None
    next: str | None = None
    """What the next refresh would do."""

    def described(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        head = f"{self.view}: kept incrementally" if self.incremental else f"{self.view}: computed anew each time"
        told = [head, f"policy {self.policy}; {self.reason}"]
        if self.stored:
            told.append(f"stored: {self.stored}")
        if self.next:
            told.append(f"next refresh: {self.next}")
        return told + ([] if self.plan is None else self.plan.lines())


def explained(view: str, policy: str, made: Compiled, next: str | None = None) -> Explanation:
    """A compiled view's plan; where it can't be kept, the part of the query that is to blame."""
    if made.query is None or made.kept is None:
        assert made.refused is not None
        hint = f"; {made.refused.hint}" if made.refused.hint else ""
        return Explanation(view, False, made.refused.told() + hint, policy, "", None, next)
    stored = made.kept.told
    node = _topped if isinstance(made.kept, Grouped) and made.kept.brings_forward else _node
    plan = node(made.query.operator, made.asked)
    strategies = sorted({one.strategy.value for one in made.query.operator.walk()})
    return Explanation(view, True, f"operators are {', '.join(strategies)}", policy, stored, plan, next)


def _node(operator: Operator, asked: Asked) -> ExplainNode:
    if isinstance(operator, Scan):
        read = asked.relations.get(operator.source)
        return ExplainNode(f"scan {operator.source if read is None else read.label}", "linear", "reads its changes")
    inputs = tuple(_node(one, asked) for one in operator.inputs)
    return ExplainNode(in_words_of(asked, operator.title), operator.strategy.value, _MEANING[operator.strategy], inputs)


def _topped(operator: Operator, asked: Asked) -> ExplainNode:
    """The aggregate at the top is brought forward from what is stored of it."""
    if operator.strategy is Strategy.LINEAR and len(operator.inputs) == 1:
        inner = _topped(operator.inputs[0], asked)
        return ExplainNode(
            in_words_of(asked, operator.title), operator.strategy.value, _MEANING[operator.strategy], (inner,)
        )
    inputs = tuple(_node(one, asked) for one in operator.inputs)
    return ExplainNode(
        in_words_of(asked, operator.title), "brought forward", "adds the change to the stored groups", inputs
    )
