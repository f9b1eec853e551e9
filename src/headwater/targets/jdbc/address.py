"""Where an export by JDBC goes: a database that `storage.jdbc` names, or one that asks for no login."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.core.errors import Code, UsageError, Where, did_you_mean
from headwater.core.secret import is_secret_key
from headwater.core.spec.settings import JdbcSpec

_FORM = "write jdbc://ENTRY/table, where ENTRY stands in `storage.jdbc`, or the driver's own: jdbc:derby:/data/db#table"
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)?")
_LOGIN = re.compile(r"//[^/@;?#]*@|[;?&:](\w+)=")


@dataclass(frozen=True)
class JdbcAddress:
    """A table of a database."""

    database: JdbcSpec
    table: str
    """As the database is given it, with its schema if it was said."""
    shown: str
    where: Where

    @property
    def schema(self) -> str:
        """The table's schema with a dot, for its siblings."""
        return self.table.rpartition(".")[0] + "." if "." in self.table else ""

    def options(self) -> dict[str, str]:
        """For Spark's reader and writer."""
        found = {"url": self.database.url.reveal()}
        if self.database.user is not None:
            found["user"] = self.database.user
        if self.database.password is not None:
            found["password"] = self.database.password.reveal()
        if self.database.driver is not None:
            found["driver"] = self.database.driver
        return found


def parse_address(to: str, storage: Mapping[str, Any]) -> JdbcAddress:
    """The table that `to` names: `jdbc://warehouse/orders`, or `jdbc:derby:/data/db#orders`."""
    where = Where("to")
    known: Mapping[str, JdbcSpec] = storage.get("jdbc") or {}
    if to.startswith("jdbc://"):
        name, _, table = to.removeprefix("jdbc://").partition("/")
        database = known.get(name)
        if database is None:
            message = f"`storage.jdbc` has no '{name}'"
            raise UsageError(Code.UNKNOWN_REFERENCE, message, where=where, hint=did_you_mean(name, known))
        shown = to
    else:
        url, _, table = to.partition("#")
        if not url.startswith("jdbc:"):
            raise UsageError(Code.INVALID_VALUE, "this is no table of a database", where=where, hint=_FORM)
        for found in _LOGIN.finditer(url):
            if found[1] is None or is_secret_key(found[1]) or found[1].lower() == "user":
                raise UsageError(
                    Code.INVALID_VALUE,
                    "a login does not belong into `to`: it would be shown wherever the export is",
                    where=where,
                    hint=f"give it in `storage.jdbc`; then {_FORM}",
                )
        database, shown = JdbcSpec.model_validate({"url": url}), to
    if _TABLE.fullmatch(table) is None:
        raise UsageError(Code.INVALID_VALUE, f"'{table}' is no name of a table", where=where, hint=_FORM)
    return JdbcAddress(database, table, shown, where)
