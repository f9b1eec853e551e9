"""One small lake for all statements and commands."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.sql.lab import Bench


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Bench:
    return Bench.make(tmp_path_factory.mktemp("bench"))
