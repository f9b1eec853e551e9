"""The settings of a project: everything in the file that is not a definition."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, field_validator
from pydantic import WithJsonSchema as JsonSchema

from headwater.core.secret import Secret
from headwater.core.spec.base import Count, Duration, Frozen, Interval, Names, Number, Options, Size, Trigger
from headwater.core.spec.defaults import DefaultsSpec
from headwater.core.units import WINDOW_FORM, parse_window

SQLITE = "sqlite"


class SparkSpec(Frozen):
    """Where Spark runs."""

    master: str = Field(
        default="local[*]",
        description="`local[*]` embeds Spark; `spark://…`, `yarn`, `k8s://…` use a cluster.",
    )
    ui: bool = Field(default=False, description="Whether Spark's own web page is up.")
    conf: Options = Field(default={}, description="Spark settings, passed on as they are.")


class S3Spec(Frozen):
    """Access to S3 or a store that speaks like it."""

    endpoint: str | None = Field(default=None, description="Address of the store; unset for AWS.")
    access_key: Secret | None = Field(default=None, description="Access key; unset to take it from the machine.")
    secret_key: Secret | None = Field(default=None, description="Secret key.")
    session_token: Secret | None = Field(default=None, description="Token of temporary keys.")
    region: str | None = Field(default=None, description="Region of the buckets.")
    path_style: bool = Field(
        default=False, description="Bucket in the path and not in the host name; most stores but AWS."
    )


class AzureSpec(Frozen):
    """Access to Azure Data Lake Storage."""

    account: str = Field(description="Name of the storage account.")
    account_key: Secret | None = Field(default=None, description="Its key; unset to take it from the machine.")


class GcsSpec(Frozen):
    """Access to Google Cloud Storage."""

    credentials_file: str | None = Field(
        default=None, description="Key file of a service account; unset for the machine's own."
    )


class JdbcSpec(Frozen):
    """Access to a database by its JDBC driver."""

    url: Secret = Field(description="Its address: `jdbc:…`.")
    user: str | None = Field(default=None, description="User.")
    password: Secret | None = Field(default=None, description="Password.")
    driver: str | None = Field(default=None, description="The driver's class, where its jar does not tell.")


class StorageSpec(Frozen):
    """Keys of the object stores and databases in use."""

    s3: S3Spec | None = Field(default=None, description="Amazon S3 and alike (`s3://`).")
    azure: AzureSpec | None = Field(default=None, description="Azure Data Lake Storage (`abfss://`).")
    gcs: GcsSpec | None = Field(default=None, description="Google Cloud Storage (`gs://`).")
    jdbc: dict[str, JdbcSpec] = Field(default={}, description="Databases that exports go to, by a name of your own.")


class RuntimeSpec(Frozen):
    """How the runner shares the machine."""

    max_concurrent_refreshes: Count = Field(default=2, description="Views refreshed at the same time.")
    lease: Interval = Field(
        default=timedelta(seconds=30),
        description="After this long without a heartbeat, a runner loses its flows to the next one that asks.",
    )
    stop_within: Duration = Field(
        default=timedelta(seconds=5), description="How long a running step may take to finish when the runner stops."
    )
    spark_restarts: Number = Field(
        default=3, description="How often a runner restarts a dead Spark within ten minutes; 0: never."
    )


class QueriesSpec(Frozen):
    """What a query may take, unless it is asked with limits of its own."""

    timeout: Duration | None = Field(
        default=timedelta(minutes=30), description="How long one may take; null: no limit."
    )
    max_rows: Count | None = Field(default=10_000_000, description="Rows of a result at most; null: no limit.")
    max_bytes: Size | None = Field(default=4 * 1024**3, description="Bytes of a result at most; null: no limit.")
    memory: Size = Field(
        default=2 * 1024**3, description="Heap of the Spark that answers queries while a runner is up."
    )
    idle: Interval = Field(
        default=timedelta(minutes=15), description="That Spark ends after this long without a query."
    )

    @field_validator("memory")
    @classmethod
    def _enough(cls, memory: int) -> int:
        if memory < 512 * 1024**2:  # Spark does not start with less
            raise ValueError("should be 512MB or more")
        return memory


def _port(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


Port = Annotated[int, Field(ge=0, le=65535), BeforeValidator(_port)]


class DoorSpec(Frozen):
    """A door of the server: another protocol to ask the lake by."""

    port: Port = Field(description="Port it listens on; 0 takes a free one.")


class ServerSpec(Frozen):
    """The HTTP server."""

    host: str = Field(default="127.0.0.1", description="Address it listens on.")
    port: Port = Field(default=8080, description="Port it listens on; 0 takes a free one.")
    tokens: str | None = Field(
        default=None, description="File with bearer tokens and their scopes; needed off the loopback."
    )
    postgres: DoorSpec | None = Field(default=None, description="For clients of Postgres.")
    flight: DoorSpec | None = Field(default=None, description="For clients of Arrow Flight SQL.")


def _window(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"should be {WINDOW_FORM}")
    parse_window(value)
    return value


class MaintenanceSpec(Frozen):
    """When the lake's files are looked after, and how much at once."""

    window: Annotated[str, BeforeValidator(_window)] | None = Field(
        default=None, description="Between which times of the day, in UTC: `01:00-05:00`; any time if unset."
    )
    max_parallel: Count = Field(default=1, description="Tables looked after at the same time.")
    max_bytes: Size = Field(
        default=512 * 1024**2,
        description="Bytes that one commit rewrites at most: what an interrupted run can lose.",
    )


