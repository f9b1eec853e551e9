"""From the tree of a project's files to its definitions, noting everything that is wrong on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from headwater.catalogs.jdbc import JdbcCatalog
from headwater.catalogs.registry import CATALOGS
from headwater.core.errors import Code, Problem, Where, did_you_mean
from headwater.core.registry import Registry
from headwater.core.spec import Alert, Definition, Export, Monitor, Settings, Table, Topic, View, placed
from headwater.project.decorators import Registered
from headwater.project.definition import ProjectDefinition
from headwater.project.load.code import load_code
from headwater.project.load.defaults import with_defaults
from headwater.project.load.tree import TreeNode, dotted, overlaid
from headwater.project.load.validate import keys_of, salvaged, validated
from headwater.project.load.variables import UNSET, expanded
from headwater.project.names import check_name
from headwater.sources.registry import SOURCES

D = TypeVar("D", bound=Definition)

KINDS: dict[str, type[Definition] | Registry[Any]] = {
    "catalogs": CATALOGS,
    "sources": SOURCES,
    "topics": Topic,
    "tables": Table,
    "views": View,
    "exports": Export,
    "monitors": Monitor,
    "alerts": Alert,
}
"""The sections that hold definitions by name, and the model of each, or the models by `type`."""

TARGETS = "targets"
DEFAULT_CATALOG = "lake"


@dataclass(frozen=True)
class Built:
    """What could be made of a project, and everything that is wrong with it."""

    project: ProjectDefinition | None
    problems: list[Problem]
    broken: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names, by section, of definitions that are there but wrong: whoever names them is not wrong too."""


def build(
    tree: TreeNode,
    file: Path,
    target: str | None,
    env: Mapping[str, str],
    problems: list[Problem],
    *,
    fallback: str,
) -> Built:
    """The project of a target. `fallback` is its name if the file gives none."""
    tree = _known_keys(tree, problems)
    targets = _targets(tree, problems)
    base = tree.with_value({key: node for key, node in tree.entries.items() if key != TARGETS})
    if target is not None and target not in targets:
        where = tree.entries[TARGETS].where(TARGETS) if TARGETS in tree.entries else tree.where()
        hint = did_you_mean(target, targets)
        problems.append(Problem(Code.UNKNOWN_TARGET, f"there is no target '{target}'", where, hint))
    for name, over in targets.items():
        if name != target:
            problems.extend(_quiet_problems(base, over, env))
    chosen = overlaid(base, targets[target]) if target in targets else base
    whole = with_defaults(expanded(chosen, env, problems))

    settings = _settings(whole, fallback, problems)
    definitions, broken = _definitions(whole, problems)
    definitions["catalogs"].setdefault(DEFAULT_CATALOG, placed(JdbcCatalog(), DEFAULT_CATALOG, tree.where()))
    functions: tuple[Registered, ...] = ()
    if settings.code is not None:
        where = whole.entries["code"].where("code")
        functions = load_code(file.parent / settings.code, file.parent, where, problems)
    project = ProjectDefinition(
        file=file,
        settings=settings,
        target=target,
        functions=functions,
        places={path: _place(node) for path, node in _walk(whole)},
        written={path: (str(node.value), node.written) for path, node in _walk(whole) if node.written is not None},
        **cast(Any, definitions),
    )
    return Built(project, problems, broken)


def known_keys() -> list[str]:
    """The keys of the top level."""
    return [*keys_of(Settings), *KINDS, TARGETS]


def _known_keys(tree: TreeNode, problems: list[Problem], allowed: list[str] | None = None) -> TreeNode:
    """The tree without the top-level keys that nothing knows."""
    allowed = allowed or known_keys()
    for key, node in tree.entries.items():
        if key not in allowed:
            hint = did_you_mean(key, allowed)
            problems.append(Problem(Code.UNKNOWN_KEY, f"unknown key '{key}'", node.where(key), hint))
    return tree.with_value({key: node for key, node in tree.entries.items() if key in allowed})


def _targets(tree: TreeNode, problems: list[Problem]) -> dict[str, TreeNode]:
    section = tree.entries.get(TARGETS)
    if section is None or section.value is None:
        return {}
    found: dict[str, TreeNode] = {}
    for name, node in _mapping(section, TARGETS, problems).items():
        path = f"{TARGETS}.{name}"
        check_name(name, node.where(path), problems)
        overrides = node.with_value(_mapping(node, path, problems))
        allowed = [key for key in known_keys() if key not in (TARGETS, "include", "name")]
        noted: list[Problem] = []
        found[name] = _known_keys(overrides, noted, allowed)
        problems.extend(_under(path, problem) for problem in noted)
    return found


