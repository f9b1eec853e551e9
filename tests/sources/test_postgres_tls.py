"""Both sources of Postgres by TLS, with both clients: libpq, which asks and follows, and Spark's tasks by JDBC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError, TransientError
from tests.services.postgres import Server
from tests.services.tls import Identity, tls_before
from tests.sources.cdc_lab import Crm, Follower, told
from tests.sources.events_lab import Flow, Store

Address = Callable[..., str]


@pytest.fixture(scope="module")
def by_tls(postgres_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """The address of a database that is to be had by TLS alone, with the settings given."""
    folder = tmp_path_factory.mktemp("tls")
    trusted, other = (Identity.make(folder, name) for name in ("trusted", "other"))
    with tls_before(postgres_server.port, trusted) as port:

        def address(dsn: str, mode: str = "verify-full", *, trust: bool = True) -> str:
            root = (trusted if trust else other).certificate
            return dsn.replace(f":{postgres_server.port}/", f":{port}/") + f"?sslmode={mode}&sslrootcert={root}"

        yield address


def test_an_event_store(spark: SparkSession, postgres_server: Server, by_tls: Address, tmp_path: Path) -> None:
    store = Store.make(postgres_server)
    store.add(12_000)  # so many that Spark's tasks read them
    flow = Flow(spark, tmp_path / "flow", {"dsn": by_tls(store.dsn)})
    assert flow.all() == list(range(1, 12_001))


def test_changes(spark: SparkSession, crm: Crm, by_tls: Address) -> None:
    crm.run("CREATE TABLE a (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    flow = Follower(spark, crm, "public.a", ("public.a",), {"dsn": by_tls(crm.dsn)})
    assert told(flow.all()) == [("r", None, {"id": "1"})]
    crm.run("INSERT INTO a VALUES (2)")
    assert told(flow.all()) == [("i", None, {"id": "2"})]
    flow.close()


@pytest.mark.parametrize("settings", [{"mode": "disable"}, {"trust": False}])
def test_who_is_not_trusted(
    spark: SparkSession, postgres_server: Server, by_tls: Address, tmp_path: Path, settings: dict[str, Any]
) -> None:
    store = Store.make(postgres_server)
    with pytest.raises(HeadwaterError) as raised:
        Flow(spark, tmp_path, {"dsn": by_tls(store.dsn, **settings)}).step()
    assert raised.value.code is Code.SOURCE_UNAVAILABLE and isinstance(raised.value, TransientError)
    assert "hidden" not in str(raised.value)
    if settings.get("trust") is False:
        assert "certificate verify failed" in str(raised.value) and "`sslrootcert`" in str(raised.value)
