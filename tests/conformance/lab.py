"""What every conformance test works with: tables of one format, and exact comparison of rows."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    _parse_datatype_string,
)

from headwater.core.model import DELETED, WEIGHT
from headwater.core.spec import Layout, ParquetOptions
from headwater.formats.base import Address, Capability, Format, LakeContext
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable

_numbers = itertools.count()

PEOPLE = "id int, name string, amount decimal(12,2)"


def schema(ddl: str) -> StructType:
    parsed = _parse_datatype_string(ddl)
    assert isinstance(parsed, StructType)
    return parsed


@dataclass
class Lab:
    """Makes tables of one format; `pretended` capabilities are claimed though the format does not state them."""

    spark: SparkSession
    context: LakeContext
    fmt: Format
    pretended: frozenset[Capability] = frozenset()
    made: list[SparkTable] = field(default_factory=list)

    def pretend(self, capability: Capability) -> None:
        self.pretended = self.pretended | {capability}

    def address(self) -> Address:
        return self.fmt.address(self.context, "tables", f"conformance_{self.fmt.name}_{next(_numbers)}")

    def table(
        self,
        ddl: str = PEOPLE,
        *,
        keys: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        z_order_by: Sequence[str] = (),
        target_file_size: int | None = None,
        parquet: ParquetOptions | None = None,
        options: dict[str, str] | None = None,
    ) -> SparkTable:
        """A new table, created."""
        layout = Layout(
            keys=tuple(keys),
            partition_by=tuple(partition_by),
            z_order_by=tuple(z_order_by),
            target_file_size=target_file_size,
            parquet=parquet or ParquetOptions(),
            options=options or {},
        )
        table = self.open(self.address())
        table.create(schema(ddl), layout)
        self.made.append(table)
        return table

    def open(self, address: Address) -> SparkTable:
        """A handle of its own on a table, as another process would have."""
        table = self.fmt.spark(self.spark, address, self.context)
        if self.pretended:
            claimed = replace(self.fmt, capabilities=self.fmt.capabilities | self.pretended)
            table.__class__ = type("Pretender", (type(table),), {"format": claimed})
        return table

    def native(self, table: SparkTable) -> NativeTable:
        assert self.fmt.native is not None
        return self.fmt.native(table.address, self.context)

    def frame(self, rows: Iterable[tuple[Any, ...]], ddl: str = PEOPLE) -> DataFrame:
        return local_frame(self.spark, rows, schema(ddl))

    def deletes(self, rows: Iterable[tuple[Any, ...]], ddl: str = PEOPLE) -> DataFrame:
        """Rows of an upsert: the last value of each says whether its key is deleted."""
        return self.frame(rows, f"{ddl}, {DELETED} boolean")


def local_frame(spark: SparkSession, rows: Iterable[tuple[Any, ...]], wanted: StructType) -> DataFrame:
    """Rows that lie in the JVM: a frame made from a list would ask a Python worker for them at every use."""
    columns = list(zip(*rows, strict=True)) or [()] * len(wanted.fields)
    types = [to_arrow_type(f.dataType) for f in wanted.fields]
    arrays = [
        pa.array([_plain(value, f.dataType) for value in values], type_)
        for values, f, type_ in zip(columns, wanted.fields, types, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=wanted.names)
    with tempfile.NamedTemporaryFile(suffix=".arrow") as file:
        with pa.ipc.new_stream(file.name, batch.schema) as writer:
            writer.write_batch(batch)
        jvm: Any = spark._jvm
        batches = jvm.PythonSQLUtils.readArrowStreamFromFile(file.name)
        return DataFrame(jvm.PythonSQLUtils.toDataFrame(batches, wanted.json(), spark._jsparkSession), spark)


def _plain(value: Any, data_type: DataType) -> Any:
    """A value as Arrow takes it: structs by name."""
    if value is None:
        return None
    if isinstance(data_type, StructType):
        return {f.name: _plain(v, f.dataType) for f, v in zip(data_type.fields, value, strict=True)}
    if isinstance(data_type, ArrayType):
        return [_plain(v, data_type.elementType) for v in value]
    if isinstance(data_type, MapType):
        return [(k, _plain(v, data_type.valueType)) for k, v in value.items()]
    if isinstance(data_type, DecimalType):
        return value.quantize(Decimal(1).scaleb(-data_type.scale), context=Context(prec=38))
    return value


def rows(df: DataFrame) -> Counter[str]:
    """The rows as a multiset; a row is shown with its columns in order."""
    return Counter(repr(tuple(row)) for row in df.collect())


def weighed(df: DataFrame) -> Counter[str]:
    """Signed changes summed by row, zeroes left out."""
    columns = [name for name in df.columns if name != WEIGHT]
    total: Counter[str] = Counter()
    for row in df.collect():
        total[repr(tuple(row[name] for name in columns))] += row[WEIGHT]
    return Counter({row: weight for row, weight in total.items() if weight})


def difference(old: Counter[str], new: Counter[str]) -> Counter[str]:
    """The signed changes between two states, by plain counting."""
    keys = set(old) | set(new)
    return Counter({key: new[key] - old[key] for key in keys if new[key] != old[key]})
