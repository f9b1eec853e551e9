"""What tells two definitions of a relation apart, and of the source that a topic reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from headwater.core.secret import MASK, address_without_login, is_secret_key
from headwater.core.spec import Definition, Topic
from headwater.project.definition import ProjectDefinition
from headwater.sources.base import SourceSpec

Change = tuple[str, object, object]
"""A key, its value before and its value now."""

_NOT_ITS_ROWS = {"interop", "publish", "cluster"}
"""Keys that came after lakes were made, and change no row: a definition is told apart as before them."""

_MAINTENANCE = {"compact": None, "retain": None}


def fingerprint(definition: Definition) -> str:
    """Changes when the definition does, but for what maintenance goes by."""
    definition = definition.model_copy(update=_MAINTENANCE)
    return hashlib.sha256(definition.model_dump_json(exclude=_NOT_ITS_ROWS).encode()).hexdigest()[:16]


def source_text(project: ProjectDefinition, topic: Topic) -> str | None:
    """The definition of a topic's source as JSON, without its secrets: what the lake keeps of it."""
    source = project.sources.get(topic.from_)
    return None if source is None else json.dumps(_as_shown(source))


def source_changes(project: ProjectDefinition, topic: Topic, before: str | None) -> Iterator[Change]:
    """Keys of the source that are not what they were; of another type of source only that."""
    source = project.sources.get(topic.from_)
    if source is None or before is None:
        return
    old, new = json.loads(before), _as_shown(source)
    if old["type"] != new["type"]:
        yield "type", old["type"], new["type"]
        return
    for key, now in new.items():
        was = old.get(key, now)  # a key that the release before did not know
        if was != now:
            yield key, was, now


def _as_shown(source: SourceSpec) -> dict[str, Any]:
    return {key: _shown(key, value) for key, value in json.loads(source.model_dump_json()).items()}


def _shown(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shown(name, one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shown(key, one) for one in value]
    if isinstance(value, str):
        return MASK if is_secret_key(key) else address_without_login(value)
    return value
