"""The streaming exports of a lake: those of its project, and those that a command or statement has begun."""

from __future__ import annotations

from headwater.core.errors import Where
from headwater.core.spec import Export
from headwater.core.spec.base import placed
from headwater.warehouse import Warehouse

STREAMING = "streaming"


def stream_names(warehouse: Warehouse) -> list[str]:
    """Their names; without a look at what they copy."""
    named = [name for name, one in warehouse.project.exports.items() if one.mode == STREAMING]
    return [*named, *_stated(warehouse)]


def streams(warehouse: Warehouse) -> dict[str, Export]:
    """Each by its name."""
    found = {name: one for name, one in warehouse.project.exports.items() if one.mode == STREAMING}
    for name, text in _stated(warehouse).items():
        found[name] = placed(Export.model_validate_json(text), name, Where("statement"))
    return found


def _stated(warehouse: Warehouse) -> dict[str, str]:
    """What the state keeps of those that stand in no file, as JSON."""
    jobs = (job for job in warehouse.state.exports() if job.mode == STREAMING)
    known = warehouse.project.exports
    return {job.id: job.definition for job in jobs if job.definition is not None and job.id not in known}
