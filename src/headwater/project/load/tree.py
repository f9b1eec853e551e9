"""A project file as a tree of values that know their line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.core.errors import Code, Problem, Where

Key = str | int


@dataclass(frozen=True)
class TreeNode:
    """A value of the file. Mappings hold nodes by key, lists hold nodes, the rest are plain values."""

    value: dict[str, TreeNode] | list[TreeNode] | Any
    file: str
    line: int
    """Of the key for a mapping's entry, of the item in a list."""
    text_line: int | None = None
    """Where a text that spans lines begins."""
    written: str | None = None
    """The text with its variables, for values that have any: errors show this and never what is in them."""

    @property
    def entries(self) -> dict[str, TreeNode]:
        return self.value if isinstance(self.value, dict) else {}

    def where(self, path: str | None = None) -> Where:
        return Where(self.file, self.line, path or None)

    def with_value(self, value: Any) -> TreeNode:
        return replace(self, value=value)

    def find(self, path: Iterable[Key]) -> TreeNode:
        """The node at a path, or the last one on the way to it."""
        node = self
        for key in path:
            below = node.value
            if isinstance(below, dict) and key in below:
                node = below[str(key)]
            elif isinstance(below, list) and isinstance(key, int) and key < len(below):
                node = below[key]
            else:
                break
        return node

    def plain(self) -> Any:
        """The value without lines. What is null or came out of a variable empty is as if not given."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items() if not node.is_blank}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    @property
    def is_blank(self) -> bool:
        return self.value is None or (self.value == "" and self.written is not None)


def dotted(path: Sequence[Key]) -> str:
    """`topics.orders.partition_by[1]`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def overlaid(base: TreeNode, over: TreeNode) -> TreeNode:
    """`over` on top of `base`: mappings join, everything else is replaced."""
    if not (isinstance(base.value, dict) and isinstance(over.value, dict)):
        return over
    kinds = [node.entries["type"].value for node in (base, over) if "type" in node.entries]
    if len(kinds) == 2 and kinds[0] != kinds[1]:
        return over  # another type of source or catalog: the old one's keys would be strangers in it
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = overlaid(merged[key], node) if key in merged else node
    return base.with_value(merged)


def joined(
    base: TreeNode, other: TreeNode, sections: Iterable[str], problems: list[Problem], path: tuple[Key, ...] = ()
) -> TreeNode:
    """Two files as one: sections join by name; what stands in both is an error that names both places."""
    merged = dict(base.entries)
    for key, node in other.entries.items():
        if key not in merged or merged[key].value is None:
            merged[key] = node
        elif key in sections and isinstance(merged[key].value, dict) and isinstance(node.value, dict):
            merged[key] = joined(merged[key], node, (), problems, (*path, key))
        else:
            hint = f"first at {merged[key].where()}"
            where = node.where(dotted((*path, key)))
            problems.append(Problem(Code.DUPLICATE_NAME, f"'{key}' is defined twice", where, hint))
    return base.with_value(merged)


def from_python(value: Any, file: str, line: int) -> TreeNode:
    """Plain Python data as a tree; every value stands at the line of the call."""
    if isinstance(value, dict):
        return TreeNode({str(key): from_python(item, file, line) for key, item in value.items()}, file, line)
    if isinstance(value, (list, tuple)):
        return TreeNode([from_python(item, file, line) for item in value], file, line)
    return TreeNode(value, file, line, text_line=line)
