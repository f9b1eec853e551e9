"""What the Python environment must have: a supported Python, and the optional parts when they are used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from headwater.core.errors import Code, UsageError

OLDEST, NEWEST = (3, 10), (3, 12)


def require_python(version: tuple[int, int] = sys.version_info[:2]) -> None:
    """Refuse a Python that Spark 3.5 and the native readers do not all run on."""
    if not OLDEST <= version <= NEWEST:
        raise UsageError(
            Code.UNSUPPORTED_PYTHON,
            f"Headwater runs on Python {_dotted(OLDEST)} to {_dotted(NEWEST)}; this is {_dotted(version)}",
            hint=f"make the environment again with python{_dotted(NEWEST)}",
        )


def require_extra(extra: str, module: str) -> ModuleType:
    """The module, imported late; an extra that is not installed is named with a hint."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # Only the extra's own absence is ours to explain: a broken package keeps its own message.
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise UsageError(
            Code.MISSING_EXTRA,
            f"this needs the extra '{extra}' (module {module} is not installed)",
            hint=f"pip install 'headwater[{extra}]'",
        ) from None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
