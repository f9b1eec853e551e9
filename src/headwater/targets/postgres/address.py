"""Where an export to Postgres goes: a database that the project names in `sources:`, or one without a password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from headwater.core.errors import Code, UsageError, Where
from headwater.core.secret import Secret, address_without_login
from headwater.sources.base import SourceSpec

SCHEMES = ("postgresql", "postgres")
_FORM = "write postgresql://ENTRY/schema.table, where ENTRY is a Postgres source of the project"


@dataclass(frozen=True)
class PostgresAddress:
    """A table of a database."""

    dsn: Secret
    schema: str | None
    """None: the first one of the search path."""
    table: str
    shown: str
    """As it may be shown."""
    where: Where


def parse_address(to: str, sources: Mapping[str, SourceSpec]) -> PostgresAddress:
    """The table that `to` names: `postgresql://crm/public.orders`, or `postgresql://host:5432/db?table=public.orders`."""
    where = Where("to")
    parts = urlsplit(to)
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise UsageError(Code.INVALID_VALUE, f"{_shown(to)} is no table of Postgres", where=where, hint=_FORM)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.password is not None or "password" in query:
        raise UsageError(
            Code.INVALID_VALUE,
            "a password does not belong into `to`: it would be shown wherever the export is",
            where=where,
            hint=f"give the database's address as `dsn` of an entry of `sources:`; then {_FORM}",
        )
    entry = sources.get(parts.netloc)
    dsn = getattr(entry, "dsn", None)
    path = unquote(parts.path.lstrip("/"))
    if "table" not in query:
        if not isinstance(dsn, Secret):
            known = sorted(name for name, source in sources.items() if isinstance(getattr(source, "dsn", None), Secret))
            raise UsageError(
                Code.UNKNOWN_REFERENCE,
                f"{_shown(to)}: the project has no Postgres source '{parts.hostname}'",
                where=where,
                hint=f"known: {', '.join(known) or 'none'}; a full address names its table behind a question mark: "
                "postgresql://host:5432/database?table=public.events",
            )
        name = path
    else:
        name = query.pop("table")
        dsn = Secret(urlunsplit(parts._replace(query=urlencode(query))))
    schema, _, table = name.rpartition(".")
    if not table or "/" in name:
        raise UsageError(Code.INVALID_VALUE, f"{_shown(to)} names no table", where=where, hint=_FORM)
    return PostgresAddress(dsn, schema or None, table, _shown(to), where)


def _shown(to: str) -> str:
    return address_without_login(to)
