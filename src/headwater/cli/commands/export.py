"""`headwater export`: copy a relation to another format or place, and look after the jobs that do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headwater.cli.options import Common, lake_command
from headwater.cli.output import note, show_record, show_records
from headwater.core.errors import Code, UsageError, did_you_mean

if TYPE_CHECKING:
    from headwater.api.lake import Lake

_JOBS = ("list", "status", "stop", "resume")
_COLUMNS = ["id", "source", "format", "destination", "mode", "state", "doing", "progress", "rows", "started_at"]
_TOLD_ELSEWHERE = ("holder", "definition")


def register(app: typer.Typer) -> None:
    lake_command(app, served=True)(export)


def export(
    common: Common,
    what: Annotated[
        str,
        typer.Argument(
            metavar="NAME|QUERY|jobs",
            help="A topic, table, view or query; an export of the project; or `jobs list | status | stop | resume ID`.",
        ),
    ],
    more: Annotated[list[str] | None, typer.Argument(metavar="[list|status|stop|resume] [ID]", help="Of jobs.")] = None,
    format: Annotated[
        str | None, typer.Option("--format", help="parquet, csv, json, avro, orc, arrow, delta, iceberg, hudi, paimon.")
    ] = None,
    destination: Annotated[str | None, typer.Option("--destination", help="A folder or URI.")] = None,
    catalog: Annotated[
        str | None, typer.Option("--catalog", help="A catalog of the project, or the type of the only one.")
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Of the table in the catalog.")] = None,
    table: Annotated[str | None, typer.Option("--table", help="The table's name in the catalog.")] = None,
    streaming: Annotated[bool, typer.Option("--streaming", help="Keep the copy up to date.")] = False,
    primary_key: Annotated[
        list[str] | None, typer.Option("--primary-key", help="A key column; can be repeated.")
    ] = None,
    partition_by: Annotated[
        list[str] | None, typer.Option("--partition-by", help="A column or expression; can be repeated.")
    ] = None,
    z_order_by: Annotated[list[str] | None, typer.Option("--z-order-by", help="A column; can be repeated.")] = None,
    columns: Annotated[list[str] | None, typer.Option("--columns", help="A column to copy; can be repeated.")] = None,
    filter: Annotated[str | None, typer.Option("--filter", help="A SQL condition: the rows to copy.")] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help="Other names and types: 'amount decimal(10,2), ts AS at'.")
    ] = None,
    compression: Annotated[str | None, typer.Option("--compression", help="Codec of the copy's files.")] = None,
    target_file_size: Annotated[str | None, typer.Option("--target-file-size", help="Such as 128MB.")] = None,
    if_exists: Annotated[
        Literal["fail", "append", "overwrite"] | None, typer.Option("--if-exists", help="If something is there.")
    ] = None,
    verify: Annotated[
        Literal["full", "sample", "off"] | None, typer.Option("--verify", help="How much is read back.")
    ] = None,
    header: Annotated[bool | None, typer.Option("--header/--no-header", help="Names of columns in CSV.")] = None,
    delimiter: Annotated[str | None, typer.Option("--delimiter", help="Between the values of CSV.")] = None,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="Quote CSV texts that begin with =, +, - or @.")
    ] = False,
) -> None:
    """Copy a topic, table, view or query to another format or place; other readers check it."""
    if what == "jobs":
        _jobs(common, more or [])
        return
    if more:
        raise UsageError(Code.USAGE, f"'{more[0]}' is too much here", hint="a query is one word, in quotes")
    keys: dict[str, object] = {
        "format": format,
        "primary_key": primary_key,
        "partition_by": partition_by,
        "z_order_by": z_order_by,
        "columns": columns,
        "filter": filter,
        "schema": schema,
        "compression": compression,
        "target_file_size": target_file_size,
        "if_exists": if_exists,
        "verify": verify,
        "header": header,
        "delimiter": delimiter,
        "escape_formulas": escape_formulas or None,
    }
    with common.open() as lake:
        keys["to"] = destination or _in_catalog(lake, catalog, namespace, table)
        if streaming and (format is not None or keys["to"] is not None):
            given = {key: value for key, value in keys.items() if value is not None}
            job = lake.export_stream(what, **given).to_dict()  # type: ignore[arg-type]
            show_record(_without(job), as_json=common.as_json)
            if not common.as_json:
                note(f"it is filled; `headwater run` keeps exports.{job['id']} up to date")
            return
        exported = lake.export(what, **keys)  # type: ignore[arg-type]
    show_record(_told(exported.to_dict(), common.as_json), as_json=common.as_json)


def _in_catalog(lake: Lake, catalog: str | None, namespace: str | None, table: str | None) -> str | None:
    """The name that `--catalog`, `--namespace` and `--table` make."""
    if catalog is None and namespace is None and table is None:
        return None
    if catalog is None or namespace is None or table is None:
        raise UsageError(Code.USAGE, "a table in a catalog has --catalog, --namespace and --table")
    if catalog in lake.project.catalogs or catalog == "lake":
        return f"{catalog}.{namespace}.{table}"
    return f"{catalog}://{catalog}/{namespace.replace('.', '/')}/{table}"


def _jobs(common: Common, words: list[str]) -> None:
    action, ids = (words[0] if words else "list"), words[1:]
    if action not in _JOBS:
        raise UsageError(Code.USAGE, f"jobs have no '{action}'", hint=did_you_mean(action, _JOBS))
    if (action == "list") == bool(ids) or len(ids) > 1:
        raise UsageError(Code.USAGE, f"jobs {action} takes {'no id' if action == 'list' else 'one id'}")
    if action == "resume":
        with common.open() as lake:
            exported = lake.resume_export(ids[0])
            job = lake.export_job(ids[0])
        told = _without(job.to_dict()) if exported is None else _told(exported.to_dict(), common.as_json)
        show_record(told, as_json=common.as_json)
        return
    with common.look() as lake:
        if action == "list":
            jobs = [_without(job.to_dict()) for job in lake.export_jobs()]
            rows = jobs if common.as_json else [{name: job[name] for name in _COLUMNS} for job in jobs]
            show_records(rows, _COLUMNS, as_json=common.as_json, empty="nothing has been exported yet")
            return
        job = lake.export_job(ids[0]) if action == "status" else lake.stop_export(ids[0])
    show_record(_without(job.to_dict()), as_json=common.as_json)
    if action == "stop" and not common.as_json:
        note("it stops within a second or two, and its target stays as it was")


def _without(job: Mapping[str, object]) -> dict[str, Any]:
    """A job as people and programs read it: what is JSON in the state is taken apart."""
    shown = {key: value for key, value in job.items() if key not in _TOLD_ELSEWHERE}
    for key in ("position", "readers"):
        shown[key] = json.loads(str(shown[key])) if shown[key] else None
    return shown


def _told(exported: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """For people: who has read it back, in a word each."""
    if not as_json:
        exported["readers"] = ", ".join(f"{one['reader']}: {one['rows']} rows" for one in exported["readers"]) or "none"
    return exported
