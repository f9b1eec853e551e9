"""YAML with lines, read strictly: a key once, no tags, and `on`, `yes`, `no` are words."""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.nodes import MappingNode, ScalarNode, SequenceNode
from yaml.nodes import Node as YamlNode

from headwater.core.errors import Code, Problem, Where
from headwater.project.load.tree import Key, TreeNode, dotted

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "True": True, "false": False, "False": False}
_CONSTANTS |= {"Null": None, "NULL": None, "TRUE": True, "FALSE": False}
_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"}

MAX_DEPTH = 100
"""More than any project nests; what reads the tree goes down it by recursion."""
MAX_VALUES = 50_000
"""More than any project has; anchors that name each other can stand for billions."""


def parse_yaml(text: str, file: str, problems: list[Problem]) -> TreeNode | None:
    """The tree of a file, empty if the file is; None, with the problem noted, if it is not YAML."""
    try:
        top = _compose(text)
    except yaml.MarkedYAMLError as error:
        commit_tag = error.problem_mark or error.context_mark
        line = commit_tag.line + 1 if commit_tag else 1
        message = " ".join(filter(None, (error.context, error.problem))) or "not valid YAML"
        problems.append(Problem(Code.INVALID_YAML, message, Where(file, line), _hint(message)))
        return None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problems.append(Problem(Code.INVALID_YAML, f"character {error.character!r} is not allowed", Where(file, line)))
        return None
    if top is None:
        return TreeNode({}, file, 1)
    return _Reader(file, problems).read(top)


def _hint(message: str) -> str | None:
    if "'\\t'" in message:
        return "indent with spaces, not tabs"
    if "mapping values are not allowed" in message:
        return "a text with ': ' in it goes in quotes, and keys of one mapping begin in one column"
    if "expected ',' or '}'" in message or "found unhashable" in message:
        return "inside { } a text with a comma or ${…} goes in quotes"
    return None


def _compose(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


class _Loader(yaml.BaseLoader):
    """Refuses what is nested too deeply before Python's stack does."""

    _depth = 0

    def compose_node(self, parent: YamlNode | None, index: Any) -> Any:
        self._depth += 1
        try:
            if self._depth > MAX_DEPTH:
                raise ComposerError(None, None, _TOO_DEEP, self.get_mark())
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


_TOO_DEEP = f"nested more than {MAX_DEPTH} deep"


class _TooMuch(Exception):
    pass


class _Reader:
    def __init__(self, file: str, problems: list[Problem]) -> None:
        self._file = file
        self._problems = problems
        self._open: list[YamlNode] = []
        self._path: list[Key] = []
        self._count = 0

    def read(self, top: YamlNode) -> TreeNode | None:
        try:
            return self._node(top, top.start_mark.line + 1)
        except _TooMuch as error:
            line, self._path = error.args[1], []
            self._note(Code.INVALID_YAML, error.args[0], line)
            return None

    def _note(self, code: Code, message: str, line: int, hint: str | None = None) -> None:
        where = Where(self._file, line, dotted(self._path) or None)
        self._problems.append(Problem(code, message, where, hint))

    def _node(self, node: YamlNode, line: int) -> TreeNode:
        self._count += 1
        if self._count > MAX_VALUES:
            raise _TooMuch("anchors stand for too many values", 1)
        if len(self._open) >= MAX_DEPTH:
            raise _TooMuch(f"by its anchors {_TOO_DEEP}", line)
        if node in self._open:
            self._note(Code.INVALID_YAML, "an anchor holds itself", line)
            return TreeNode(None, self._file, line)
        if node.tag not in _TAGS:
            self._note(Code.INVALID_YAML, f"tags such as {node.tag} are not used here", line)
            return TreeNode(None, self._file, line)
        self._open.append(node)
        try:
            return self._value(node, line)
        finally:
            self._open.pop()

    def _value(self, node: YamlNode, line: int) -> TreeNode:
        if isinstance(node, MappingNode):
            return TreeNode(self._mapping(node), self._file, line)
        if isinstance(node, SequenceNode):
            items = [self._under(i, item, item.start_mark.line + 1) for i, item in enumerate(node.value)]
            return TreeNode(items, self._file, line)
        block = isinstance(node, ScalarNode) and node.style in ("|", ">")
        text_line = node.start_mark.line + (2 if block else 1)
        return TreeNode(_scalar(node), self._file, line, text_line=text_line)

    def _under(self, key: Key, node: YamlNode, line: int) -> TreeNode:
        self._path.append(key)
        try:
            return self._node(node, line)
        finally:
            self._path.pop()

    def _mapping(self, node: MappingNode) -> dict[str, TreeNode]:
        found: dict[str, TreeNode] = {}
        defaults: dict[str, TreeNode] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode):
                self._note(Code.INVALID_YAML, "a key should be a word", line)
            elif key.value == "<<" and key.style is None:
                defaults = {**self._defaults(value, line), **defaults}
            elif key.value in found:
                hint = f"first on line {found[key.value].line}"
                self._note(Code.DUPLICATE_NAME, f"the key '{key.value}' stands twice", line, hint)
            else:
                found[key.value] = self._under(key.value, value, line)
        return {**defaults, **found}

    def _defaults(self, value: YamlNode, line: int) -> dict[str, TreeNode]:
        """What `<<: *anchor` brings in: the entries of one mapping or several, the first one winning."""
        sources = value.value if isinstance(value, SequenceNode) else [value]
        found: dict[str, TreeNode] = {}
        for source in sources:
            if not isinstance(source, MappingNode):
                self._note(Code.INVALID_YAML, "`<<` takes a mapping", line)
                continue
            found = {**self._node(source, line).entries, **found}
        return found


def _scalar(node: YamlNode) -> Any:
    text = str(node.value)
    if not isinstance(node, ScalarNode) or node.style is not None:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
