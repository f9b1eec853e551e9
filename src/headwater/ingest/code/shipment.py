"""The project's functions on their way to Spark's Python workers, which know nothing of the project's files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from headwater.core.errors import Code, UsageError
from headwater.ingest.code.batches import Packed
from headwater.project.decorators import Registered
from headwater.project.signatures import Mode, code_location

_CLOUDPICKLE: Any = cloudpickle


def packed_as(function: Registered, mode: Mode, row: pa.DataType) -> Packed:
    """A function with everything of the project that it uses; packages are imported where it runs."""
    name = f"{function.role} {function.name}"
    return Packed(_code(function), name, function.file, function.line, mode.value, row)


def _code(function: Registered) -> bytes:
    try:
        with _by_value(Path(function.file).parent):
            return bytes(_CLOUDPICKLE.dumps(function.function))
    except Exception as error:  # anything that the function holds on to may refuse
        message = f"{function.role} '{function.name}' can't be sent to Spark's workers: {error}"
        hint = "open connections, locks and the like inside the function, not at the top of the file"
        raise UsageError(Code.INVALID_FUNCTION, message, where=code_location(function), hint=hint) from None


@contextmanager
def _by_value(folder: Path) -> Iterator[None]:
    """Modules next to the project's code travel whole, as the code itself does."""
    neighbours = [module for module in list(sys.modules.values()) if _is_neighbour(module, folder)]
    for module in neighbours:
        _CLOUDPICKLE.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in neighbours:
            _CLOUDPICKLE.unregister_pickle_by_value(module)


def _is_neighbour(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    if not isinstance(file, str) or name.partition(".")[0] in ("headwater", "__main__") or name not in sys.modules:
        return False
    path = Path(file)
    return path.is_relative_to(folder) and not {"site-packages", "dist-packages"} & set(path.parts)
