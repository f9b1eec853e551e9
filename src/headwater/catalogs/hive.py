"""A Hive metastore."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headwater.catalogs.base import CatalogSpec, LakeLocation


class HiveCatalog(CatalogSpec):
    """A Hive metastore over Thrift."""

    type: Literal["hive"] = Field(default="hive", description="`hive`: a Hive metastore.")
    uri: str = Field(description="`thrift://host:9083`.")

    def properties(self, place: LakeLocation) -> dict[str, str]:
        return {**super().properties(place), "uri": self.uri}
