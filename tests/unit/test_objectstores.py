"""What Spark is told of S3; nothing where a project does not use it."""

from __future__ import annotations

from headwater.core.secret import Secret
from headwater.core.spec import S3Spec, StorageSpec
from headwater.spark.object_stores import storage_needs


def test_a_local_lake_needs_nothing() -> None:
    needs = storage_needs(StorageSpec(), ["/data/lake"])
    assert (needs.connectors, dict(needs.conf)) == ((), {})


def test_a_lake_on_s3_needs_the_connector_even_without_keys() -> None:
    needs = storage_needs(StorageSpec(), ["s3a://bucket/lake"])
    assert needs.connectors == ("s3",) and not any("key" in key for key in needs.conf)


def test_keys_and_endpoint_reach_spark_and_are_not_shown() -> None:
    s3 = S3Spec(endpoint="http://127.0.0.1:9", access_key=Secret("AK"), secret_key=Secret("SK"), path_style=True)
    conf = storage_needs(StorageSpec(s3=s3), ["/data/lake"]).conf
    assert conf["spark.hadoop.fs.s3a.secret.key"] == "SK" and conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert "SK" not in repr(s3) and "AK" not in repr(s3)
