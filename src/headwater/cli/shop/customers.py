"""The shop's customers, in its database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.cli.shop.events import CUSTOMERS
from headwater.core.errors import Code, TerminalError
from headwater.core.extras import require_extra

if TYPE_CHECKING:
    import psycopg

CITIES = ("Basel", "Graz", "Turin")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hugo", "Ida", "Jan", "Kim", "Leo")
TABLE = "CREATE TABLE customers (id bigint PRIMARY KEY, name text, city text)"
CHANGES = (
    "UPDATE customers SET city = 'Graz' WHERE id = 1",
    "DELETE FROM customers WHERE id = 2",
    f"INSERT INTO customers VALUES ({CUSTOMERS + 1}, 'Mia', 'Turin')",
)


def create(dsn: str) -> None:
    """The customers of the morning."""
    rows = [(number, NAMES[number - 1], CITIES[number % len(CITIES)]) for number in range(1, CUSTOMERS + 1)]
    with _connected(dsn) as connection:
        connection.execute(TABLE)
        connection.cursor().executemany("INSERT INTO customers VALUES (%s, %s, %s)", rows)


def change(dsn: str) -> int:
    """One moves, one goes, one comes; returns how many changes."""
    with _connected(dsn) as connection:
        for statement in CHANGES:
            connection.execute(statement)
    return len(CHANGES)


@contextmanager
def _connected(dsn: str) -> Iterator[psycopg.Connection]:
    try:
        driver = require_extra("postgres", "psycopg")
    except ImportError as error:  # its own library is missing
        raise TerminalError(Code.SOURCE_UNAVAILABLE, f"psycopg does not load: {error}") from error
    try:
        with driver.connect(dsn) as connection:
            yield connection
    except driver.Error as error:
        reason = " ".join(str(error).split())
        raise TerminalError(Code.SOURCE_UNAVAILABLE, f"PostgreSQL does not answer: {reason}") from error
