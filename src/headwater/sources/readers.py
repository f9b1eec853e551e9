"""What reads each type of source: one line each, imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from headwater.core.errors import Code
from headwater.core.registry import Registry
from headwater.sources.base import SourceSpec
from headwater.sources.reader import Reader, ReaderContext

Opener = Callable[[SourceSpec, ReaderContext], Reader]

READERS: Registry[Opener] = Registry("type of source", "headwater.readers", Code.NOT_RUNNABLE_YET)


def open_reader(spec: SourceSpec, context: ReaderContext) -> Reader:
    """A reader of a source for one flow."""
    return READERS.get(spec.type)(spec, context)


def _late(module: str, name: str) -> Opener:
    def opener(spec: SourceSpec, context: ReaderContext) -> Reader:
        reader: Reader = getattr(import_module(f"headwater.sources.{module}"), name)(spec, context)
        return reader

    return opener


READERS.add("append", _late("append.reader", "AppendReader"))
READERS.add("files", _late("files.reader", "FilesReader"))
READERS.add("kafka", _late("kafka.reader", "KafkaReader"))
READERS.add("table", _late("table.reader", "TableReader"))
READERS.add("postgres_events", _late("postgres.events.reader", "PostgresEventsReader"))
READERS.add("postgres_cdc", _late("postgres.cdc.reader", "PostgresCdcReader"))
