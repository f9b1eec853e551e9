"""The types of catalogs: one line each."""

from __future__ import annotations

from headwater.catalogs.base import CatalogSpec
from headwater.catalogs.glue import GlueCatalog
from headwater.catalogs.hadoop import HadoopCatalog
from headwater.catalogs.hive import HiveCatalog
from headwater.catalogs.jdbc import JdbcCatalog
from headwater.catalogs.rest import RestCatalog
from headwater.core.errors import Code
from headwater.core.registry import Registry

CATALOGS: Registry[type[CatalogSpec]] = Registry("type of catalog", "headwater.catalogs", Code.UNKNOWN_CATALOG_TYPE)
CATALOGS.add("jdbc", JdbcCatalog)
CATALOGS.add("rest", RestCatalog)
CATALOGS.add("glue", GlueCatalog)
CATALOGS.add("hive", HiveCatalog)
CATALOGS.add("hadoop", HadoopCatalog)
