"""Tables found by their folders alone."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from headwater.catalogs.base import CatalogSpec, LakeLocation


class HadoopCatalog(CatalogSpec):
    """Iceberg's Hadoop catalog: a folder and no service."""

    by_folder: ClassVar[bool] = True
    type: Literal["hadoop"] = Field(
        default="hadoop", description="`hadoop`: a folder without a service; one writer only."
    )

    def native_properties(self, place: LakeLocation) -> dict[str, str] | None:
        """pyiceberg has no such catalog: its tables are opened by their folders."""
        return None
