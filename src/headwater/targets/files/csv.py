"""CSV files: values without parts, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
from pyarrow import NativeFile

from headwater.core.spec import Export
from headwater.targets.files.base import FileFormat
from headwater.targets.files.text import TIMES, unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BLOCK = 16 << 20
"""Bytes that are parsed at a time: no row is larger."""


def _read(file: NativeFile, schema: pa.Schema, definition: Export) -> Iterator[pa.RecordBatch]:
    if not file.size():
        return
    opened = pyarrow.csv.open_csv(
        unpacked(file, definition),
        pyarrow.csv.ReadOptions(
            column_names=schema.names, skip_rows=1 if definition.header else 0, block_size=_BLOCK, use_threads=True
        ),
        pyarrow.csv.ParseOptions(
            delimiter=definition.delimiter,
            newlines_in_values=True,
            double_quote=True,
            ignore_empty_lines=len(schema) > 1,
        ),
        pyarrow.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["true"],
            false_values=["false"],
        ),
    )
    yield from opened


def _options(definition: Export) -> Mapping[str, str]:
    return {
        **TIMES,
        "header": str(definition.header).lower(),
        "sep": definition.delimiter,
        "quote": '"',
        "escape": '"',
        "nullValue": "",
        "emptyValue": '""',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
        "compression": definition.compression or "none",
    }


def _prepare(rows: DataFrame, definition: Export) -> DataFrame:
    """Texts that a spreadsheet would take for formulas get a quote, if that is wished."""
    if not definition.escape_formulas:
        return rows
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    from headwater.spark.frames import column

    texts = {f.name for f in rows.schema.fields if isinstance(f.dataType, StringType)}
    return rows.select(
        *(
            F.when(column(name).rlike("^[=+\\-@\\t\\r]"), F.concat(F.lit("'"), column(name)))
            .otherwise(column(name))
            .alias(name)
            if name in texts
            else column(name)
            for name in rows.columns
        )
    )


CSV_FILES = FileFormat("csv", ".csv", "csv", "pyarrow", _read, _options, _prepare)
