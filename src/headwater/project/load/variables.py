"""`${VAR}`, `${VAR:-default}`, `$${`: filled in after YAML was read, so they never change its structure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.core.errors import Code, Problem
from headwater.project.load.tree import Key, TreeNode, dotted

_VARIABLE = re.compile(r"\$(\$)?\{(?:([^}]*)\})?")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


def expanded(node: TreeNode, env: Mapping[str, str], problems: list[Problem], path: Sequence[Key] = ()) -> TreeNode:
    """The tree with its variables filled in; those that are missing are all noted."""
    if isinstance(node.value, dict):
        return node.with_value({k: expanded(n, env, problems, (*path, k)) for k, n in node.value.items()})
    if isinstance(node.value, list):
        return node.with_value([expanded(n, env, problems, (*path, i)) for i, n in enumerate(node.value)])
    if not isinstance(node.value, str) or "${" not in node.value:
        return node
    return _VariableText(node, node.value, env, problems, path).node()


class _VariableText:
    def __init__(
        self, node: TreeNode, text: str, env: Mapping[str, str], problems: list[Problem], path: Sequence[Key]
    ) -> None:
        self._node = node
        self._written = text
        self._env = env
        self._problems = problems
        self._path = path
        self._failed = False
        self._used = False

    def node(self) -> TreeNode:
        text = _VARIABLE.sub(self._one, self._written)
        if self._failed:  # reported already: as if not given, and no second problem about what it lacks
            return replace(self._node, value=UNSET, written=self._written)
        return replace(self._node, value=text, written=self._written if self._used else None)

    def _one(self, found: re.Match[str]) -> str:
        escaped, inside = found.groups()
        if escaped:
            return found[0][1:]
        known = _INSIDE.fullmatch(inside or "")
        if inside is None or known is None or "${" in inside:
            text = found[0] if inside is not None else self._written[found.start() :][:20]
            hint = "write ${NAME}, ${NAME:-default}, or $${ for ${"
            return self._fail(Code.INVALID_VALUE, f"'{text}' is not a variable", hint)
        name, default = known.groups()
        self._used = True
        value = self._env.get(name)
        if value or (value is not None and default is None):
            return value
        if default is None:
            return self._fail(
                Code.MISSING_VARIABLE,
                f"the environment variable {name} is not set",
                f"set it, or give a default: ${{{name}:-…}}",
            )
        return default

    def _fail(self, code: Code, message: str, hint: str) -> str:
        self._failed = True
        line = (self._node.text_line or self._node.line) if "\n" in self._written else self._node.line
        where = replace(self._node, line=line).where(dotted(self._path))
        self._problems.append(Problem(code, message, where, hint))
        return ""


class _Unset:
    """Stands for a value that could not be had, so that nothing else is said of it."""

    def __repr__(self) -> str:
        return "unset"


UNSET = _Unset()
