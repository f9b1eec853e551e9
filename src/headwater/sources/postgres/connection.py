"""What the sources on Postgres share: connections, the same address for JDBC, and errors that say what to do."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headwater.core.errors import Code, HeadwaterError, TransientError, UsageError, Where
from headwater.core.extras import require_extra
from headwater.core.secret import BARE_SIGN, ENCODE, Secret, has_bare_sign, hidden

if TYPE_CHECKING:
    from psycopg import Connection

CONNECT_SECONDS = 10
"""How long a server may take to answer."""
OLDEST = 140000
"""Postgres 14: multiranges, and snapshots of 64-bit transaction ids."""
CONNECTOR = "postgres"
"""The JDBC driver's name in the connector lock."""
READ_ONLY = "SET default_transaction_read_only = on"
PLAIN = "SET DateStyle = 'ISO, YMD'; SET IntervalStyle = 'postgres'; SET TIME ZONE 'UTC'"
"""Values as text look the same on every connection, whatever the server, the role or the JVM prefer."""

_TRANSIENT = ("08", "53", "57P", "40", "55P03", "58")
_DENIED = ("28", "42501")
_MISSING = ("42P01", "42703", "3F000", "42704", "42883")
_REFUSED_TEXT = re.compile(
    r"password authentication failed|no password supplied|role \"[^\"]*\" does not exist|no pg_hba\.conf entry"
    r"|authentication failed|is not permitted to log in|permission denied for database",
    re.IGNORECASE,
)
_NO_DATABASE = re.compile(r"database \"([^\"]*)\" does not exist")
_TLS_TEXT = re.compile(r"SSL|certificate|root\.crt", re.IGNORECASE)
_SERVERS = {"read-write": "primary", "primary": "primary", "read-only": "secondary", "standby": "secondary",
            "prefer-standby": "preferSecondary", "any": "any"}  # fmt: skip
_JDBC_NAMES = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslnegotiation": "sslNegotiation",
    "channel_binding": "channelBinding",
    "gssencmode": "gssEncMode",
    "krbsrvname": "kerberosServerName",
    "options": "options",
}
"""libpq's names → the JDBC driver's, where both know a thing."""


def parameters(dsn: Secret, *, where: Where) -> dict[str, str]:
    """The parts of an address (`postgresql://…` or `host=… dbname=…`), with what libpq's own variables add."""
    conninfo = require_extra("postgres", "psycopg.conninfo")
    pq = require_extra("postgres", "psycopg.pq")
    psycopg = require_extra("postgres", "psycopg")
    if has_bare_sign(dsn.reveal()):
        raise UsageError(Code.INVALID_VALUE, f"`dsn` {BARE_SIGN}", where=where, hint=ENCODE)
    try:
        given = conninfo.conninfo_to_dict(dsn.reveal())
    except psycopg.Error as error:
        raise UsageError(
            Code.INVALID_VALUE,
            f"`dsn` is no address of a Postgres database: {hidden(str(error), dsn).strip()}",
            where=where,
            hint="write postgresql://user:password@host:5432/database?sslmode=require;"
            " what is not a letter or digit in a password has to be percent-encoded",
        ) from None
    defaults = {d.keyword.decode(): d for d in pq.Conninfo.get_defaults()}
    context = {key: os.environ.get((d.envvar or b"").decode(), "") for key, d in defaults.items()}
    context["user"] = (defaults["user"].val or b"").decode()
    found = {**context, **{key: str(value) for key, value in given.items() if value is not None}}
    found["dbname"] = found["dbname"] or found["user"]
    return {key: value for key, value in found.items() if value}


def server_name(dsn: Secret, *, where: Where) -> str:
    """The database as it may be shown: `db on host:5432`."""
    found = parameters(dsn, where=where)
    hosts = found.get("host") or found.get("hostaddr") or "localhost"
    return f"{found['dbname']} on {hosts}:{found.get('port', '5432')}"


def connect(
    dsn: Secret, *, where: Where, read_only: bool = True, replication: bool = False, **more: Any
) -> Connection[Any]:
    """A connection in autocommit mode that can't change anything, unless it may; a failure says what to do.

    `replication` opens a walsender, which takes none of the settings. `more` goes to libpq.
    """
    psycopg = require_extra("postgres", "psycopg")
    found = parameters(dsn, where=where)
    asked: dict[str, Any] = {**found, "client_encoding": "UTF8", **more}
    asked.setdefault("connect_timeout", CONNECT_SECONDS)
    asked.setdefault("application_name", "headwater")
    if replication:
        asked["replication"] = "database"
    try:
        connection: Connection[Any] = psycopg.connect("", autocommit=True, **asked)
    except psycopg.Error as error:
        raise translated(error, dsn=dsn, where=where) from None
    try:
        if not replication:
            if connection.info.server_version < OLDEST:
                raise UsageError(
                    Code.UNSUPPORTED,
                    f"{server_name(dsn, where=where)} runs Postgres {connection.info.server_version // 10000}",
                    where=where,
                    hint=f"Postgres {OLDEST // 10000} is the oldest that can be read",
                )
            connection.execute(PLAIN)
            if read_only:
                connection.execute(READ_ONLY)
    except psycopg.Error as error:
        connection.close()
        raise translated(error, dsn=dsn, where=where) from None
    except HeadwaterError:
        connection.close()
        raise
    return connection


