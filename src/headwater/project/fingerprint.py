"""What tells two definitions of a relation apart."""

from __future__ import annotations

import hashlib

from headwater.core.spec import RelationSpec


def fingerprint(definition: RelationSpec) -> str:
    """Changes when the definition does."""
    return hashlib.sha256(definition.model_dump_json().encode()).hexdigest()[:16]
