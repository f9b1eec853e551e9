"""Selectors: which flows are meant, by name, tag and place in the graph, as dbt writes them.

    orders          a flow, with or without its kind: topics.orders; * and ? stand for letters
    tag:nightly     by what its definition says: tag, owner, format; by kind: source, topic, table, view
    orders+ +orders and all that is made from it; and all that it is made from; `2+orders`, `orders+1`: so many steps
    @orders         and all that is made from it, with all that any of those is made from

Blanks join (either), commas intersect (both).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from headwater.core.errors import Code, UsageError, did_you_mean, nearest

_CRITERION = re.compile(
    r"(?P<whole>@)?(?:(?P<above>\d*)\+)?(?:(?P<method>\w+):)?(?P<value>[^\s,+@:]+?)(?:\+(?P<below>\d*))?"
)
FORM = "name, tag:x, +x, x+, 2+x, @x; blanks for either, commas for both"


@dataclass(frozen=True)
class Node:
    """A source, topic, table or view, and what it reads."""

    name: str
    """With its kind: `topics.orders`."""
    kind: str
    tags: Sequence[str] = ()
    owner: str | None = None
    format: str | None = None
    inputs: frozenset[str] = frozenset()
    is_flow: bool = True

    @property
    def short(self) -> str:
        return self.name.partition(".")[2]


@dataclass(frozen=True)
class FlowSelection:
    """The flows that are meant, in the order of the graph's nodes."""

    flows: tuple[str, ...]
    by_name: frozenset[str] = frozenset()
    """Those that were given by name, and not by a pattern, tag or place in the graph."""


@dataclass(frozen=True)
class _Criterion:
    """One part of a selector."""

    text: str
    method: str | None
    value: str
    whole: bool = False
    above: int | None = None
    """How many steps up it goes; None: none."""
    below: int | None = None

    @property
    def is_name(self) -> bool:
        bare = self.method is None and not self.whole and self.above is None and self.below is None
        return bare and not _is_pattern(self.value)


_ALL = 1 << 30
_METHODS: Mapping[str, Callable[[Node, str], bool]] = {
    "tag": lambda node, value: any(fnmatchcase(tag, value) for tag in node.tags),
    "owner": lambda node, value: node.owner is not None and fnmatchcase(node.owner, value),
    "format": lambda node, value: node.format is not None and fnmatchcase(node.format, value),
    "source": lambda node, value: node.kind == "source" and fnmatchcase(node.short, value),
    "topic": lambda node, value: node.kind == "topic" and fnmatchcase(node.short, value),
    "table": lambda node, value: node.kind == "table" and fnmatchcase(node.short, value),
    "view": lambda node, value: node.kind == "view" and fnmatchcase(node.short, value),
    "mv": lambda node, value: node.kind == "view" and fnmatchcase(node.short, value),
}
_OF: Mapping[str, Callable[[Node], Iterable[str]]] = {
    "tag": lambda node: node.tags,
    "owner": lambda node: () if node.owner is None else (node.owner,),
    "format": lambda node: () if node.format is None else (node.format,),
}
"""What a method's values may be; of any other the names of its kind."""


