"""Whether a data file can be read as another format's: its columns have the names, numbers and types of the table's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.core.errors import Unsupported
from headwater.core.storage import Files
from headwater.formats.interop.seam import SEE, SharedFile, SharedVersion, number_of, stored_name
from headwater.schema.arrow import conformed, spark_type

_BATCH = 64 * 1024


def require_readable(source: SharedVersion, path: str, footer: pq.FileMetaData, *, widens: bool) -> None:
    """Refuse a file whose rows another format would show otherwise; `widens`: that one reads narrower types too."""
    columns = [footer.schema.column(number) for number in range(footer.num_columns)]
    if any(column.physical_type == "INT96" for column in columns):
        raise _refused(path, "it has times as INT96")
    file = source.files[path]
    if file.rows is not None and file.rows != footer.num_rows:
        raise _refused(path, f"it has {footer.num_rows} rows, and the table says {file.rows}")
    found = footer.schema.to_arrow_schema()
    _compare(path, list(source.schema), list(found), source.partition_by, widens)


def _compare(
    path: str, wanted: Sequence[pa.Field], found: Sequence[pa.Field], absent: Sequence[str], widens: bool
) -> None:
    by_name = {one.name: one for one in found}
    by_number = {number: one for one in found if (number := number_of(one)) is not None}
    folded = {one.name.lower(): one.name for one in found}
    for one in wanted:
        name, number = stored_name(one), number_of(one)
        if number is not None and number in by_number and by_number[number].name != name:
            other = by_number[number].name
            raise _refused(path, f"column '{one.name}' is still '{other}' in it")
        there = by_name.get(name)
        if there is None:
            if name.lower() in folded and name not in absent:
                raise _refused(path, f"column '{name}' is '{folded[name.lower()]}' in it")
            continue  # the file is older than the column, or only its folder names the value
        if number is not None and by_number and number_of(there) != number:
            raise _refused(path, f"its column '{name}' is another one, which was dropped")
        _compare_types(path, one, there, widens)


def _compare_types(path: str, wanted: pa.Field, there: pa.Field, widens: bool) -> None:
    new, old = wanted.type, there.type
    if pa.types.is_struct(new) and pa.types.is_struct(old):
        _compare(path, list(new), list(old), (), widens)
    elif pa.types.is_list(new) and pa.types.is_list(old):
        _compare_types(path, pa.field(wanted.name, new.value_type), pa.field(wanted.name, old.value_type), widens)
    elif pa.types.is_map(new) and pa.types.is_map(old):
        for one, other in ((new.key_type, old.key_type), (new.item_type, old.item_type)):
            _compare_types(path, pa.field(wanted.name, one), pa.field(wanted.name, other), widens)
    elif not _is_readable(spark_type(old), new, widens):
        raise _refused(path, f"column '{wanted.name}' is {new} by now, and {old} in it")


def _is_readable(old: pa.DataType, new: pa.DataType, widens: bool) -> bool:
    if old == new:
        return True
    if pa.types.is_signed_integer(old) and pa.types.is_signed_integer(new) and old.bit_width < new.bit_width <= 32:
        return True  # Parquet has no whole numbers of less than 32 bits
    if not widens:
        return False
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(old.scale == new.scale and old.precision <= new.precision)
    if pa.types.is_float32(old) and pa.types.is_float64(new):
        return True
    return bool(pa.types.is_signed_integer(old) and pa.types.is_int64(new))


def _refused(path: str, why: str) -> Unsupported:
    return Unsupported(f"the data file {path} can't be read as another format's: {why}", hint=SEE)


def is_plain(source: SharedVersion) -> bool:
    """Whether `rows_of` can read the files: no part of a column has another name in them."""
    return not any(_renamed(one.type) for one in source.schema)


def _renamed(kind: pa.DataType) -> bool:
    if not pa.types.is_nested(kind):
        return False
    inner: list[pa.Field] = [kind.field(i) for i in range(kind.num_fields)]
    return any(stored_name(one) != one.name or _renamed(one.type) for one in inner)


def rows_of(source: SharedVersion, store: Files, paths: Iterable[str]) -> pa.RecordBatchReader:
    """The rows of some files, as the source has them: read file by file, by nobody's metadata but the source's."""
    schema = pa.schema([pa.field(one.name, spark_type(one.type)) for one in source.schema])
    return pa.RecordBatchReader.from_batches(schema, _batches(source, store, paths, schema))


def _batches(source: SharedVersion, store: Files, paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in paths:
        file = source.files[path]
        with store.reading(path) as opened:
            found = pq.ParquetFile(opened)
            names = set(found.schema_arrow.names)
            wanted = [stored_name(one) for one in source.schema if stored_name(one) in names]
            for batch in found.iter_batches(_BATCH, columns=wanted):
                arrays = [_column(one, batch, file, schema.field(one.name).type) for one in source.schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(one: pa.Field, batch: pa.RecordBatch, file: SharedFile, kind: pa.DataType) -> pa.Array:
    name = stored_name(one)
    if name in batch.schema.names:
        return conformed(batch.column(name), kind)
    if file.partition.get(one.name) is not None:
        return pa.repeat(pa.scalar(file.partition[one.name], kind), batch.num_rows)
    return pa.nulls(batch.num_rows, kind)
