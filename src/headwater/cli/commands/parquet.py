"""`headwater parquet`: the files under topics, tables and views."""

from __future__ import annotations

from typing import Annotated

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, print_json, print_line, show_record, show_records
from headwater.core.errors import Code, UsageError
from headwater.core.spec.layout import Codec, ParquetOptions
from headwater.core.units import parse_size, readable_size
from headwater.query.json_schema import SchemaView

app = typer.Typer(help="The files under topics, tables and views.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The topic; a table or view as tables.x or views.x.")]


@lake_command(app, served=True)
def stats(
    common: Common,
    name: Name,
    files: Annotated[bool, typer.Option("--files", help="A line per file instead of per column.")] = False,
) -> None:
    """Show what the files hold, per column or per file. Column statistics are kept for planning queries."""
    with common.look() as lake:
        if files:
            columns = ["path", "rows", "bytes", "row_groups", "compression", "partition"]
            found = lake.relation(name).files.list().to_dicts()
            show_records(found, columns, as_json=common.as_json, empty="no files yet")
            return
        stats = lake.relation(name).files.stats()
    if common.as_json:
        print_json(stats.to_dict())
        return
    columns = ["column", "type", "nulls", "distinct", "min", "max", "bytes"]
    show_records([column.to_dict() for column in stats.columns], columns, as_json=False)
    files_read = f"{stats.files} file{'' if stats.files == 1 else 's'}, {readable_size(stats.bytes)}"
    note(
        f"{stats.rows} rows in {files_read}; distinct values are an estimate; kept, and queries are planned by it "
        "from now on"
    )


@lake_command(app, served=True)
def schema(
    common: Common,
    name: Name,
    view: Annotated[SchemaView, typer.Option("--as", help="Spark's, a Parquet file's, or as JSON Schema.")] = "spark",
) -> None:
    """Show the schema as Spark, Parquet or JSON Schema."""
    with common.look() as lake:
        files = lake.relation(name).files
        if view == "spark":
            show_records(files.spark_schema().to_dicts(), ["name", "type", "nullable"], as_json=common.as_json)
        elif view == "json-schema":
            print_json(files.json_schema())
        elif common.as_json:
            print_json({"schema": files.parquet_schema()})
        else:
            print_line(files.parquet_schema().rstrip())


@lake_command(app, served=True)
def compact(
    common: Common,
    name: Name,
    target_file_size: Annotated[str | None, typer.Option("--target-file-size", help="Such as 128MB.")] = None,
) -> None:
    """Merge small files. No row changes."""
    with common.open() as lake:
        done = lake.relation(name).files.compact(_size(target_file_size))
    show_record(done.to_dict(), as_json=common.as_json)


@lake_command(app, served=True)
def convert(
    common: Common,
    name: Name,
    to: Annotated[
        str | None,
        typer.Option("--to", help="A new folder, or a name in a catalog: lake.copies.orders; else under ./copies."),
    ] = None,
    format: Annotated[str | None, typer.Option("--format", help="Table format; the same by default.")] = None,
    compression: Annotated[Codec | None, typer.Option("--compression", help="Codec of the files.")] = None,
    row_group_size: Annotated[str | None, typer.Option("--row-group-size", help="Such as 64MB.")] = None,
    bloom_filter: Annotated[list[str] | None, typer.Option("--bloom-filter", help="A column; can be repeated.")] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", help="A column; can be repeated. '' for none.")
    ] = None,
    z_order_by: Annotated[list[str] | None, typer.Option("--z-order-by", help="A column; can be repeated.")] = None,
) -> None:
    """Copy the latest version into a new table with another codec, row group size, format or layout."""
    options = ParquetOptions(
        compression=compression, row_group_size=_size(row_group_size), bloom_filter=tuple(bloom_filter or ())
    )
    with common.open() as lake:
        done = lake.relation(name).files.convert(
            to,
            format=format,
            parquet=options,
            partition_by=None if partition_by is None else tuple(filter(None, partition_by)),
            z_order_by=tuple(z_order_by or ()),
        )
    show_record(done.to_dict(), as_json=common.as_json)


def _size(text: str | None) -> int | None:
    try:
        size = None if text is None else parse_size(text)
    except ValueError as error:
        raise UsageError(Code.INVALID_VALUE, str(error)) from None
    if size == 0:
        raise UsageError(Code.INVALID_VALUE, "a size of 0 holds nothing", hint="leave it out for the default")
    return size
