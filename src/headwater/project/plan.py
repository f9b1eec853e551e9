"""What a run would do to the lake: a pure difference of the project and what the lake records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headwater.core.errors import Code, UsageError
from headwater.core.model import Kind
from headwater.core.record import Record
from headwater.core.spec import RelationSpec, Topic
from headwater.core.state import RelationRecord
from headwater.formats.base import Capability, Format
from headwater.formats.registry import FORMATS
from headwater.project.columns import declared_types
from headwater.project.definition import ProjectDefinition
from headwater.project.fingerprint import source_changes
from headwater.project.forward import goes_on
from headwater.project.graph import Name, graph_of
from headwater.project.transforms import streaming_tables


class Action(str, Enum):
    """What becomes of a relation."""

    CREATE = "create"
    CHANGE = "change"
    REBUILD = "rebuild"
    LEAVE = "leave"


class Effect(Enum):
    """What a changed key of a definition asks for, and how that is said."""

    NOTE = "nothing has to be done"
    FORWARD = "from the next step on; what is there stays as it is"
    GROW = "from the next step on; the new columns are NULL in the rows that are there"
    LAYOUT = "for what is rebuilt; this table keeps the layout it was made with"
    PARTITION = "changed in place: what is written from now on lies otherwise, files stay as they are, nothing is read"
    REFILL = "its rows are rebuilt"
    REMAKE = "the table is rebuilt"


@dataclass(frozen=True)
class Difference(Record):
    """One key of a definition that is not what it was."""

    key: str
    before: object
    after: object
    effect: Effect
    because: str | None = None
    """Why it asks for no less."""

    def to_dict(self) -> dict[str, object]:
        """As programs read it."""
        told = {"key": self.key, "before": self.before, "after": self.after}
        return {**told, "effect": self.effect.value, "because": self.because}

    def __str__(self) -> str:
        told = self.effect.value if self.because is None else f"{self.effect.value}: {self.because}"
        return f"{self.key}: {_shown(self.before)} → {_shown(self.after)} ({told})"


@dataclass(frozen=True)
class PlannedChange:
    """One relation and what happens to it."""

    name: Name
    action: Action
    why: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    reads: tuple[str, ...] = ()
    """What is read from its beginning for that: relations, or `sources.x`."""

    @property
    def destructive(self) -> bool:
        """Whether rows go that only a second reading brings back, if it does. A view is always its query."""
        return self.action is Action.REBUILD and self.name.kind is not Kind.VIEW

    @property
    def goes_on(self) -> bool:
        """Whether another query or function goes on from where the last one has come."""
        return self.action is Action.CHANGE and any(one.key in ("sql", "transform") for one in self.differences)

    @property
    def is_remapped(self) -> bool:
        """Whether `topic remap` would apply the change to the rows that are there."""
        keys = {one.key for one in self.differences}
        return self.name.kind is Kind.TOPIC and self.action is Action.CHANGE and bool(keys & _BY_REMAP)

    @property
    def reads_otherwise(self) -> bool:
        """Whether a topic's source is another one from now on, or is read in another way."""
        return any(one.key.startswith("source.") and one.effect is not Effect.NOTE for one in self.differences)

    @property
    def remade(self) -> bool:
        """Whether the table itself has to go, not its rows alone."""
        return any(one.effect is Effect.REMAKE for one in self.differences)


_EFFECTS: Mapping[str, Effect] = {
    "description": Effect.NOTE,
    "tags": Effect.NOTE,
    "owner": Effect.NOTE,
    "format": Effect.REMAKE,
    "path": Effect.REMAKE,
    "table": Effect.REMAKE,
    "partition_by": Effect.REMAKE,
    "keys": Effect.REMAKE,
    "apply": Effect.REMAKE,
    "sql": Effect.REFILL,
    "transform": Effect.REFILL,
    "watermark": Effect.REFILL,
    "z_order_by": Effect.LAYOUT,
    "cluster": Effect.LAYOUT,
    "target_file_size": Effect.LAYOUT,
    "parquet": Effect.LAYOUT,
    "options": Effect.LAYOUT,
}
"""By key; any other one is taken up by the next step."""
_NOTED = frozenset(key for key, effect in _EFFECTS.items() if effect is Effect.NOTE)
_BY_REMAP = frozenset({"include_events", "exclude_events", "filter", "mappers", "schema", "deduplicate_by"})
"""Keys of a topic by which a remap makes its rows again."""
_APPLY: Mapping[str, Effect] = {"tombstones": Effect.FORWARD, "delete_when": Effect.REFILL}
_BECAUSE: Mapping[str, str] = {
    "format": "its files are of the other format",
    "path": "it lies elsewhere",
    "table": "it lies elsewhere",
    "keys": "its rows are told apart by the old ones",
    "apply.keys": "its rows are told apart by the old ones",
    "apply.sequence_by": "its rows hold the old order",
    "apply.history": "what is kept of a row is another thing",
    "apply.deletes": "what is kept of a deleted row is another thing",
    "apply.delete_when": "which changes were deletes is asked once, when they come",
    "watermark": "which rows came late is asked once, when they come",
    "from": "its rows are those of the old one",
}
"""By key: why rows that are there can't stay."""


