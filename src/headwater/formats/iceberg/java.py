"""Iceberg's Java API through py4j: metadata and commits in milliseconds, without a Spark job."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.catalogs.base import spark_conf
from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, UsageError, did_you_mean
from headwater.formats.base import LakeContext
from headwater.formats.iceberg.metadata import Metadata, unreadable
from headwater.formats.iceberg.names import TableName, catalog_of, catalogs, lake_location
from headwater.formats.iceberg.recovery import forget_landed, note_landed
from headwater.spark.errors import causes, reason, unread_file
from headwater.spark.internals import call_back, gateway_of, java, java_session
from headwater.spark.session import activate

_CONFLICTS = {
    "org.apache.iceberg.exceptions.CommitFailedException": "another writer came first",
    "org.apache.iceberg.exceptions.ValidationException": "another writer changed the same rows",
}
_UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"
_TORN = ("JsonEOFException", "JsonParseException", "ChecksumException", "NotFoundException", "java.io.EOFException")
"""Java's classes of errors over a file that was cut, overwritten or taken away."""
_loading = threading.Lock()
_loaded: set[tuple[str, str]] = set()
"""Sessions and their catalogs that are set up."""
_MISSING = "org.apache.iceberg.exceptions.NoSuchTableException"


class JavaTable:
    """A handle on one table by name; nothing is loaded before it is asked for."""

    def __init__(
        self, spark: SparkSession, name: TableName, context: LakeContext, look: Callable[[], None] = lambda: None
    ) -> None:
        """`look` is called before the table is loaded, and raises where that would be in vain."""
        self._look = look
        self.spark = spark
        self.name = name
        self.jvm: Any = java(spark)
        self._context = context
        self.open_in(spark)

    def open_in(self, spark: SparkSession) -> None:
        """Make the table's catalog known to a session that was opened without it."""
        setting = f"spark.sql.catalog.{self.name.catalog}"
        if spark.conf.get(setting, None) is not None:
            return
        spec = catalog_of(self.name, self._context)
        if spec is None:
            raise UsageError(
                Code.UNKNOWN_REFERENCE,
                f"the session has no catalog '{self.name.catalog}'",
                hint=did_you_mean(self.name.catalog, catalogs(self._context)),
            )
        for key, value in spark_conf(self.name.catalog, spec, lake_location(self._context)).items():
            spark.conf.set(key, value)

    # --- the table

    def exists(self) -> bool:
        self._look()
        with _reading(self.name):
            return bool(self._catalog().tableExists(self._identifier()))

    def load(self) -> Any:
        self._look()
        try:
            with _reading(self.name):
                return self._catalog().loadTable(self._identifier())
        except Py4JJavaError as error:
            if _MISSING not in causes(error):
                raise
            message = f"there is no Iceberg table {'.'.join(self.name.parts)}"
            raise TerminalError(Code.NO_SUCH_RELATION, message) from error

    def metadata(self) -> Metadata:
        return self.metadata_of(self.load())

    def landed(self) -> Metadata:
        """The metadata after a commit, which is noted in the lake: a lost catalog is rebuilt from there."""
        table = self.load()
        note_landed(self._context, self.name, str(table.operations().current().metadataFileLocation()))
        return self.metadata_of(table)

    def metadata_of(self, table: Any) -> Metadata:
        return Metadata(self.jvm.org.apache.iceberg.TableMetadataParser.toJson(table.operations().current()))

    def create(self, schema: Any, spec: Any, properties: Mapping[str, str]) -> None:
        catalog = self._catalog()
        if self.name.namespace:
            self._create_namespaces(catalog)
        builder = catalog.buildTable(self._identifier(), schema).withPartitionSpec(spec)
        builder.withProperties(self.java_map(properties)).create()
        self.landed()

    def drop(self) -> None:
        # A note without its table would mean that the catalog is an old copy.
        forget_landed(self._context, self.name)
        self._catalog().dropTable(self._identifier(), True)

    def forget(self) -> None:
        """Take the table out of its catalog, without a look at it: its files stay where they are."""
        forget_landed(self._context, self.name)
        self._catalog().dropTable(self._identifier(), False)

    def delete_folder(self, location: str) -> None:
        """What a drop leaves behind: empty folders, and files that no commit has ever named."""
        path = self.jvm.org.apache.hadoop.fs.Path(location)
        session: Any = java_session(self.spark)
        path.getFileSystem(session.sessionState().newHadoopConf()).delete(path, True)

    def _create_namespaces(self, catalog: Any) -> None:
        for depth in range(1, len(self.name.namespace) + 1):
            levels = self.java_strings(self.name.namespace[:depth])
            namespace = self.jvm.org.apache.iceberg.catalog.Namespace.of(levels)
            if catalog.namespaceExists(namespace):
                continue
            try:
                catalog.createNamespace(namespace)
            except (Py4JJavaError, CapturedException):
                if not catalog.namespaceExists(namespace):  # another flow may have been quicker
                    raise

    def _catalog(self) -> Any:
        session: Any = java_session(self.spark)
        known = (str(session.sessionUUID()), self.name.catalog)
        load = self.jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog
        if known in _loaded:
            return load(session, self.name.catalog)
        with _loading:  # one that is opened for the first time makes its tables, and can't do so twice at once
            activate(self.spark)
            catalog = load(session, self.name.catalog)
            if known not in _loaded:
                _reconnect(catalog)
                _loaded.add(known)
            return catalog

    def _identifier(self) -> Any:
        parts = self.java_strings((*self.name.namespace, self.name.table))
        return self.jvm.org.apache.iceberg.catalog.TableIdentifier.of(parts)

    # --- values

    def java_schema(self, schema: StructType) -> Any:
        session: Any = java_session(self.spark)
        return self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(session.parseDataType(schema.json()))

    def spark_schema(self, java_schema: Any) -> StructType:
        struct = self.jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(java_schema)
        return StructType.fromJson(json.loads(struct.json()))

    def java_map(self, values: Mapping[str, str]) -> Any:
        found = self.jvm.java.util.HashMap()
        for key, value in values.items():
            found.put(key, value)
        return found

    def java_strings(self, values: tuple[str, ...]) -> Any:
        gateway: Any = gateway_of(self.spark.sparkContext)
        found = gateway.new_array(self.jvm.java.lang.String, len(values))
        for i, value in enumerate(values):
            found[i] = value
        return found

    # --- commits

    def with_properties(self, properties: Mapping[str, str], work: Callable[[], object]) -> None:
        """Run SQL whose commit carries snapshot properties: a statement has no write options to hold them."""
        call_back(self.spark)
        call = _Call(work)
        failure = self.jvm.java.lang.Class.forName("java.lang.RuntimeException")
        self.jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(self.java_map(properties), call, failure)
        if call.error is not None:
            raise call.error


