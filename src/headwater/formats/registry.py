"""The table formats: one line each."""

from __future__ import annotations

from headwater.core.errors import Code
from headwater.core.registry import Registry
from headwater.formats.base import Format
from headwater.formats.delta.format import DELTA
from headwater.formats.hudi.format import HUDI
from headwater.formats.iceberg.format import ICEBERG
from headwater.formats.paimon.format import PAIMON
from headwater.formats.parquet.format import PARQUET

SYSTEM_FORMAT = DELTA
"""Of the tables that Headwater keeps for itself: the dead letters."""

CATALOG_FORMAT = ICEBERG
"""Of the tables in the embedded catalog."""

FORMATS: Registry[Format] = Registry("format", "headwater.formats", Code.UNKNOWN_FORMAT)
for _format in (DELTA, ICEBERG, HUDI, PAIMON, PARQUET):
    FORMATS.add(_format.name, _format)