def plan(project: ProjectDefinition, records: Iterable[RelationRecord]) -> list[PlannedChange]:
    """Everything that differs, topics first, then each relation after what it reads; what is as it was is left out."""
    records = list(records)
    _check_statements(project, records)
    recorded = {Name(record.kind, record.name): record for record in records if record.origin == "project"}
    found = [
        _planned(project, name, definition, recorded.get(name))
        for name, definition in _in_order(project)
        if not (name.kind is Kind.TABLE and _is_by_hand(definition) and name not in recorded)
    ]
    gone = [
        PlannedChange(
            name, Action.LEAVE, ("it is not in the project any more: nothing keeps it, and nothing is dropped",)
        )
        for name in recorded
        if name.name not in project.relations(name.kind)
    ]
    return [*(one for one in found if one is not None), *gone]


def _check_statements(project: ProjectDefinition, records: Iterable[RelationRecord]) -> None:
    """What a statement made is left alone, so nothing of the project can have its name."""
    for record in records:
        definition = project.relations(record.kind).get(record.name)
        if record.origin == "statement" and definition is not None:
            raise UsageError(
                Code.DUPLICATE_NAME,
                f"there is a {record.kind.value} '{record.name}' already, which a statement made",
                where=definition.where,
                hint=f"take another name, or drop it first: DROP MATERIALIZED VIEW {record.name}",
            )


def _in_order(project: ProjectDefinition) -> list[tuple[Name, RelationSpec]]:
    topics = [(Name(Kind.TOPIC, name), topic) for name, topic in project.topics.items()]
    after = graph_of(project).order()
    return [*topics, *((name, project.relations(name.kind)[name.name]) for name in after)]


def _planned(
    project: ProjectDefinition, name: Name, definition: RelationSpec, record: RelationRecord | None
) -> PlannedChange | None:
    reads = _reads(project, name, definition)
    if record is None:
        return PlannedChange(name, Action.CREATE, ("it is not there yet",), reads=reads)
    if record.made_from is None:
        return None  # of a release that did not say by what: it is noted with the next run
    differences = tuple(_differences(project, name, definition, record))
    rebuilt = [one for one in differences if one.effect in (Effect.REFILL, Effect.REMAKE)]
    if rebuilt and _is_by_hand(definition):
        hint = f"its rows were put in by hand: `headwater table drop {name.name} --yes`, and load them again"
        return PlannedChange(name, Action.LEAVE, (*map(str, rebuilt), hint), differences)
    if rebuilt:
        return PlannedChange(name, Action.REBUILD, tuple(map(str, rebuilt)), differences, reads)
    return PlannedChange(name, Action.CHANGE, tuple(map(str, differences)), differences) if differences else None


def _differences(
    project: ProjectDefinition, name: Name, definition: RelationSpec, record: RelationRecord
) -> Iterable[Difference]:
    before: dict[str, Any] = json.loads(record.made_from or "{}")
    after = json.loads(definition.model_dump_json())
    before["format"], after["format"] = record.format, project.format_of(definition)
    for key in after:
        old, new = before[key] if key in before else _default(definition, key), after[key]
        if old == new:
            continue
        if key == "apply" and old is not None and new is not None:
            yield from _apply_differences(old, new)
        else:
            effect, because = _effect(project, name, key, record.format, old, new)
            yield Difference(key, old, new, effect, because)
    if isinstance(definition, Topic) and before.get("from") == after["from"]:
        for key, old, new in source_changes(project, definition, record.source):
            yield Difference(f"source.{key}", old, new, Effect.NOTE if key in _NOTED else Effect.FORWARD)


