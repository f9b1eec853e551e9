"""`defaults`: put under the definitions of their kind before these are looked at."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.core.spec.defaults import NAME, DefaultsSpec
from headwater.project.load.tree import TreeNode, overlaid
from headwater.project.load.validate import keys_of, type_at, validated

DEFAULTS = "defaults"
_ONE_CHOICE = (("path", "table"),)
"""Keys of which a definition has one: where it gives one of them, no default for another holds."""
_WHEN = ("mode", "every", "max_staleness")
"""The same inside of `refresh`."""
_WITH = {"deduplicate_within": "deduplicate_by"}
"""Keys that mean nothing without another."""


def with_defaults(tree: TreeNode) -> TreeNode:
    """The tree of a project, each definition with the defaults of its kind. A default that is wrong is left out."""
    defaults = tree.entries.get(DEFAULTS)
    if defaults is None:
        return tree
    merged = dict(tree.entries)
    for section in keys_of(DefaultsSpec):
        given, definitions = defaults.entries.get(section), tree.entries.get(section)
        if given is None or definitions is None:
            continue
        right = given.with_value({key: node for key, node in given.entries.items() if _is_right(section, key, node)})
        entries = {
            name: _merged(right, node, name) if isinstance(node.value, dict) else node
            for name, node in definitions.entries.items()
        }
        merged[section] = definitions.with_value(entries) if definitions.entries else definitions
    return tree.with_value(merged)


def _is_right(section: str, key: str, node: TreeNode) -> bool:
    alone = node.with_value({key: node})
    return validated(type_at(DefaultsSpec, (section,)), alone, (), []) is not None


def _merged(defaults: TreeNode, definition: TreeNode, name: str) -> TreeNode:
    own = definition.entries
    left = _without_rivals(defaults.entries, own, _ONE_CHOICE)
    if "refresh" in left and "refresh" in own:
        refresh = left["refresh"]
        left["refresh"] = refresh.with_value(_without_rivals(refresh.entries, own["refresh"].entries, (_WHEN,)))
    for key, needed in _WITH.items():
        if key in left and needed not in left and needed not in own:
            del left[key]
    path = left.get("path")
    if path is not None and isinstance(path.value, str):
        left["path"] = path.with_value(path.value.replace(NAME, name))
    return overlaid(definition.with_value(left), definition)


def _without_rivals(
    defaults: Mapping[str, TreeNode], own: Mapping[str, TreeNode], choices: tuple[tuple[str, ...], ...]
) -> dict[str, TreeNode]:
    """The defaults without those that the definition has chosen against."""
    rivals = {key for choice in choices if any(one in own for one in choice) for key in choice}
    return {key: node for key, node in defaults.items() if key not in rivals or key in own}
