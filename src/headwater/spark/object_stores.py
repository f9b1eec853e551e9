"""What Spark has to be told to reach the object stores of a project."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.core.spec import S3Spec, StorageSpec
from headwater.spark.session import SessionNeeds

S3A = "spark.hadoop.fs.s3a."


def storage_needs(storage: StorageSpec, locations: Iterable[str]) -> SessionNeeds:
    """The connector and settings of the stores that the locations, or `storage:`, name."""
    uses_s3 = storage.s3 is not None or any(location.startswith(("s3://", "s3a://")) for location in locations)
    if not uses_s3:
        return SessionNeeds()
    return SessionNeeds(connectors=("s3",), conf=_s3(storage.s3 or S3Spec()))


def _s3(spec: S3Spec) -> dict[str, str]:
    conf = {
        f"{S3A}path.style.access": str(spec.path_style).lower(),
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }
    if spec.endpoint:
        conf[f"{S3A}endpoint"] = spec.endpoint
        conf[f"{S3A}connection.ssl.enabled"] = str(not spec.endpoint.startswith("http://")).lower()
    if spec.region:
        conf[f"{S3A}endpoint.region"] = spec.region
    if spec.access_key and spec.secret_key:
        conf[f"{S3A}access.key"] = spec.access_key.reveal()
        conf[f"{S3A}secret.key"] = spec.secret_key.reveal()
        if spec.session_token:
            conf[f"{S3A}session.token"] = spec.session_token.reveal()
            conf[f"{S3A}aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
    return conf
