"""The real services that sources are tested against, started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.services.kafka import Broker
    from tests.services.postgres import Server
    from tests.services.schema_registry import Registry
    from tests.sources.cdc_lab import Crm


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from tests.services.kafka import broker

    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    from tests.services.schema_registry import schema_registry

    with schema_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    from tests.services.postgres import server

    with server() as running:
        yield running


@pytest.fixture
def crm(postgres_server: Server, tmp_path: Path) -> Iterator[Crm]:
    """A database of a test's own, whose changes can be followed."""
    from tests.sources.cdc_lab import Crm

    made = Crm(postgres_server.database(), tmp_path)
    yield made
    made.end()
