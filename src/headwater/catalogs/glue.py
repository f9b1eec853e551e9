"""The AWS Glue Data Catalog."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.catalogs.base import CatalogSpec, LakeLocation


class GlueCatalog(CatalogSpec):
    """AWS Glue; keys come from the machine."""

    type: Literal["glue"] = Field(default="glue", description="`glue`: the AWS Glue Data Catalog.")
    region: str | None = Field(default=None, description="AWS region; the machine's if unset.")
    catalog_id: str | None = Field(default=None, description="Account of the catalog; the caller's if unset.")

    def properties(self, place: LakeLocation) -> dict[str, str]:
        properties = super().properties(place)
        if self.region:
            properties["client.region"] = self.region
        if self.catalog_id:
            properties["glue.id"] = self.catalog_id
        return properties

    def native_properties(self, place: LakeLocation) -> dict[str, str]:
        return self.properties(place)

    def connectors(self) -> tuple[str, ...]:
        return ("iceberg-aws",)