def _apply_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[Difference]:
    for key in new:
        if old.get(key, new[key]) != new[key]:
            path, effect = f"apply.{key}", _APPLY.get(key, Effect.REMAKE)
            because = None if effect is Effect.FORWARD else _BECAUSE.get(path)
            yield Difference(path, old.get(key), new[key], effect, because)


Told = tuple[Effect, str | None]
"""What a change asks for, and why no less."""


def _effect(project: ProjectDefinition, name: Name, key: str, format: str, old: Any, new: Any) -> Told:
    if name.kind is Kind.TABLE and key in ("sql", "transform") and old is not None and new is not None:
        return _of_query(project, old, new) if key == "sql" else _of_function(project, name)
    if key == "schema" and name.kind is Kind.TABLE:  # a topic's says what becomes of values, from the next step on
        if _is_linear(project, name):
            return _of_function(project, name)
        if old is not None and new is not None and not project.tables[name.name].transform:
            return _of_types(old, new, FORMATS.get(format))
    if key == "partition_by":
        return _of_partitioning(name, FORMATS.get(format))
    if key == "from" and name.kind is Kind.TABLE:
        return Effect.REFILL, _BECAUSE[key]
    effect = _EFFECTS.get(key, Effect.FORWARD)
    return effect, _BECAUSE.get(key) if effect in (Effect.REFILL, Effect.REMAKE) else None


def _of_query(project: ProjectDefinition, old: str, new: str) -> Told:
    """A changed query goes on from where it is if no row that is there is touched again."""
    found = goes_on(project, old, new)
    if found.why_not is not None:
        return Effect.REFILL, found.why_not
    return (Effect.GROW if found.added else Effect.FORWARD), None


def _of_function(project: ProjectDefinition, name: Name) -> Told:
    """A function over changes looks at single rows: over topics, which lose none, another one may go on."""
    if name.name in streaming_tables(project):
        return Effect.REFILL, "a streaming query holds state of its own"
    changing = next((each.of for each in graph_of(project).inputs[name] if each.of.kind is not Kind.TOPIC), None)
    if changing is not None:
        return Effect.REFILL, f"rows of {changing} may be changed or deleted"
    return Effect.FORWARD, None


def _of_types(old: str, new: str, format: Format) -> Told:
    """Columns may come and go; one of another type needs a format that can make it that."""
    before, after = declared_types(old), declared_types(new)
    for column, type_ in after.items():
        was = before.get(column, type_)
        if was != type_ and (was.partition("(")[0], type_.partition("(")[0]) not in format.widenings:
            return Effect.REMAKE, f"column '{column}' becomes {type_}, and {format.title} can't widen {was} to that"
    return Effect.FORWARD, None


def _is_linear(project: ProjectDefinition, name: Name) -> bool:
    """Whether a table is made by a function that runs on changes."""
    return project.tables[name.name].transform is not None and name.name not in streaming_tables(project)


def _of_partitioning(name: Name, format: Format) -> Told:
    """In place where the format can; a view's own table is made alongside the old one anyway."""
    if name.kind is Kind.VIEW:
        return Effect.REFILL, None
    if format.can(Capability.EVOLVE_PARTITIONING):
        return Effect.PARTITION, None
    having = [other.title for other in FORMATS if other.can(Capability.EVOLVE_PARTITIONING)]
    return Effect.REMAKE, f"{format.title} can't {Capability.EVOLVE_PARTITIONING.value}, {' and '.join(having)} can"


def _default(definition: RelationSpec, key: str) -> Any:
    """What a key was before it was known: as if it had not been given."""
    fields = type(definition).model_fields.items()
    name, field = next((name, field) for name, field in fields if key in (name, field.alias))
    bare = type(definition).model_construct(**{name: field.get_default(call_default_factory=True)})
    return json.loads(bare.model_dump_json(include={name})).get(key)


def _reads(project: ProjectDefinition, name: Name, definition: RelationSpec) -> tuple[str, ...]:
    if name.kind is Kind.TOPIC:
        return (f"sources.{getattr(definition, 'from_', '?')}",)
    return tuple(dict.fromkeys(str(each.of) for each in graph_of(project).inputs[name]))


def _is_by_hand(definition: RelationSpec) -> bool:
    origins = getattr(definition, "origins", {"sql": True})
    return not any(origins.values())


def _shown(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= 60 else one_line[:57] + "…"
