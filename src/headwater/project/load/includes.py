"""`include`: more files with the same keys, joined into one tree."""

from __future__ import annotations

import glob
from pathlib import Path

from headwater.core.errors import Code, Problem, did_you_mean
from headwater.project.load.build import KINDS, TARGETS, known_keys
from headwater.project.load.code import shown
from headwater.project.load.files import read_text
from headwater.project.load.tree import TreeNode, dotted, joined
from headwater.project.load.yaml import parse_yaml


def with_includes(tree: TreeNode, file: Path, problems: list[Problem]) -> TreeNode:
    """The tree of a file with everything that its `include` names."""
    root, itself = file.parent, file.resolve()
    include = tree.entries.get("include")
    if include is None or include.value is None:
        return tree
    patterns = include.value if isinstance(include.value, list) else [include]
    seen: set[Path] = set()
    for i, pattern in enumerate(patterns):
        if not isinstance(pattern.value, str):
            continue  # the settings' own check says what is wrong with it
        for part in _included(pattern, dotted(("include", i)), root, problems):
            if part in seen or (part.resolve() == itself and glob.has_magic(str(pattern.value))):
                continue
            seen.add(part)
            tree = _with_file(tree, part, root, problems)
    return tree


def _with_file(tree: TreeNode, file: Path, root: Path, problems: list[Problem]) -> TreeNode:
    text = read_text(file, shown(file, root), problems)
    part = None if text is None else parse_yaml(text, shown(file, root), problems)
    if part is None:
        return tree
    if not isinstance(part.value, dict):
        problems.append(Problem(Code.INVALID_VALUE, "should be a mapping of keys and values", part.where()))
        return tree
    allowed = [key for key in known_keys() if key != "include"]
    for key, node in part.entries.items():
        if key not in allowed:
            hint = "only the project file includes others" if key == "include" else did_you_mean(key, allowed)
            problems.append(Problem(Code.UNKNOWN_KEY, f"unknown key '{key}'", node.where(key), hint))
    part = part.with_value({key: node for key, node in part.entries.items() if key in allowed})
    return joined(tree, part, (*KINDS, TARGETS), problems)


def _included(pattern: TreeNode, path: str, root: Path, problems: list[Problem]) -> list[Path]:
    """The files that one entry of `include` names."""
    text = str(pattern.value)
    if glob.has_magic(text):
        found = sorted(Path(name) for name in glob.glob(str(Path(glob.escape(str(root)), text)), recursive=True))
    else:
        found = [root / text]
    missing = [file for file in found if not file.is_file()]
    folder = (root / text).parent
    if missing or (not found and not glob.has_magic(str(Path(text).parent)) and not folder.is_dir()):
        problems.append(Problem(Code.PROJECT_NOT_FOUND, f"there is no file {text}", pattern.where(path)))
    return [file for file in found if file.is_file()]
