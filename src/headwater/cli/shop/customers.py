"""The shop's customers, in its database."""

from __future__ import annotations

from headwater.cli.shop.events import CUSTOMERS
from headwater.core.extras import require_extra

CITIES = ("Basel", "Graz", "Turin")
NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hugo", "Ida", "Jan", "Kim", "Leo")
TABLE = "CREATE TABLE customers (id bigint PRIMARY KEY, name text, city text)"
CHANGES = (
    "UPDATE customers SET city = 'Graz' WHERE id = 1",
    "DELETE FROM customers WHERE id = 2",
    f"INSERT INTO customers VALUES ({CUSTOMERS + 1}, 'Mia', 'Turin')",
)


def create(dsn: str) -> int:
    """The customers of the morning; returns how many."""
    rows = [(number, NAMES[number - 1], CITIES[number % len(CITIES)]) for number in range(1, CUSTOMERS + 1)]
    psycopg = require_extra("postgres", "psycopg")
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLE)
        connection.cursor().executemany("INSERT INTO customers VALUES (%s, %s, %s)", rows)
    return len(rows)


def change(dsn: str) -> int:
    """One moves, one goes, one comes; returns how many changes."""
    psycopg = require_extra("postgres", "psycopg")
    with psycopg.connect(dsn) as connection:
        for statement in CHANGES:
            connection.execute(statement)
    return len(CHANGES)
