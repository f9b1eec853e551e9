"""The types of sources: one line each."""

from __future__ import annotations

from headwater.core.errors import Code
from headwater.core.registry import Registry
from headwater.sources.append.config import AppendSource
from headwater.sources.base import SourceSpec
from headwater.sources.files.config import FilesSource
from headwater.sources.kafka.config import KafkaSource
from headwater.sources.postgres.cdc.config import PostgresCdcSource
from headwater.sources.postgres.events.config import PostgresEventsSource
from headwater.sources.table.config import TableSource

SOURCES: Registry[type[SourceSpec]] = Registry("type of source", "headwater.sources", Code.UNKNOWN_SOURCE_TYPE)
SOURCES.add("files", FilesSource)
SOURCES.add("kafka", KafkaSource)
SOURCES.add("postgres_events", PostgresEventsSource)
SOURCES.add("postgres_cdc", PostgresCdcSource)
SOURCES.add("table", TableSource)
SOURCES.add("append", AppendSource)
