"""The connection to the database that an export goes to, and what its refusals mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError
from headwater.core.extras import require_extra
from headwater.sources.postgres.connection import connect, translated
from headwater.targets.postgres.address import PostgresAddress

if TYPE_CHECKING:
    from psycopg import Connection

ROW_ERRORS = ("22", "23", "P0001")
"""What a database refuses single rows with: values, constraints, triggers."""


def open_connection(address: PostgresAddress) -> Connection[Any]:
    """In autocommit mode: what belongs together is a transaction of its own."""
    try:
        connection = connect(address.dsn, where=address.where, read_only=False)
        # Nobody waits for ever behind somebody else's lock.
        connection.execute("SET lock_timeout = '30s'")
        return connection
    except HeadwaterError as error:
        raise _of_export(error) from None


@contextmanager
def reaching(address: PostgresAddress) -> Iterator[None]:
    """What psycopg raises inside, as an error of ours."""
    psycopg = require_extra("postgres", "psycopg")
    try:
        yield
    except psycopg.Error as error:
        raise _of_export(translated(error, dsn=address.dsn, where=address.where)) from None


def row_error(error: Any) -> str | None:
    """Why a database refuses a row; None: the error is not of a row."""
    if error.sqlstate is None or not error.sqlstate.startswith(ROW_ERRORS):
        return None
    detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    return f"{error.diag.message_primary}{detail}"


def _of_export(error: HeadwaterError) -> HeadwaterError:
    problem = error.problem
    if isinstance(error, TransientError):
        return TransientError(Code.EXPORT_UNAVAILABLE, problem.message, where=problem.where, hint=problem.hint)
    return UsageError(Code.EXPORT_REFUSED, problem.message, where=problem.where, hint=problem.hint)
