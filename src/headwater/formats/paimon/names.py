"""The names of Paimon's tables, and where a table of that name lies."""

from __future__ import annotations

from headwater.core.errors import Unsupported
from headwater.formats.base import Address, LakeContext

CATALOG = "paimon"
"""Spark's name of the catalog, and the folder of the warehouse that holds it."""


def location(address: Address, context: LakeContext) -> str:
    """The folder of a table, for those who read it without Spark."""
    if address.path is not None:
        return address.path
    catalog, _, rest = str(address.table).partition(".")
    database, _, table = rest.partition(".")
    if catalog != CATALOG or not table:
        raise Unsupported(f"only tables of the catalog '{CATALOG}' are read without a JVM, not {address}")
    return f"{context.warehouse.rstrip('/')}/{CATALOG}/{database}.db/{table}"
