"""A connection to a database by its JDBC driver, in Spark's JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headwater.core.errors import Code, HeadwaterError, TerminalError, TransientError, UsageError
from headwater.core.secret import MASK, hidden
from headwater.spark.internals import java, java_type
from headwater.targets.jdbc.address import JdbcAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_DENIED = ("28", "42501")
_ROWS = ("22", "23", "38")
_KEY_TYPE = "VARCHAR(255)"
"""Of texts in a key: databases compare no large objects."""


class JdbcConnection:
    """One connection, and the dialect that Spark has for its database."""

    def __init__(self, spark: SparkSession, address: JdbcAddress) -> None:
        jvm = java(spark)
        self._address = address
        package = jvm.org.apache.spark.sql
        scala_map = jvm.PythonUtils.toScalaMap(address.options())
        jdbc = package.execution.datasources.jdbc
        with self.reaching():
            self._options = jdbc.JDBCOptions(address.database.url.reveal(), address.table, scala_map)
            self._dialect = package.jdbc.JdbcDialects.get(address.database.url.reveal())
            self._java = self._dialect.createConnectionFactory(self._options).apply(-1)
        self._types = getattr(getattr(jdbc, "JdbcUtils$"), "MODULE$")

    @property
    def product(self) -> tuple[str, str]:
        """The database's name and version."""
        with self.reaching():
            found = self._java.getMetaData()
            return str(found.getDatabaseProductName()), str(found.getDatabaseProductVersion())

    def quoted(self, name: str) -> str:
        found: str = self._dialect.quoteIdentifier(name)
        return found

    def column_type(self, spark: SparkSession, type_: DataType, *, is_key: bool) -> str:
        """The type of a column, as Spark's writer would make it."""
        if is_key and type_.simpleString() == "string":
            return _KEY_TYPE
        found: str = self._types.getJdbcType(java_type(spark, type_), self._dialect).databaseTypeDefinition()
        return found

    def create(
        self, spark: SparkSession, table: str, schema: StructType, key: Sequence[str], *, aside: bool = False
    ) -> None:
        """A table with these columns and key; one `aside` has the types of both, and takes any rows."""
        columns = []
        for field in schema.fields:
            kind = self.column_type(spark, field.dataType, is_key=field.name in key)
            columns.append(f"{self.quoted(field.name)} {kind}{' NOT NULL' if field.name in key and not aside else ''}")
        if key and not aside:
            columns.append(f"PRIMARY KEY ({', '.join(self.quoted(name) for name in key)})")
        self.run(f"CREATE TABLE {table} ({', '.join(columns)})")

    def columns(self, table: str) -> list[str] | None:
        """The names of a table's columns; None if it is not there."""
        try:
            statement = self._java.createStatement()
            try:
                found = statement.executeQuery(f"SELECT * FROM {table} WHERE 1 = 0").getMetaData()
                return [str(found.getColumnName(at + 1)) for at in range(found.getColumnCount())]
            finally:
                statement.close()
        except Py4JJavaError as error:
            if (_state(error) or "").startswith("08"):
                raise self._failure(error) from None
            return None

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """A statement that gives no rows; returns how many it has changed."""
        with self.reaching():
            prepared = self._java.prepareStatement(statement)
            try:
                for at, value in enumerate(values, 1):
                    prepared.setObject(at, value)
                changed: int = prepared.executeUpdate()
                return changed
            finally:
                prepared.close()

    def row(self, query: str, values: Sequence[object], columns: int) -> tuple[Any, ...] | None:
        """The first row of a query."""
        with self.reaching():
            prepared = self._java.prepareStatement(query)
            try:
                for at, value in enumerate(values, 1):
                    prepared.setObject(at, value)
                found = prepared.executeQuery()
                return tuple(found.getObject(at + 1) for at in range(columns)) if found.next() else None
            finally:
                prepared.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self.reaching():
            self._java.setAutoCommit(False)
        try:
            yield
            with self.reaching():
                self._java.commit()
        except BaseException:
            try:
                self._java.rollback()
            except Py4JJavaError:
                pass  # the connection is gone, and its transaction with it
            raise
        finally:
            try:
                self._java.setAutoCommit(True)
            except Py4JJavaError:
                pass

    def close(self) -> None:
        try:
            self._java.close()
        except Py4JJavaError:
            pass

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """What the driver raises inside, as an error of ours."""
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> HeadwaterError:
        state, said = _state(error), self._hidden(_message(error))
        where = self._address.where
        if state is not None and state.startswith(_DENIED):
            return UsageError(
                Code.EXPORT_REFUSED,
                f"the database refuses: {said}",
                where=where,
                hint="check `user` and `password` in `storage.jdbc`, and its rights",
            )
        if "No suitable driver" in said or "ClassNotFoundException" in said:
            return UsageError(
                Code.MISSING_EXTRA,
                "there is no JDBC driver for this database",
                where=where,
                hint="give Spark its jar, by `spark.conf` in the project",
            )
        if state is not None and state.startswith(("08", "40")):
            return TransientError(Code.EXPORT_UNAVAILABLE, f"the database can't be reached: {said}", where=where)
        if state is not None and state.startswith(_ROWS):
            return TerminalError(
                Code.EXPORT_REFUSED,
                f"{self._address.table} refuses a row: {said}",
                where=where,
                hint="change the table's constraints, or leave the rows out: filter",
            )
        return TerminalError(Code.EXPORT_REFUSED, f"the database refuses: {said}", where=where)

    def _hidden(self, text: str) -> str:
        password = self._address.database.password
        if password:
            text = text.replace(password.reveal(), MASK)
        return hidden(text, self._address.database.url)


def _causes(error: Exception) -> Iterator[Any]:
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        yield cause
        cause = cause.getCause()


def _state(error: Exception) -> str | None:
    """The SQLSTATE of the first cause that has one."""
    for cause in _causes(error):
        try:
            found = cause.getSQLState()
        except Exception:  # no SQLException
            continue
        if found:
            return str(found)
    return None


def _message(error: Exception) -> str:
    for cause in _causes(error):
        try:
            cause.getSQLState()
        except Exception:
            continue
        return str(cause.getMessage()).split("\n", 1)[0]
    last = list(_causes(error))
    return str(last[-1].toString() if last else error).split("\n", 1)[0]
