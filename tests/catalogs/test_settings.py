"""What each type of catalog tells Spark and pyiceberg."""

from __future__ import annotations

import pytest

from headwater.catalogs.base import CatalogSpec, LakeLocation, spark_conf
from headwater.catalogs.glue import GlueCatalog
from headwater.catalogs.hadoop import HadoopCatalog
from headwater.catalogs.hive import HiveCatalog
from headwater.catalogs.jdbc import JdbcCatalog
from headwater.catalogs.registry import CATALOGS
from headwater.catalogs.rest import RestCatalog
from headwater.core.secret import Secret
from headwater.core.spec.settings import AzureSpec, S3Spec
from headwater.formats.iceberg.native import file_properties

PLACE = LakeLocation("/lake", "/project/.headwater")


def test_the_embedded_catalog_is_a_file_beside_the_project() -> None:
    conf = spark_conf("lake", JdbcCatalog(), PLACE)
    assert conf["spark.sql.catalog.lake"] == "org.apache.iceberg.spark.SparkCatalog"
    assert conf["spark.sql.catalog.lake.type"] == "jdbc"
    assert conf["spark.sql.catalog.lake.warehouse"] == "/lake"
    assert conf["spark.sql.catalog.lake.uri"].startswith("jdbc:sqlite:/project/.headwater/iceberg.db?")
    assert conf["spark.sql.catalog.lake.clients"] == "1"
    assert JdbcCatalog().native_properties(PLACE) == {
        "type": "sql",
        "uri": "sqlite:////project/.headwater/iceberg.db",
        "warehouse": "/lake",
        "init_catalog_tables": "false",
    }
    assert JdbcCatalog().connectors() == ("sqlite",)


def test_a_database_server_is_reached_by_both_sides() -> None:
    spec = JdbcCatalog(
        uri=Secret("jdbc:postgresql://db:5433/ice"), user="ann", password=Secret("p@ss/word"), warehouse="s3a://b/w"
    )
    found = spec.properties(PLACE)
    assert (found["jdbc.user"], found["jdbc.password"], found["warehouse"]) == ("ann", "p@ss/word", "s3a://b/w")
    assert "clients" not in found
    native = spec.native_properties(PLACE)
    assert native is not None
    assert native["uri"] == "postgresql+psycopg://ann:p%40ss%2Fword@db:5433/ice"
    assert spec.connectors() == ("postgres",)


def test_a_user_in_the_address_of_the_database_is_found() -> None:
    native = JdbcCatalog(uri=Secret("jdbc:postgresql://db/ice?user=ann&password=x")).native_properties(PLACE)
    assert native is not None
    assert native["uri"] == "postgresql+psycopg://ann:x@db/ice"


def test_a_database_that_pyiceberg_does_not_know_has_no_light_side() -> None:
    assert JdbcCatalog(uri=Secret("jdbc:mysql://db/ice")).native_properties(PLACE) is None


def test_a_rest_catalog_gets_a_warehouse_only_if_one_is_named() -> None:
    spec = RestCatalog(uri="http://c", credential=Secret("id:secret"), scope="PRINCIPAL", oauth2_server_uri="http://o")
    assert (
        spec.properties(PLACE)
        == spec.native_properties(PLACE)
        == {
            "type": "rest",
            "uri": "http://c",
            "credential": "id:secret",
            "scope": "PRINCIPAL",
            "oauth2-server-uri": "http://o",
        }
    )
    assert RestCatalog(uri="http://c", warehouse="main").properties(PLACE)["warehouse"] == "main"
    assert RestCatalog(uri="http://c", token=Secret("t")).properties(PLACE)["token"] == "t"


def test_glue_hive_and_hadoop() -> None:
    glue = GlueCatalog(region="eu-west-1", catalog_id="123")
    assert glue.properties(PLACE) == {
        "type": "glue",
        "warehouse": "/lake",
        "client.region": "eu-west-1",
        "glue.id": "123",
    }
    assert glue.connectors() == ("iceberg-aws",)
    assert HiveCatalog(uri="thrift://h:9083").properties(PLACE) == {
        "type": "hive",
        "warehouse": "/lake",
        "uri": "thrift://h:9083",
    }
    assert HadoopCatalog(warehouse="/other").properties(PLACE) == {"type": "hadoop", "warehouse": "/other"}
    assert HadoopCatalog().native_properties(PLACE) is None


@pytest.mark.parametrize("kind", ["jdbc", "rest", "glue", "hive", "hadoop"])
def test_options_win_and_nothing_is_cached(kind: str) -> None:
    given = {"uri": "x:y"} if kind in ("rest", "hive") else {}
    spec: CatalogSpec = CATALOGS.get(kind).model_validate({**given, "options": {"io-impl": "my.IO", "type": "z"}})
    conf = spark_conf("c", spec, PLACE)
    assert conf["spark.sql.catalog.c.io-impl"] == "my.IO"
    assert conf["spark.sql.catalog.c.type"] == "z"
    assert conf["spark.sql.catalog.c.cache-enabled"] == "false"


def test_secrets_do_not_show() -> None:
    spec = RestCatalog(uri="http://c", token=Secret("hush"), credential=Secret("id:hush"))
    assert "hush" not in repr(spec) + spec.model_dump_json()


def test_the_light_side_gets_the_keys_of_the_store() -> None:
    s3 = S3Spec(endpoint="http://s:9000", access_key=Secret("a"), secret_key=Secret("b"), region="r", path_style=True)
    assert file_properties({"s3": s3, "azure": AzureSpec(account="acc"), "gcs": None}) == {
        "s3.endpoint": "http://s:9000",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "r",
        "s3.force-virtual-addressing": "false",
        "adls.account-name": "acc",
    }
    assert file_properties({}) == {}
