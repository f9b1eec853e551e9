"""What all tests share: one Spark session with every format, the lake around it, and the seed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.formats.base import LakeContext
    from tests.runtime.running import Running

pytest_plugins = ["tests.tiers"]

# The archive of Spark's classes that `make install` has written is used; no test's Spark writes one when it ends.
os.environ.setdefault("HEADWATER_CLASS_ARCHIVE", "use")

TINY = {
    # One JVM answers some two thousand tests.
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # Code for a handful of rows takes far longer to write and compile than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # With its quick compiler alone Java keeps 48 MB of machine code. All formats together need much more, and what
    # does not fit is thrown away and compiled again. Room from the beginning saves collections that find no garbage.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC -Xms1g -XX:MetaspaceSize=512m"
    ),
}
"""For queries over a handful of rows."""

SEED = int(os.environ.get("HEADWATER_SEED", "20240229"))


def pytest_report_header() -> str:
    return f"HEADWATER_SEED={SEED}"


class Groups(LoadScopeScheduling):
    """With several processes (`-n 2`) what shares something dear to start runs in one of them."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.split("::", 1)[0]
        if "/test_kafka" in module:
            return "kafka"
        format = re.search(r"\[(delta|hudi|iceberg|paimon|parquet)\b", nodeid) if "/conformance/" in module else None
        return f"conformance {format.group(1)}" if format else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    return Groups(config, log)


@pytest.fixture(autouse=True)
def vectorized() -> None:
    """Hudi turns Spark's vectorized reader on or off for the whole session that plans a scan: each test starts with it
    as it was. Without generated code Delta's scans go by it, and would take one kind of row for another."""
    loaded = sys.modules.get("pyspark.sql")
    running = None if loaded is None else loaded.SparkSession._instantiatedSession
    if running is not None and running.sparkContext._jsc is not None:
        running.conf.unset("spark.sql.parquet.enableVectorizedReader")


@pytest.fixture(scope="session")
def seed() -> int:
    """Where every random test starts; the header of the report shows it."""
    return SEED


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> LakeContext:
    """A lake of its own, with the embedded catalog."""
    from headwater.catalogs.jdbc import JdbcCatalog
    from headwater.formats.base import LakeContext

    root = tmp_path_factory.mktemp("lake")
    home = root / ".headwater"
    home.mkdir()
    return LakeContext(warehouse=str(root / "warehouse"), home=str(home), catalogs={"lake": JdbcCatalog()})


@pytest.fixture(scope="session")
def spark(context: LakeContext) -> Iterator[SparkSession]:
    """The one Spark of this process: starting it is slow, and so is the first use of each format."""
    from pathlib import Path

    from headwater.core.progress import byte_bar
    from headwater.core.spec import SparkSpec
    from headwater.formats.registry import FORMATS
    from headwater.spark.session import SessionNeeds, close_session, open_session

    needs = [SessionNeeds(connectors=("kafka", "avro", "postgres")), *(format.needs(context) for format in FORMATS)]
    with byte_bar("Fetching connectors") as progress:
        session = open_session(
            "tests", needs, SparkSpec(master="local[2]", conf=TINY), home=Path(context.home), progress=progress
        )
    yield session
    close_session(session)


@pytest.fixture
def runners() -> Iterator[list[Running]]:
    """Processes that a test starts: what of them still runs at its end is ended."""
    started: list[Running] = []
    yield started
    for runner in started:
        runner.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that follows a hint has to meet it."""
    if item.get_closest_marker("follows") is None:
        return (yield)
    from tests.hints.followed import looked_for

    with looked_for(item.iter_markers("follows")):
        return (yield)
