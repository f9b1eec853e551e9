"""A project in Python: the same keys as the file's, the same definitions, the same checks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from headwater.catalogs.base import CatalogSpec
from headwater.core.errors import Problem, ProjectError
from headwater.project import definition
from headwater.project.load.build import build
from headwater.project.load.code import shown
from headwater.project.load.includes import with_includes
from headwater.project.load.tree import from_python
from headwater.sources.base import SourceSpec

_loading: ContextVar[tuple[str | None, Mapping[str, str]] | None] = ContextVar("headwater_loading", default=None)


@contextmanager
def loading(target: str | None, env: Mapping[str, str]) -> Iterator[None]:
    """While a `headwater.py` is loaded: the target and variables that were asked for."""
    token = _loading.set((target, env))
    try:
        yield
    finally:
        _loading.reset(token)


class Project(definition.ProjectDefinition):
    """`Project(name="shop", sources={"landing": {"type": "files", "path": "landing"}}, topics={…})`.

    Relative paths start from the folder of the file that makes the call. ProjectError tells everything that
    is wrong at once.
    """

    def __init__(
        self, name: str, *, target: str | None = None, env: Mapping[str, str] | None = None, **keys: Any
    ) -> None:
        asked = _loading.get()
        if asked is not None:
            target, env = target or asked[0], env or asked[1]
        frame = sys._getframe(1)
        file = Path(frame.f_code.co_filename)
        file = file.resolve() if file.is_file() else Path.cwd() / "headwater.py"
        problems: list[Problem] = []
        tree = from_python(_plain({"name": name, **keys}), shown(file, file.parent), frame.f_lineno)
        tree = with_includes(tree, file.parent, problems)
        built = build(tree, file, target, os.environ if env is None else env, problems, fallback="project")
        if built.problems or built.project is None:
            raise ProjectError(built.problems)
        super().__init__(**{f.name: getattr(built.project, f.name) for f in fields(definition.ProjectDefinition)})


def _plain(value: Any) -> Any:
    """Definitions may be given as models too."""
    if isinstance(value, BaseModel):
        given = value.model_dump(exclude_unset=True)
        return _plain({**given, "type": value.type} if isinstance(value, (SourceSpec, CatalogSpec)) else given)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
