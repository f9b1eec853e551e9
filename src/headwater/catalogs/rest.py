"""A catalog behind Iceberg's REST protocol."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.catalogs.base import CatalogSpec, LakeLocation
from headwater.core.secret import Secret


class RestCatalog(CatalogSpec):
    """Iceberg's REST catalog."""

    type: Literal["rest"] = Field(default="rest", description="`rest`: a service that speaks Iceberg's REST protocol.")
    uri: str = Field(description="Address of the service.")
    credential: Secret | None = Field(default=None, description="`client:secret` for OAuth.")
    token: Secret | None = Field(default=None, description="Bearer token.")
    scope: str | None = Field(default=None, description="OAuth scope.")
    oauth2_server_uri: str | None = Field(
        default=None, description="Where OAuth tokens come from; the service itself if unset."
    )

    def properties(self, place: LakeLocation) -> dict[str, str]:
        """The service knows where its tables lie: a warehouse is sent only if one is named."""
        properties = {
            "type": "rest",
            "uri": self.uri,
            "warehouse": self.warehouse,
            "credential": self.credential.reveal() if self.credential else None,
            "token": self.token.reveal() if self.token else None,
            "scope": self.scope,
            "oauth2-server-uri": self.oauth2_server_uri,
        }
        return {key: value for key, value in properties.items() if value}
