"""The types of sources: one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from headwater.core.errors import Code, UsageError
from headwater.core.registry import Registry
from headwater.core.secret import address_without_login
from headwater.sources.append.config import AppendSource
from headwater.sources.base import Remark, SourceSpec
from headwater.sources.datagen.config import DatagenSource
from headwater.sources.discovery import Discovered
from headwater.sources.files.config import FilesSource
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.events.config import PostgresEventsSource
from headwater.sources.setup import Preparation
from headwater.sources.table.config import TableSource

SOURCES: Registry[type[SourceSpec]] = Registry("type of source", "headwater.sources", Code.UNKNOWN_SOURCE_TYPE)
SOURCES.add("files", FilesSource)
SOURCES.add("kafka", KafkaSource)
SOURCES.add("postgres_events", PostgresEventsSource)
SOURCES.add("postgres_cdc", PostgresCdcSource)
SOURCES.add("table", TableSource)
SOURCES.add("append", AppendSource)
SOURCES.add("datagen", DatagenSource)


def preparation(spec: SourceSpec, project: str) -> Preparation:
    """What a source needs for this project; an error where its type needs nothing. `headwater source setup` asks."""
    if spec.setup_module is None:
        prepared = ", ".join(name for name in SOURCES.names() if SOURCES.get(name).setup_module)
        raise UsageError(
            Code.UNSUPPORTED,
            f"sources.{spec.name} is of type {spec.type}: nothing is prepared for it, as it is for {prepared}",
            where=spec.where,
            hint="its topics can run as they are: headwater run",
        )
    found: Preparation = import_module(spec.setup_module).preparation(spec, project)
    return found


def remarks(spec: SourceSpec, locate: Callable[[str], str]) -> Iterable[Remark]:
    """What can be seen of a source at a glance; `locate` gives a path as Spark takes it."""
    if spec.remarks_module is None:
        return ()
    found: Iterable[Remark] = import_module(spec.remarks_module).remarks(spec, locate(getattr(spec, "path", "")))
    return found


def discovered(address: str) -> Discovered:
    """What is behind an address: the first type of source that knows it looks there. `headwater init --from` asks."""
    for spec in SOURCES:
        if spec.discovery_module is not None:
            found: Discovered | None = import_module(spec.discovery_module).discover(address)
            if found is not None:
                return found
    raise UsageError(
        Code.USAGE,
        f"nothing is found at {address_without_login(address)}",
        hint="name a file or folder that is there, kafka://broker:9092/topic, or"
        " postgresql://user:password@host/database?table=public.events",
    )
