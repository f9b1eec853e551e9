"""A project, its lake and its state, as recovery works on them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from headwater.catalogs.base import DEFAULT, CatalogSpec, LakeLocation
from headwater.catalogs.embedded import EmbeddedCatalog, embedded
from headwater.catalogs.jdbc import JdbcCatalog
from headwater.core.state import RelationRecord, State
from headwater.core.storage import Files
from headwater.flows.ledger import Ledger
from headwater.formats.base import LakeContext
from headwater.formats.iceberg.names import split
from headwater.formats.registry import FORMATS
from headwater.project.definition import ProjectDefinition
from headwater.recovery.manifest import Manifest

if TYPE_CHECKING:
    from headwater.formats.iceberg.recovery import Step


@dataclass(frozen=True)
class Context:
    """One lake."""

    project: ProjectDefinition
    state: State

    @cached_property
    def context(self) -> LakeContext:
        return self.project.lake_context

    @cached_property
    def files(self) -> Files:
        return Files(self.context.warehouse, self.context.storage)

    @property
    def manifest(self) -> Manifest:
        return Manifest(self.files)

    @property
    def warehouse(self) -> str:
        return self.context.warehouse

    @property
    def home(self) -> str:
        return self.context.home

    @cached_property
    def catalogs(self) -> Mapping[str, CatalogSpec]:
        return {DEFAULT: JdbcCatalog(), **self.context.catalogs}

    @property
    def embedded(self) -> list[str]:
        """The Iceberg catalogs that lie in the project's own folder."""
        return embedded(self.context.catalogs)

    @property
    def catalog(self) -> EmbeddedCatalog:
        return EmbeddedCatalog(LakeLocation(self.warehouse, self.home))

    def last_step(self, flow: str) -> Step | None:
        """A flow's newest step; of a flow that was started over and has had none, the end of all that came before."""
        ledger = Ledger(self.files, flow)
        last = ledger.last()
        if last is not None:
            return last.epoch, last.step
        epoch = ledger.epoch().number
        return (epoch, -1) if epoch > 1 else None

    @property
    def lacks_catalog(self) -> bool:
        """Whether relations are recorded in an embedded catalog that is not there."""
        tables = (record.table for record in self.state.relations() if FORMATS.get(record.format).in_catalogs)
        kept = any(table is not None and split(table)[0] in self.embedded for table in tables)
        return kept and not self.catalog.exists()

    def records(self) -> list[RelationRecord]:
        """What the state and the lake know of its relations, with paths as they are stored."""
        recorded = {(record.kind, record.name): record for record in self.manifest.records()}
        for record in self.state.stored_relations():
            stored = replace(record, path=self.state.roots.stored(record.path))
            recorded[(record.kind, record.name)] = stored
        return list(recorded.values())

    def in_warehouse(self, folder: str) -> str:
        return posixpath.join(self.warehouse.rstrip("/"), folder)