def _quiet_problems(base: TreeNode, over: TreeNode, env: Mapping[str, str]) -> list[Problem]:
    """What is wrong in a target that was not chosen. Its variables may well be missing here."""
    inside = {(node.file, node.line) for _, node in _walk(over)}
    found: list[Problem] = []
    whole = with_defaults(expanded(overlaid(base, over), env, []))
    _settings(whole, "project", found)
    _definitions(whole, found)
    return [p for p in found if p.where is not None and (p.where.file, p.where.line) in inside]


def _settings(tree: TreeNode, fallback: str, problems: list[Problem]) -> Settings:
    """The settings; where some are wrong, the others with defaults, so that the rest can be checked too."""
    entries = {key: node for key, node in tree.entries.items() if key not in KINDS}
    settings = validated(Settings, tree.with_value(entries), (), problems)
    if "name" in entries and isinstance(entries["name"].value, str):
        check_name(entries["name"].value, entries["name"].where("name"), problems)
    if settings is not None:
        return settings
    good: dict[str, Any] = {"name": fallback}
    for key, node in entries.items():
        alone = tree.with_value({"name": tree.with_value(fallback), key: node})
        if validated(Settings, alone, (), []) is not None:
            good[key] = node.plain()
    return Settings.model_validate({key: value for key, value in good.items() if value is not None})


def _definitions(
    tree: TreeNode, problems: list[Problem]
) -> tuple[dict[str, dict[str, Definition]], dict[str, frozenset[str]]]:
    found: dict[str, dict[str, Definition]] = {section: {} for section in KINDS}
    broken: dict[str, set[str]] = {section: set() for section in KINDS}
    for section, kind in KINDS.items():
        node = tree.entries.get(section)
        if node is None or node.value is None:
            continue
        for name, entry in _mapping(node, section, problems).items():
            where = entry.where(f"{section}.{name}")
            check_name(name, where, problems)
            definition = _definition(section, kind, name, entry, problems)
            if definition is None:
                broken[section].add(name)
            else:
                found[section][name] = placed(definition, name, where)
    return found, {section: frozenset(names) for section, names in broken.items()}


def _definition(
    section: str, kind: type[Definition] | Registry[Any], name: str, node: TreeNode, problems: list[Problem]
) -> Definition | None:
    path = (section, name)
    if node.value is None:
        node = node.with_value({})
    if not isinstance(kind, Registry):
        return validated(kind, node, path, problems) or salvaged(kind, node)
    if not isinstance(node.value, dict):
        _mapping(node, dotted(path), problems)
        return None
    type_ = node.entries.get("type")
    if type_ is not None and type_.value is UNSET:
        return None
    if type_ is None or not isinstance(type_.value, str):
        choices = f"one of {', '.join(sorted(kind.names()))}"
        problems.append(Problem(Code.MISSING_KEY, "'type' must be given", node.where(dotted(path)), choices))
        return None
    if type_.value not in kind:
        unknown = Code.UNKNOWN_SOURCE_TYPE if kind is SOURCES else Code.UNKNOWN_CATALOG_TYPE
        message = f"unknown type of {section[:-1]} '{type_.written or type_.value}'"
        hint = did_you_mean(type_.value, kind.names())
        problems.append(Problem(unknown, message, type_.where(dotted((*path, "type"))), hint))
        return None
    model = cast(type[Definition], kind.get(type_.value))
    return validated(model, node, path, problems) or salvaged(model, node)


def _mapping(node: TreeNode, path: str, problems: list[Problem]) -> dict[str, TreeNode]:
    if node.value is not None and not isinstance(node.value, dict):
        message = "should be a mapping of keys and values"
        problems.append(Problem(Code.INVALID_VALUE, message, node.where(path)))
    return node.entries


def _under(path: str, problem: Problem) -> Problem:
    where = problem.where
    if where is None:
        return problem
    return Problem(problem.code, problem.message, Where(where.file, where.line, f"{path}.{where.path}"), problem.hint)


def _walk(node: TreeNode, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, TreeNode]]:
    """Every node below the top with its dotted path."""
    below: Iterable[tuple[str | int, TreeNode]] = ()
    if isinstance(node.value, dict):
        below = node.value.items()
    elif isinstance(node.value, list):
        below = enumerate(node.value)
    for key, child in below:
        yield dotted((*path, key)), child
        yield from _walk(child, (*path, key))


def _place(node: TreeNode) -> Where:
    text = isinstance(node.value, str) and "\n" in node.value
    return Where(node.file, node.text_line if text and node.text_line is not None else node.line)
