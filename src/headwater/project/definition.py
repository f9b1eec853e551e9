"""A project: its settings, its definitions and its functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headwater.catalogs.base import CatalogSpec
from headwater.core.errors import Problem, ProjectError, Where
from headwater.core.model import Kind
from headwater.core.spec import Alert, Export, Monitor, RelationSpec, Settings, Table, Topic, View
from headwater.core.spec.base import Trigger
from headwater.formats.base import LakeContext
from headwater.project.decorators import Registered
from headwater.project.load.files import HOME
from headwater.sources.base import SourceSpec

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


@dataclass(frozen=True)
class ProjectDefinition:
    """Everything a project defines. Frozen data: what acts on it lives elsewhere."""

    file: Path
    settings: Settings
    target: str | None = None
    catalogs: Mapping[str, CatalogSpec] = field(default_factory=dict)
    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    exports: Mapping[str, Export] = field(default_factory=dict)
    monitors: Mapping[str, Monitor] = field(default_factory=dict)
    alerts: Mapping[str, Alert] = field(default_factory=dict)
    functions: tuple[Registered, ...] = ()
    places: Mapping[str, Where] = field(default_factory=dict, repr=False, compare=False)
    """The place of every key in the files, by its dotted path; a query's is where its text begins."""
    written: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False, compare=False)
    """Values that hold variables, by dotted path: what they came to, and as they are written."""

    problems: tuple[Problem, ...] = field(default=(), repr=False, compare=False)
    """What is wrong with the files: such a project is looked at, and nothing is done by it."""

    def __post_init__(self) -> None:
        tables = {name: _plain(table, self.name) for name, table in self.tables.items()}
        views = {name: _plain(view, self.name) for name, view in self.views.items()}
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "views", views)

    def require_whole(self) -> None:
        """Raise where something is wrong with the files: asked before anything is done by a definition."""
        if self.problems:
            raise ProjectError(self.problems)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def root(self) -> Path:
        """The folder of the project file: what relative paths start from."""
        return self.file.parent

    @property
    def home(self) -> Path:
        """Where Headwater keeps what belongs to this machine: state, embedded catalog, socket, logs."""
        return self.root / HOME

    @property
    def warehouse(self) -> str:
        return self.location(self.settings.warehouse)

    @property
    def lake_context(self) -> LakeContext:
        """What a format has to know of this lake."""
        storage = {name: spec for name, spec in self.settings.storage if spec is not None}
        return LakeContext(self.warehouse, str(self.home), dict(self.catalogs), storage)

    def relations(self, kind: Kind) -> Mapping[str, RelationSpec]:
        return {Kind.TOPIC: self.topics, Kind.TABLE: self.tables, Kind.VIEW: self.views}[kind]

    def format_of(self, definition: RelationSpec) -> str:
        return definition.format or self.settings.format

    def trigger_of(self, definition: Topic | Table | Export) -> Trigger:
        return definition.trigger if definition.trigger is not None else self.settings.trigger

    def location(self, path: str) -> str:
        """A path as Spark takes it: absolute, `s3a://` for `s3://`."""
        scheme = _SCHEME.match(path)
        if scheme is None:
            return str((self.root / Path(path).expanduser()).resolve())
        rest = path[scheme.end() :]
        if scheme[1].lower() == "file":
            return "/" + rest.lstrip("/")
        return f"s3a://{rest}" if scheme[1].lower() in ("s3", "s3n") else path

    def where(self, path: str) -> Where:
        """Where a dotted path stands, or the nearest key above it that is written."""
        above = path
        while above:
            if above in self.places:
                found = self.places[above]
                return Where(found.file, found.line, path)
            above = above.rpartition(".")[0]
        return Where(self.file.name, None, path)


Queried = TypeVar("Queried", Table, View)


def _plain(definition: Queried, schema: str) -> Queried:
    """A definition whose query names relations without the project's name."""
    if definition.sql is None or schema.lower() not in definition.sql.lower():
        return definition
    from headwater.sql.schemas import without_schema  # with a parser of SQL, which many commands do without

    plain = without_schema(definition.sql, schema)
    return definition if plain == definition.sql else definition.model_copy(update={"sql": plain})