def jdbc_options(dsn: Secret, *, where: Where) -> dict[str, str]:
    """Options of Spark's JDBC reader for the same database: `url`, `driver`, login, TLS, a read-only session.

    The password stands in an option of its own, which Spark masks, and never in the address.
    """
    found = parameters(dsn, where=where)
    hosts = (found.get("host") or found.get("hostaddr") or "localhost").split(",")
    if any(host.startswith(("/", "@")) for host in hosts):
        raise UsageError(
            Code.UNSUPPORTED,
            "`dsn` leads to a Unix socket, which Spark's JDBC driver can't use",
            where=where,
            hint="give a host name, and let the server listen on it",
        )
    ports = (found.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    served = ",".join(f"{_bracketed(host)}:{port or '5432'}" for host, port in zip(hosts, ports, strict=True))
    options = {
        "url": f"jdbc:postgresql://{served}/{quote(found['dbname'], safe='')}",
        "driver": "org.postgresql.Driver",
        "user": found.get("user", ""),
        "ApplicationName": found.get("application_name", "headwater"),
        "connectTimeout": found.get("connect_timeout") or str(CONNECT_SECONDS),
        "tcpKeepAlive": "true",
        "sessionInitStatement": f"{READ_ONLY}; {PLAIN}",
        **{_JDBC_NAMES[key]: value for key, value in found.items() if key in _JDBC_NAMES and value},
    }
    if found.get("password"):
        options["password"] = found["password"]
    if options.get("sslrootcert") == "system":
        del options["sslrootcert"]
        options["sslfactory"] = "org.postgresql.ssl.DefaultJavaSSLFactory"
    if found.get("target_session_attrs"):
        options["targetServerType"] = _SERVERS.get(found["target_session_attrs"], "any")
    return options


@contextmanager
def translating(dsn: Secret, *, where: Where) -> Iterator[None]:
    """What psycopg raises inside, as an error of ours."""
    psycopg = require_extra("postgres", "psycopg")
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, dsn=dsn, where=where) from None


def translated(error: BaseException, *, dsn: Secret, where: Where) -> HeadwaterError:
    """What psycopg raised, as an error of ours: what may go away is transient, a right that lacks is said."""
    told = " ".join(line.strip() for line in hidden(str(error), dsn).splitlines() if line.strip())
    told = told.removeprefix("connection failed: ")
    state = getattr(error, "sqlstate", None)
    if isinstance(error, HeadwaterError):
        return error
    if state is None:
        return _not_connected(told, dsn, where)
    said = hidden(getattr(error.diag, "message_primary", None) or told, dsn)  # type: ignore[attr-defined]
    if state.startswith(_DENIED):
        return UsageError(
            Code.SOURCE_DENIED,
            f"{server_name(dsn, where=where)} refuses: {said}",
            where=where,
            hint="give the user of `dsn` the right to it",
        )
    if state.startswith(_TRANSIENT):
        return TransientError(
            Code.SOURCE_UNAVAILABLE,
            f"{server_name(dsn, where=where)} can't be read just now: {said}",
            where=where,
            hint="raise max_connections or lower the source's `max_connections`" if state == "53300" else None,
        )
    if state.startswith(_MISSING):
        return UsageError(Code.SOURCE_MISMATCH, f"{server_name(dsn, where=where)}: {said}", where=where)
    return UsageError(Code.SOURCE_MISMATCH, f"{server_name(dsn, where=where)}: {said} ({state})", where=where)


def _not_connected(told: str, dsn: Secret, where: Where) -> HeadwaterError:
    """No answer at all, or one from before the log-in, which libpq gives as text alone."""
    at = server_name(dsn, where=where)
    missing = _NO_DATABASE.search(told)
    if missing is not None:
        return UsageError(
            Code.SOURCE_MISMATCH,
            f"there is no database '{missing[1]}' at {at.split(' on ', 1)[1]}",
            where=where,
            hint="check the end of `dsn`",
        )
    if _REFUSED_TEXT.search(told):
        return UsageError(
            Code.SOURCE_DENIED, f"{at} refuses: {told}", where=where, hint="check user and password in `dsn`"
        )
    hint = "check that it runs and that host and port in `dsn` are right"
    if _TLS_TEXT.search(told):
        hint = "check `sslmode`, `sslrootcert`, `sslcert` and `sslkey` in `dsn`"
    return TransientError(Code.SOURCE_UNAVAILABLE, f"{at} can't be reached: {told}", where=where, hint=hint)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def channel(table: str) -> str:
    """Where a table's trigger tells of new rows: a name of at most 63 bytes."""
    name = f"headwater.{table}"
    if len(name.encode()) <= 63:
        return name
    return f"headwater.{hashlib.sha256(table.encode()).hexdigest()[:40]}"
