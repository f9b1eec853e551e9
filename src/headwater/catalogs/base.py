"""The seam for catalogs: a config model by type, which tells Iceberg's two sides how to reach the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from headwater.core.spec.base import Definition

DEFAULT = "lake"
"""The catalog that a project has without naming one."""


@dataclass(frozen=True)
class LakeLocation:
    """Where the lake that a catalog serves lies."""

    warehouse: str
    home: str
    """The folder `.headwater` next to the project file."""


class CatalogSpec(Definition):
    """A catalog of Iceberg tables. `options` go to the catalog as they are."""

    by_folder: ClassVar[bool] = False
    """Whether a table is found by its folder alone: nobody else keeps where it is."""
    type: str = Field(description="Type of the catalog.")
    warehouse: str | None = Field(default=None, description="Where its tables lie; the project's warehouse if unset.")

    def properties(self, place: LakeLocation) -> dict[str, str]:
        """What Iceberg's Java side has to know, under Iceberg's own names."""
        return {"type": self.type, "warehouse": self.warehouse or place.warehouse}

    def native_properties(self, place: LakeLocation) -> dict[str, str] | None:
        """The same for pyiceberg; None where it has no such catalog."""
        return self.properties(place)

    def prepare(self, place: LakeLocation) -> None:
        """Make what it needs on this machine. Called before Spark first asks it for a table."""

    def connectors(self) -> tuple[str, ...]:
        """Names in the connector lock that this catalog needs alongside Iceberg's own jar."""
        return ()


def spark_conf(name: str, spec: CatalogSpec, place: LakeLocation) -> dict[str, str]:
    """The session settings that make the catalog known to Spark under `name`."""
    at = f"spark.sql.catalog.{name}"
    # A cached table hides what another session or process has committed since.
    properties = {"cache-enabled": "false", **spec.properties(place), **spec.options}
    return {
        at: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{at}.{key}": v for key, v in properties.items()},
    }