def _reconnect(catalog: Any) -> None:
    """Give a JDBC catalog a new connection once it has been set up.

    It leaves results open that it looked its own tables up with. In SQLite the connection then sees the database as it
    was at that moment for ever, and may not write any more as soon as another one has.
    """
    if catalog.getClass().getName() != "org.apache.iceberg.jdbc.JdbcCatalog":
        return
    pool = _private(catalog, catalog.getClass(), "connections")
    clients = _private(pool, pool.getClass().getSuperclass(), "clients")
    opened = pool.getClass().getDeclaredMethod("newClient", None)
    opened.setAccessible(True)
    for _ in range(clients.size()):
        clients.pollFirst().close()
        clients.addLast(opened.invoke(pool, None))


def _private(owner: Any, of: Any, name: str) -> Any:
    field = of.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


class _Call:
    """A Python function as a Java Callable. It runs in the thread that Java calls it from, and keeps its error
    for that thread's caller: through Java it would come out as another one, and in the log."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.error: Exception | None = None

    def call(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error

    class Java:
        implements = ("java.util.concurrent.Callable",)


@contextmanager
def _reading(name: TableName) -> Iterator[None]:
    """Say which metadata file it is that can't be read: what Java says of a cut file is where its JSON ends."""
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        file = unread_file(error)
        if file is None or not any(name.endswith(_TORN) for name in causes(error)):
            raise
        raise unreadable(".".join(name.parts), file, reason(error)) from error


@contextmanager
def committing(name: TableName) -> Iterator[None]:
    """Say what a failed commit means: Iceberg's conflicts may be tried again, after a look at what landed."""
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        failed = _failed(error, ".".join(name.parts))
        if failed is None:
            raise
        raise failed from error


def _failed(error: Exception, table: str) -> HeadwaterError | None:
    found = causes(error)
    if _UNKNOWN in found:
        return TransientError(
            Code.COMMIT_FAILED,
            f"the catalog did not say whether a commit to {table} went through",
            hint="the next try looks first whether it has landed",
        )
    for name, why in _CONFLICTS.items():
        if name in found:
            return TransientError(Code.COMMIT_FAILED, f"a commit to {table} was refused: {why}")
    return None
