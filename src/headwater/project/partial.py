"""A project with mistakes, as far as it can be read: enough to look at its lake, and to pause and resume its flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headwater.core.errors import Code, Problem, ProjectError
from headwater.core.spec import Settings
from headwater.core.spec.settings import SQLITE
from headwater.core.state import LakeRecord, State
from headwater.project.checked import is_known_good, remember_good
from headwater.project.definition import ProjectDefinition
from headwater.project.load.files import HOME, find_project
from headwater.project.load.loader import examine
from headwater.project.names import slug

_ELSEWHERE = (Code.UNKNOWN_TARGET, Code.PROJECT_NOT_FOUND)
"""Mistakes after which it is not known which lake is meant."""


def partial_project(path: Path | str = ".", target: str | None = None) -> ProjectDefinition:
    """The project at or above a path, with its `problems` if it has any: called for what works without it being whole.

    ProjectError where it can't be told which lake and which state are the project's.
    """
    file = find_project(path)
    built = examine(file, target)
    if built.project is not None and not built.problems and is_known_good(built.project):
        return built.project
    from headwater.project.check import all_problems  # with a parser of SQL, which takes longer than most commands

    problems = all_problems(built)
    if built.project is not None and not problems:
        remember_good(built.project)
        return built.project
    known = State.lake_in(file.parent / HOME)
    project = built.project or _of_state(file, target, known, problems)
    wrong = {problem.where.path for problem in problems if problem.where is not None}
    if "state" in wrong or any(problem.code in _ELSEWHERE for problem in problems):
        raise ProjectError(problems)
    if "warehouse" in wrong:
        project = _of_state(file, target, known, problems, project)
    if project.settings.state == SQLITE and (known is None or not _is_at(project, known)):
        raise ProjectError(problems)  # a state would be begun, or made that of another lake, by a file that is wrong
    return replace(project, problems=tuple(problems))


def _of_state(
    file: Path,
    target: str | None,
    known: LakeRecord | None,
    problems: Sequence[Problem],
    project: ProjectDefinition | None = None,
) -> ProjectDefinition:
    """The project with the lake that its state is of."""
    if known is None:
        raise ProjectError(problems)
    settings = Settings(name=slug(file.parent.name)) if project is None else project.settings
    settings = settings.model_copy(update={"warehouse": known.warehouse})
    return ProjectDefinition(file, settings, target) if project is None else replace(project, settings=settings)


def _is_at(project: ProjectDefinition, known: LakeRecord) -> bool:
    return project.warehouse in (known.warehouse, project.location(known.warehouse))
