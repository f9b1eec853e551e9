"""What tells two definitions of a relation apart."""

from __future__ import annotations

import hashlib

from headwater.core.spec import Definition

_NOT_ITS_ROWS = {"interop", "publish", "cluster"}
"""Keys that came after lakes were made, and change no row: a definition is told apart as before them."""

_MAINTENANCE = {"compact": None, "retain": None}


def fingerprint(definition: Definition) -> str:
    """Changes when the definition does, but for what maintenance goes by."""
    definition = definition.model_copy(update=_MAINTENANCE)
    return hashlib.sha256(definition.model_dump_json(exclude=_NOT_ITS_ROWS).encode()).hexdigest()[:16]
