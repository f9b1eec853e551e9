"""The file formats: one line each."""

from __future__ import annotations

from headwater.targets.files.arrow import ARROW_FILES
from headwater.targets.files.avro import AVRO_FILES
from headwater.targets.files.base import FileFormat
from headwater.targets.files.csv import CSV_FILES
from headwater.targets.files.json import JSON_FILES
from headwater.targets.files.orc import ORC_FILES
from headwater.targets.files.parquet import PARQUET_FILES

FILE_FORMATS: dict[str, FileFormat] = {
    format.name: format for format in (PARQUET_FILES, CSV_FILES, JSON_FILES, AVRO_FILES, ORC_FILES, ARROW_FILES)
}