def _switch(value: Any) -> Any:
    return None if value is False else {} if value is True else value


def _or_a_switch(schema: dict[str, Any]) -> None:
    schema["anyOf"].append({"type": "boolean"})


def _state(value: Any) -> Secret | str:
    if isinstance(value, Secret):
        return value
    if value == SQLITE:
        return SQLITE
    if isinstance(value, str) and value.startswith(("postgresql://", "postgres://")):
        return Secret(value)
    raise ValueError("should be sqlite or postgresql://…")


State = Annotated[
    str | Secret,
    PlainValidator(_state),
    PlainSerializer(str, when_used="json"),
    JsonSchema({"type": "string", "description": "sqlite, or postgresql://…"}),
]
"""`sqlite`, or the address of a Postgres database, which holds a password."""


class Settings(Frozen):
    """The top level of the project file, without its definitions."""

    name: str = Field(description="Name of the project.")
    description: str = Field(default="", description="What the project is for.")
    warehouse: str = Field(
        default="./lake", description="Folder of the lake: local, `s3://`, `abfss://`, `gs://`, `hdfs://`."
    )
    code: str | None = Field(
        default=None, description="Python file with `@mapper`, `@upcaster`, `@filter`, `@transform`."
    )
    format: str = Field(default="delta", description="Format of topics, tables and views that name none.")
    trigger: Trigger = Field(
        default="continuous", description="When flows take a step: `continuous`, `once` or how often."
    )
    defaults: DefaultsSpec = Field(default=DefaultsSpec(), description="Defaults for topics, tables and views.")
    spark: SparkSpec = Field(default=SparkSpec(), description="Where Spark runs.")
    storage: StorageSpec = Field(default=StorageSpec(), description="Keys of the object stores in use.")
    state: State = Field(
        default=SQLITE, description="State database: `sqlite` next to the project, or `postgresql://…` shared."
    )
    runtime: RuntimeSpec = Field(default=RuntimeSpec(), description="How the runner shares the machine.")
    queries: QueriesSpec = Field(default=QueriesSpec(), description="What a query may take.")
    maintenance: Annotated[MaintenanceSpec | None, BeforeValidator(_switch)] = Field(
        default=MaintenanceSpec(),
        description="When the lake's files are looked after; `false`: not at all.",
        json_schema_extra=_or_a_switch,
    )
    server: ServerSpec = Field(default=ServerSpec(), description="The HTTP server.")
    include: Names = Field(default=(), description="More project files, as globs from the project's folder.")
