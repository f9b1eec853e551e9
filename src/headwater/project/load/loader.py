"""Loads a project: `headwater.yml` with its includes and SQL files, or `headwater.py`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from headwater.core.errors import Code, Problem, ProjectError, Where
from headwater.project.decorators import collecting
from headwater.project.definition import ProjectDefinition
from headwater.project.load.build import KINDS, Built, build
from headwater.project.load.code import run_module
from headwater.project.load.files import find_project, read_text
from headwater.project.load.includes import with_includes
from headwater.project.load.python import loading
from headwater.project.load.sql_files import sql_files
from headwater.project.load.tree import joined
from headwater.project.load.yaml import parse_yaml
from headwater.project.names import slug


def load_project(
    path: Path | str = ".", target: str | None = None, env: Mapping[str, str] | None = None
) -> ProjectDefinition:
    """The project at or above a path; ProjectError with everything that is wrong with its files."""
    built = examine(path, target, env)
    if built.problems or built.project is None:
        raise ProjectError(built.problems)
    return built.project


def examine(path: Path | str = ".", target: str | None = None, env: Mapping[str, str] | None = None) -> Built:
    """As much of a project as can be made, and what is wrong with its files."""
    file = find_project(path)
    env = os.environ if env is None else env
    if file.suffix == ".py":
        return _from_python(file, target, env)
    problems: list[Problem] = []
    text = read_text(file, file.name, problems)
    tree = None if text is None else parse_yaml(text, file.name, problems)
    if tree is None:
        return Built(None, problems)
    if not isinstance(tree.value, dict):
        problems.append(Problem(Code.INVALID_VALUE, "should be a mapping of keys and values", tree.where()))
        return Built(None, problems)
    tree = with_includes(tree, file, problems)
    for part in sql_files(file.parent, problems):
        tree = joined(tree, part, KINDS, problems)
    return build(tree, file, target, env, problems, fallback=slug(file.parent.name))


def _from_python(file: Path, target: str | None, env: Mapping[str, str]) -> Built:
    problems: list[Problem] = []
    with collecting() as functions, loading(target, env):
        module = run_module(file, file.parent, problems)
    if module is None:
        return Built(None, problems)
    found = {id(value): value for value in vars(module).values() if isinstance(value, ProjectDefinition)}
    if len(found) != 1:
        message = f"the file should make one headwater.Project, not {len(found) or 'none'}"
        return Built(None, [Problem(Code.INVALID_VALUE, message, Where(file.name))])
    made = next(iter(found.values()))
    values = {f.name: getattr(made, f.name) for f in fields(ProjectDefinition)}
    values["functions"] = (*made.functions, *functions)
    return Built(ProjectDefinition(**values), problems)
