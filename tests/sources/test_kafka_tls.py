"""A broker that is to be had by TLS alone: with a certificate for each side, or with a user and a password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.core.errors import Code, HeadwaterError
from tests.services.kafka import USER, Broker, Tls
from tests.services.tls import Identity
from tests.sources.kafka_lab import Flow, rows_of
from tests.sources.test_kafka_to_lake import Project


@pytest.fixture
def tls(kafka: Broker) -> Tls:
    if kafka.tls is None:
        pytest.skip("openssl makes the certificates of this test")
    return kafka.tls


def test_certificates_on_both_sides(kafka: Broker, tls: Tls, spark: SparkSession, tmp_path: Path) -> None:
    """By both clients: the driver's, which asks for offsets, and Spark's, which reads."""
    kafka.create("tls.mutual")
    kafka.send("tls.mutual", [{"value": b"x"}, {"value": b"y"}])
    trust = {"protocol": "SSL", "ca": str(tls.broker.certificate)}
    both = {**trust, "certificate": str(tls.client.certificate), "key": str(tls.client.key)}
    settings = {"brokers": tls.address, "topic": "tls.mutual", "value": "string"}
    flow = Flow(spark, tmp_path, {**settings, "security": both})
    assert flow.offsets() == [("tls.mutual", 0, 0), ("tls.mutual", 0, 1)]
    other = Identity.make(tmp_path, "other")
    wrong: list[dict[str, Any]] = [trust, {**both, "ca": str(other.certificate)}]
    wrong.append({**both, "certificate": str(other.certificate), "key": str(other.key)})
    for security in wrong:
        with pytest.raises(HeadwaterError) as caught:
            Flow(spark, tmp_path, {**settings, "security": security}).ahead()
        assert caught.value.code is Code.SOURCE_UNAVAILABLE and tls.address in str(caught.value)
        assert "`security`" in str(caught.value)


def test_a_password_by_tls_into_the_lake(kafka: Broker, tls: Tls, spark: SparkSession, tmp_path: Path) -> None:
    kafka.create("tls.login")
    kafka.send("tls.login", [rows_of(id=1)])
    (tmp_path / "ca.pem").write_text(tls.broker.certificate.read_text())
    user, password = USER
    security = {"protocol": "SASL_SSL", "username": user, "password": password, "ca": "ca.pem"}
    source = {"type": "kafka", "brokers": tls.login_address, "topic": "tls.login", "security": security}
    project = Project(tmp_path)
    project.write({"secure": source}, {"secure": {"from": "secure"}})
    answer = project.run()
    assert answer.code == 0, answer.out + answer.err
    assert project.query("SELECT id FROM topic('secure')") == [{"id": 1}]
    project.write(
        {"secure": {**source, "security": {**security, "password": "not-this"}}}, {"secure": {"from": "secure"}}
    )
    answer = project.run()
    assert answer.code == 1 and "SOURCE_UNAVAILABLE" in answer.out + answer.err
    assert "not-this" not in answer.out + answer.err and password not in answer.out + answer.err