@dataclass(frozen=True)
class Selector:
    """The nodes of a lake, by their names, and what selectors mean among them."""

    nodes: Mapping[str, Node]
    _readers: dict[str, set[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for node in self.nodes.values():
            for of in node.inputs:
                self._readers.setdefault(of, set()).add(node.name)

    def select(self, wanted: Sequence[str], exclude: Sequence[str] = (), *, strict: bool = True) -> FlowSelection:
        """The flows of any of `wanted` (all flows for none), without those of any of `exclude`. What selects nothing
        is an error, unless not `strict`."""
        given, by_name = self._any(wanted, strict=strict) if wanted else (set(self.nodes), frozenset())
        less, _ = self._any(exclude, strict=strict)
        flows = tuple(name for name, node in self.nodes.items() if node.is_flow and name in given - less)
        if strict and exclude and not flows:
            raise UsageError(
                Code.UNKNOWN_FLOW,
                f"nothing is left of {' '.join(wanted) or 'all flows'} without {' '.join(exclude)}",
            )
        return FlowSelection(flows, by_name - less)

    def _any(self, texts: Sequence[str], *, strict: bool) -> tuple[set[str], frozenset[str]]:
        found, by_name = set[str](), set[str]()
        for text in (word for one in texts for word in one.split() or [one]):  # one that is empty is none
            criteria = [_parsed(part, text) for part in text.split(",")]
            sets = [self._of(one, strict=strict) for one in criteria]
            both = set.intersection(*sets)
            if strict and not any(self.nodes[name].is_flow for name in both):
                raise self._nothing(text, criteria, sets)
            found |= both
            by_name |= both if len(criteria) == 1 and criteria[0].is_name else set()
        return found, frozenset(by_name)

    def _of(self, one: _Criterion, *, strict: bool) -> set[str]:
        matched = self._matched(one, strict=strict)
        below = self._reached(matched, self._readers_of, _ALL if one.whole else one.below)
        if one.whole:
            return self._reached(below, self._inputs_of, _ALL)
        return below | self._reached(matched, self._inputs_of, one.above)

    def _matched(self, one: _Criterion, *, strict: bool) -> set[str]:
        if one.method is not None:
            is_meant = _METHODS[one.method]
            found = {name for name, node in self.nodes.items() if is_meant(node, one.value)}
            if not found and strict:
                raise self._unknown_value(one.method, one.value)
            return found
        flows = {name: node for name, node in self.nodes.items() if node.kind != "source"}
        found = {n for n, node in flows.items() if fnmatchcase(n, one.value) or fnmatchcase(node.short, one.value)}
        if strict and not found:
            raise _unknown(one.value, [name for name, node in flows.items() if node.is_flow])
        if strict and len(found) > 1 and not _is_pattern(one.value):
            hint = f"write {' or '.join(sorted(found))}"
            raise UsageError(Code.UNKNOWN_FLOW, f"'{one.value}' is not one flow", hint=hint)
        return found

    def _inputs_of(self, name: str) -> Iterable[str]:
        return self.nodes[name].inputs & self.nodes.keys()

    def _readers_of(self, name: str) -> Iterable[str]:
        return self._readers.get(name, ())

    def _reached(self, start: set[str], next_of: Callable[[str], Iterable[str]], steps: int | None) -> set[str]:
        """What is so many steps away at most, with where it starts."""
        found, edge = set(start), set(start)
        for _ in range(min(steps or 0, len(self.nodes))):
            edge = {other for name in edge for other in next_of(name)} - found
            found |= edge
        return found

    def _unknown_value(self, method: str, value: str) -> UsageError:
        values = sorted({one for node in self.nodes.values() for one in _OF.get(method, _names_of(method))(node)})
        what = f"nothing has the {method} '{value}'" if method in _OF else f"there is no {method} '{value}'"
        return UsageError(Code.UNKNOWN_FLOW, what, hint=did_you_mean(value, values) if values else None)

    def _nothing(self, text: str, criteria: Sequence[_Criterion], sets: Sequence[set[str]]) -> UsageError:
        if len(criteria) > 1 and all(sets):
            told = "; ".join(f"{one.text}: {_some(found)}" for one, found in zip(criteria, sets, strict=True))
            return UsageError(Code.UNKNOWN_FLOW, f"nothing is selected by all of '{text}' ({told})")
        kinds = {self.nodes[name].kind for found in sets for name in found}
        if kinds == {"source"}:
            return UsageError(
                Code.UNKNOWN_FLOW,
                f"'{text}' is a source, and no flow",
                hint=f"`headwater flow list {text}+` has what is made from it",
            )
        return UsageError(Code.UNKNOWN_FLOW, f"'{text}' selects {_some(sets[0])}, which no flow keeps")


def _parsed(text: str, whole: str) -> _Criterion:
    found = _CRITERION.fullmatch(text)
    if found is None or (found["whole"] and (found["above"] is not None or found["below"] is not None)):
        raise UsageError(Code.UNKNOWN_FLOW, f"'{whole}' is no selector; it is written as {FORM}")
    method = found["method"]
    if method is not None and method not in _METHODS:
        raise UsageError(
            Code.UNKNOWN_FLOW, f"'{text}': there is no method '{method}'", hint=did_you_mean(method, _METHODS)
        )
    above, below = (None if one is None else int(one or _ALL) for one in (found["above"], found["below"]))
    return _Criterion(text, method, found["value"], found["whole"] is not None, above, below)


def _is_pattern(value: str) -> bool:
    return any(character in value for character in "*?[")


def _names_of(method: str) -> Callable[[Node], Iterable[str]]:
    kind = "view" if method == "mv" else method
    return lambda node: (node.short,) if node.kind == kind else ()


def _unknown(name: str, flows: Sequence[str]) -> UsageError:
    best = nearest(name, [*flows, *(flow.split(".", 1)[1] for flow in flows)])
    hint = f"did you mean '{best}'?" if best else did_you_mean(name, flows)
    return UsageError(Code.UNKNOWN_FLOW, f"there is no flow '{name}'", hint=hint)


def _some(names: set[str]) -> str:
    shown = sorted(names)[:5]
    return ", ".join(shown) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
