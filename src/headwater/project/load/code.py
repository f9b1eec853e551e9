"""The project's Python code: loaded under a private name, its mistakes shown at the user's own line."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from headwater.core.errors import Code, Problem, ProjectError, Where
from headwater.project.decorators import Registered, collecting

PRIVATE = "_headwater_code_"
_imported: set[str] = set()
"""Modules that the code of projects was the first to import."""


def load_code(file: Path, root: Path, where: Where, problems: list[Problem]) -> tuple[Registered, ...]:
    """The functions that a file registers. A mistake in it is CODE_FAILED; two of one name are refused."""
    if not file.is_file():
        problems.append(Problem(Code.CODE_FAILED, f"there is no file {shown(file, root)}", where))
        return ()
    with collecting() as found:
        run_module(file, root, problems)
    _refuse_doubles(found, root, problems)
    return tuple(found)


def run_module(file: Path, root: Path, problems: list[Problem]) -> ModuleType | None:
    """Run a file as a module that nobody else can import."""
    file = file.resolve()
    name = PRIVATE + file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        problems.append(Problem(Code.CODE_FAILED, "is not a Python file", Where(shown(file, root))))
        return None
    module = importlib.util.module_from_spec(spec)
    try:
        with _importable(name, module, file.parent):
            spec.loader.exec_module(module)
    except ProjectError as error:  # a project built in Python: its problems know their places already
        problems.extend(error.problems)
        return None
    except SyntaxError as error:
        place = Path(error.filename) if error.filename else file
        problems.append(Problem(Code.CODE_FAILED, f"SyntaxError: {error.msg}", Where(shown(place, root), error.lineno)))
        return None
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        problems.append(_failure(error, file, root))
        return None
    return module


def code_digest(root: Path, code: str | None) -> str:
    """Changes when the project's code does: its file, or a module of the project's folder that it has imported."""
    files = {*own_modules(root).values(), *([] if code is None else [(root / code).resolve()])}
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(str(file).encode())
        found.update(file.read_bytes() if file.is_file() else b"")
    return found.hexdigest()


def own_modules(root: Path) -> dict[str, Path]:
    """The modules of the project's folder that its code has imported, by their names."""
    folder = root.resolve()
    named = [(name, getattr(sys.modules.get(name), "__file__", None)) for name in sorted(_imported)]
    places = {name: Path(file).resolve() for name, file in named if isinstance(file, str)}
    return {name: file for name, file in places.items() if _is_own(file, folder)}


@contextmanager
def reimported(root: Path) -> Iterator[None]:
    """While this is open what the project's code imports of its own is imported afresh; a failure takes that back."""
    before = {name: sys.modules.pop(name) for name in own_modules(root)}
    try:
        yield
    except BaseException:
        for name in own_modules(root):
            sys.modules.pop(name, None)
        sys.modules.update(before)
        raise


@contextmanager
def _importable(name: str, module: ModuleType, folder: Path) -> Iterator[None]:
    """While the code runs it can import its neighbours, and dataclasses find their module.

    Afterwards the name is gone again: Spark then sends its functions by value to the workers, which have no
    such module to import.
    """
    path, known = list(sys.path), set(sys.modules)
    writes = sys.dont_write_bytecode
    sys.path.insert(0, str(folder))
    sys.modules[name] = module
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path[:] = path
        sys.modules.pop(name, None)
        _imported.update(set(sys.modules) - known)
        sys.dont_write_bytecode = writes


def _failure(error: BaseException, file: Path, root: Path) -> Problem:
    text = str(error) or "no message"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_own(Path(frame.filename), file.parent)]
    line = own[-1].lineno if own else None
    place = Path(own[-1].filename) if own else file
    return Problem(Code.CODE_FAILED, f"{type(error).__name__}: {text}", Where(shown(place, root), line))


def _is_own(file: Path, folder: Path) -> bool:
    """Whether a file is the user's and not of a package installed below the project."""
    return file.is_relative_to(folder) and "site-packages" not in file.parts


def _refuse_doubles(found: list[Registered], root: Path, problems: list[Problem]) -> None:
    first: dict[tuple[object, ...], Registered] = {}
    for function in found:
        for identity in _identities(function):
            if identity in first:
                other = first[identity]
                problems.append(
                    Problem(
                        Code.DUPLICATE_NAME,
                        f"a second {function.role} for {_what(function)}",
                        Where(shown(Path(function.file), root), function.line),
                        f"first at {Where(shown(Path(other.file), root), other.line)}",
                    )
                )
            first.setdefault(identity, function)


def _identities(function: Registered) -> Iterator[tuple[object, ...]]:
    """What a function answers to; a second one that answers to the same would be taken for it."""
    if function.role in ("filter", "transform"):
        yield (function.role, function.name)
    for event in function.events or ((None,) if function.role == "mapper" else ()):
        yield (function.role, function.group, event, function.from_version)


def _what(function: Registered) -> str:
    if function.role == "upcaster":
        return f"{function.events[0]} from version {function.from_version}"
    if function.role == "mapper":
        return f"{', '.join(function.events) or 'all other events'} in group '{function.group}'"
    return f"'{function.name}'"


def shown(file: Path, root: Path) -> str:
    """A file as messages name it: from the project's folder where it lies in it."""
    try:
        return str(file.resolve().relative_to(root.resolve()))
    except ValueError:
        return str(file)
