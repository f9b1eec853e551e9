"""What stands in `WITH (…)`: checked, each with its place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from headwater.core.errors import did_you_mean
from headwater.core.spec.outlets import Export
from headwater.core.spec.relations import Refresh
from headwater.sql.places import InvalidSql, Span

MODES: tuple[str, ...] = get_args(Refresh.model_fields["mode"].annotation)
POLICIES: tuple[str, ...] = get_args(Refresh.model_fields["policy"].annotation)

VIEW = ("refresh", "interval", "max_staleness", "format", "partition_by")
EXPORT = (
    "format", "compression", "mode", "primary_key", "partition_by", "z_order_by", "columns", "filter", "schema",
    "target_file_size", "row_group_size", "if_exists", "verify", "header", "delimiter", "escape_formulas",
)  # fmt: skip
_NAMES = frozenset({"primary_key", "partition_by", "z_order_by", "columns"})


@dataclass(frozen=True)
class Option:
    """One `name = value`."""

    name: str
    value: str
    span: Span
    """Of the name."""
    value_span: Span


@dataclass(frozen=True)
class ViewOptions:
    """What a view's statement says of it alongside its query."""

    refresh: Refresh
    format: str | None = None
    partition_by: tuple[str, ...] = ()


def view_options(options: Sequence[Option], text: str) -> ViewOptions:
    """`refresh` takes a mode or a policy; an interval means periodic."""
    written = _once(options, VIEW, text)
    fields: dict[str, Any] = {}
    refresh = written.get("refresh")
    if refresh is not None:
        word = refresh.value.lower()
        if word in MODES:
            fields["mode"] = word
        elif word in POLICIES:
            fields["policy"] = word
        else:
            raise _bad(refresh, text, "is neither a mode nor a policy of refresh", (*MODES, *POLICIES))
    for name, key in (("interval", "every"), ("max_staleness", "max_staleness")):
        if name in written:
            fields[key] = written[name].value
    try:
        made = Refresh.model_validate(fields)
    except ValidationError as error:
        raise _invalid(error, written, text) from None
    partitions = written["partition_by"].value.split(",") if "partition_by" in written else []
    format = written["format"].value.lower() if "format" in written else None
    return ViewOptions(made, format, tuple(one.strip() for one in partitions if one.strip()))


def export_options(options: Sequence[Option], text: str) -> dict[str, Any]:
    """`format` is that of the copy's files, which are Parquet where a table has any; the rest are an export's keys."""
    written = _once(options, EXPORT, text)
    for name, choices in _CHOICES.items():
        option = written.get(name)
        if option is not None and option.value.lower() not in choices:
            raise _bad(option, text, f"is no {name} of an export", choices)
    keys: dict[str, Any] = {}
    for name, option in written.items():
        if name in _NAMES:
            keys[name] = [one.strip() for one in option.value.split(",") if one.strip()]
        elif name == "row_group_size":
            keys["parquet"] = option.value
        elif name in _WORDS:
            keys[name] = option.value.lower()
        else:
            keys[name] = option.value
    return keys


_CHOICES: dict[str, tuple[str, ...]] = {
    "format": ("parquet",),
    "compression": ("none", "snappy", "gzip", "lz4", "zstd", "brotli", "deflate", "bzip2", "zlib"),
    "mode": get_args(Export.model_fields["mode"].annotation),
    "if_exists": get_args(Export.model_fields["if_exists"].annotation),
    "verify": get_args(Export.model_fields["verify"].annotation),
    "header": ("true", "false"),
    "escape_formulas": ("true", "false"),
}
_WORDS = frozenset(_CHOICES)


def _once(options: Sequence[Option], known: Sequence[str], text: str) -> dict[str, Option]:
    by_name: dict[str, Option] = {}
    for option in options:
        if option.name not in known:
            hint = did_you_mean(option.name, known)
            raise InvalidSql(f"there is no option '{option.name}'", text=text, span=option.span, hint=hint)
        if option.name in by_name:
            raise InvalidSql(f"'{option.name}' is given twice", text=text, span=option.span)
        by_name[option.name] = option
    return by_name


def _bad(option: Option, text: str, what: str, choices: Sequence[str]) -> InvalidSql:
    hint = did_you_mean(option.value.lower(), choices)
    return InvalidSql(f"'{option.value}' {what}", text=text, span=option.value_span, hint=hint)


def _invalid(error: ValidationError, written: dict[str, Option], text: str) -> InvalidSql:
    first = error.errors()[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    field = str(first["loc"][0]) if first["loc"] else ""
    option = (
        written.get("interval" if field == "every" else field) or written.get("refresh") or next(iter(written.values()))
    )
    message = message.replace("`every`", "`interval`")
    return InvalidSql(message, text=text, span=option.value_span)
