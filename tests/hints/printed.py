"""The hints that the code can print, found in its source: every text that is given as a hint.

A text is given by name (`hint=…`, `cure = …`), or at the place of a parameter of that name. Constants and functions
that stand for a text are followed to it, within a module and from where they are imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import headwater

SOURCE = Path(headwater.__file__).parent
NAMES = ("hint", "cure")
"""What a hint is called where it stands in a variable, a parameter or an argument."""


@dataclass(frozen=True)
class Module:
    """What a module defines, by name."""

    tree: ast.Module
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    """By function: where its parameter for a hint stands in a call."""
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    around: dict[ast.AST, ast.FunctionDef] = field(default_factory=dict)
    """The innermost function that something stands in."""


@cache
def hints(source: Path = SOURCE) -> dict[str, frozenset[str]]:
    """By text, with {} for what is put in: the modules that give it."""
    found: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.py")):
        name = str(file.relative_to(source))
        for text in _texts(_module(file), source):
            found.setdefault(text, set()).add(name)
    return {text: frozenset(modules) for text, modules in found.items()}


def is_of(case: str, text: str) -> bool:
    """Whether a case is of a hint: it may leave out the end of a long one, behind ` …`."""
    return case == text or (case.endswith(" …") and text.startswith(case[:-2]))


def pattern(text: str) -> re.Pattern[str]:
    """What a printed hint looks like that was made of a text, or of its beginning."""
    text = text.removesuffix(" …")
    return re.compile(".*".join(re.escape(part) for part in text.split("{}")), re.DOTALL)


@cache
def _module(file: Path) -> Module:
    module = Module(ast.parse(file.read_text(encoding="utf-8")))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef):
            module.functions[node.name] = node
            module.around.update(dict.fromkeys(ast.walk(node), node))
            _note_position(module, node.name, _parameters(node))
        elif isinstance(node, ast.ClassDef):
            for one in node.body:
                if isinstance(one, ast.FunctionDef) and one.name == "__init__":
                    _note_position(module, node.name, _parameters(one))
            fields = [getattr(one.target, "id", "") for one in node.body if isinstance(one, ast.AnnAssign)]
            _note_position(module, node.name, fields)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    module.values.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headwater."):
            module.imported.update({one.asname or one.name: (node.module or "", one.name) for one in node.names})
    return module


def _note_position(module: Module, name: str, parameters: list[str]) -> None:
    for at, parameter in enumerate(parameters):
        if parameter in NAMES:
            module.positions[name] = at


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [one.arg for one in function.args.args if one.arg != "self"]


def _texts(module: Module, source: Path) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            values = [one.value for one in node.keywords if one.arg in NAMES]
            at = _position(node, module, source)
            values += [] if at is None else node.args[at : at + 1]
        elif isinstance(node, ast.Assign):
            values = [node.value] if any(isinstance(t, ast.Name) and t.id in NAMES for t in node.targets) else []
        else:
            continue
        for value in values:
            yield from _written(value, module, source)


def _position(call: ast.Call, module: Module, source: Path) -> int | None:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name in module.positions:
        return module.positions[name]
    other = _origin(name, module, source)
    return None if other is None else other[0].positions.get(other[1])


def _origin(name: str, module: Module, source: Path) -> tuple[Module, str] | None:
    """The module of this code base that a name is imported from, and what it is called there."""
    if name not in module.imported:
        return None
    path, original = module.imported[name]
    file = source.joinpath(*path.split(".")[1:]).with_suffix(".py")
    return (_module(file), original) if file.exists() else None


def _written(value: ast.expr, module: Module, source: Path) -> Iterator[str]:
    if isinstance(value, ast.IfExp):
        parts = [value.body, value.orelse]
    elif isinstance(value, ast.BoolOp):
        parts = value.values
    elif isinstance(value, ast.Name):
        yield from _of_name(value, module, source)
        return
    elif isinstance(value, ast.Call):
        yield from _of_call(value, module, source)
        return
    elif isinstance(value, (ast.Constant, ast.JoinedStr, ast.BinOp)):
        text = _text(value, module)
        if text.strip("{} "):
            yield text
        return
    else:
        return
    for part in parts:
        yield from _written(part, module, source)


def _of_name(name: ast.Name, module: Module, source: Path) -> Iterator[str]:
    """What a variable is given in the function where it stands; else a constant of the module or of another one."""
    if name.id in NAMES:
        return  # found where it is given
    local = _given(name, module)
    found = (module, name.id) if local or name.id in module.values else _origin(name.id, module, source)
    if found is not None:
        for value in local or (found[0].values.get(found[1], []) if name.id.isupper() or name.id[0] == "_" else []):
            yield from _written(value, found[0], source)


def _of_call(call: ast.Call, module: Module, source: Path) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    found = (module, name) if name in module.functions else _origin(name, module, source)
    if found is not None and found[1] in found[0].functions:
        for node in ast.walk(found[0].functions[found[1]]):
            if isinstance(node, ast.Return) and node.value is not None:
                yield from _written(node.value, found[0], source)
    elif found is None:
        for argument in (*([call.func.value] if isinstance(call.func, ast.Attribute) else []), *call.args):
            if isinstance(argument, ast.Call):
                yield from _written(argument, module, source)


def _text(value: ast.expr, module: Module) -> str:
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else ""
    if isinstance(value, ast.JoinedStr):
        return "".join(_part(one, module) for one in value.values)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return _text(value.left, module) + _text(value.right, module)
    return "{}"


def _part(part: ast.expr, module: Module) -> str:
    """What stands in an f-string: a variable that has one text in its function is that text."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
        given = _given(part.value, module)
        if len(given) == 1 and isinstance(given[0], (ast.Constant, ast.JoinedStr)):
            return _text(given[0], module)
    return "{}"


def _given(name: ast.Name, module: Module) -> list[ast.expr]:
    """What a variable is set to in the function where it stands."""
    function = module.around.get(name)
    given = [] if function is None else [one for one in ast.walk(function) if isinstance(one, ast.Assign)]
    return [one.value for one in given if any(isinstance(t, ast.Name) and t.id == name.id for t in one.targets)]
