"""The real services that sources are tested against, started once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.services.kafka import Broker
    from tests.services.schema_registry import Registry


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
