"""A catalog in a database: SQLite next to the project by default."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl, quote, urlsplit

from pydantic import Field

from headwater.catalogs.base import CatalogSpec, LakeLocation
from headwater.core.private_files import create_private
from headwater.core.secret import Secret

FILE = "iceberg.db"
"""The embedded catalog's, in the project's own folder."""
SQLITE = "jdbc:sqlite:"
POSTGRES = "jdbc:postgresql:"


class JdbcCatalog(CatalogSpec):
    """Iceberg's JDBC catalog."""

    type: Literal["jdbc"] = Field(default="jdbc", description="`jdbc`: a database; embedded by default.")
    uri: Secret | None = Field(
        default=None, description="`jdbc:…` address of the database; SQLite in `.headwater` if unset."
    )
    user: str | None = Field(default=None, description="User of the database.")
    password: Secret | None = Field(default=None, description="Password of the database.")

    def properties(self, place: LakeLocation) -> dict[str, str]:
        uri = self._uri(place)
        properties = {**super().properties(place), "uri": uri, "jdbc.schema-version": "V1"}
        if uri.startswith(SQLITE):
            # SQLite has one writer: a second connection of one process would only wait for the first.
            properties["clients"] = "1"
        if self.user:
            properties["jdbc.user"] = self.user
        if self.password:
            properties["jdbc.password"] = self.password.reveal()
        return properties

    def native_properties(self, place: LakeLocation) -> dict[str, str] | None:
        uri = self._alchemy_uri(self._uri(place))
        if uri is None:
            return None
        warehouse = self.warehouse or place.warehouse
        # The catalog's tables are Spark's to make: a native reader never writes.
        return {"type": "sql", "uri": uri, "warehouse": warehouse, "init_catalog_tables": "false"}

    def prepare(self, place: LakeLocation) -> None:
        """The embedded catalog is a file in `.headwater`, which Java would make for everybody to read."""
        if self.uri is None:
            Path(place.home).mkdir(parents=True, exist_ok=True, mode=0o700)
            create_private(Path(place.home) / FILE)

    def connectors(self) -> tuple[str, ...]:
        uri = self.uri.reveal() if self.uri else SQLITE
        if uri.startswith(SQLITE):
            return ("sqlite",)
        return ("postgres",) if uri.startswith(POSTGRES) else ()

    def _uri(self, place: LakeLocation) -> str:
        if self.uri:
            return self.uri.reveal()
        return f"{SQLITE}{place.home.rstrip('/')}/{FILE}?journal_mode=WAL&busy_timeout=20000"

    def _alchemy_uri(self, uri: str) -> str | None:
        if uri.startswith(SQLITE):
            return f"sqlite:///{uri[len(SQLITE) :].split('?')[0]}"
        if not uri.startswith(POSTGRES):
            return None
        address = urlsplit(uri[len("jdbc:") :])
        query = dict(parse_qsl(address.query))
        user = self.user or query.get("user")
        password = self.password.reveal() if self.password else query.get("password")
        who = "" if user is None else quote(user, safe="")
        who += f":{quote(password, safe='')}" if password else ""
        return f"postgresql+psycopg://{who + '@' if who else ''}{address.netloc}{address.path}"
