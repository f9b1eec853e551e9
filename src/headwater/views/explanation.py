"""What is said of how a view is kept; noted when it is compiled, so that it can be said again without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.core.record import Record


@dataclass(frozen=True)
class ExplainNode(Record):
    """An operator of the maintenance plan."""

    operator: str
    strategy: str
    reads: str
    inputs: tuple[ExplainNode, ...] = ()

    @staticmethod
    def of(fields: Mapping[str, Any]) -> ExplainNode:
        """As it was written down."""
        return ExplainNode(**{**fields, "inputs": tuple(map(ExplainNode.of, fields["inputs"]))})

    def lines(self, depth: int = 0) -> list[str]:
        """For people: itself, and what it reads below it."""
        own = f"{'  ' * depth}{self.operator}  [{self.strategy}] {self.reads}"
        return [own, *(line for one in self.inputs for line in one.lines(depth + 1))]


@dataclass(frozen=True)
class Explanation(Record):
    """What becomes of a change."""

    view: str
    incremental: bool
    reason: str
    policy: str
    stored: str
    plan: ExplainNode | None
    next: str | None = None
    """What the next refresh would do."""

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Explanation:
        """As it was written down."""
        plan = fields["plan"]
        return Explanation(**{**fields, "plan": None if plan is None else ExplainNode.of(plan)})

    def lines(self) -> list[str]:
        """For people."""
        head = f"{self.view}: kept incrementally" if self.incremental else f"{self.view}: recomputed each time"
        lines = [head, f"policy {self.policy}; {self.reason}"]
        if self.stored:
            lines.append(f"stored: {self.stored}")
        if self.next:
            lines.append(f"next refresh: {self.next}")
        return lines + ([] if self.plan is None else self.plan.lines())
