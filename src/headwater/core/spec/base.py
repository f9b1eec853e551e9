"""What every definition is made of: a frozen, strict model that knows its name and its place in the files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
)
from pydantic import WithJsonSchema as JsonSchema

from headwater.core.errors import Where
from headwater.core.secret import masked
from headwater.core.units import (
    DURATION_FORM,
    SHARE_FORM,
    SIZE_FORM,
    format_duration,
    parse_duration,
    parse_share,
    parse_size,
)

D = TypeVar("D", bound="Definition")


class Frozen(BaseModel):
    """The base of every definition: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield (name, masked(value) if name in ("options", "conf") and isinstance(value, dict) else value)


# --- values as people write them


def _duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        duration = value
    elif isinstance(value, str):
        duration = parse_duration(value)
    else:
        raise ValueError(f"should be {DURATION_FORM}")
    if duration < timedelta(0):
        raise ValueError("a duration is not negative")
    return duration


def _interval(value: Any) -> timedelta:
    duration = _duration(value)
    if not duration:
        raise ValueError("should be longer than nothing")
    return duration


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"should be {SIZE_FORM}")
    size = parse_size(value) if isinstance(value, str) else value
    if size <= 0:
        raise ValueError("a size is larger than nothing")
    return size


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"should be {SHARE_FORM}")
    share = parse_share(value) if isinstance(value, str) else float(value)
    if not 0 <= share <= 1:
        raise ValueError("a share lies between 0 and 1")
    return share


def _trigger(value: Any) -> timedelta | str:
    if value in ("continuous", "once"):
        return str(value)
    try:
        return _interval(value)
    except ValueError:
        raise ValueError("should be continuous, once, or how often: 5m") from None


def _not_a_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


_TOGETHER = re.compile(r"\([^()]*\)|\{[^{}]*\}|`[^`]*`|'[^']*'|\"[^\"]*\"")
"""What may hold a comma in a name or an expression: `bucket(8, id)`, `topics/{a,b}.yml`."""


def _names(value: Any) -> Any:
    if isinstance(value, str) and "," in _TOGETHER.sub("", value):
        raise ValueError(f"several are a list: [{value}]; one name with a comma is a list too: ['{value}']")
    listed = [value] if isinstance(value, str) else value
    if isinstance(listed, (list, tuple)):
        twice = [name for i, name in enumerate(listed) if name in listed[:i]]
        if twice:
            raise ValueError(f"'{twice[0]}' is named twice")
    return listed


def _texts(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _text(item) for key, item in value.items()}


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else value


def _shown(value: timedelta | str) -> str:
    return value if isinstance(value, str) else format_duration(value)


_DURATION_SCHEMA = {"type": "string", "description": DURATION_FORM, "examples": ["30s", "5m", "6h", "7d"]}

Duration = Annotated[
    timedelta,
    PlainValidator(_duration),
    PlainSerializer(_shown, when_used="json"),
    JsonSchema(_DURATION_SCHEMA),
]
"""A duration, zero included."""

Interval = Annotated[
    timedelta,
    PlainValidator(_interval),
    PlainSerializer(_shown, when_used="json"),
    JsonSchema(_DURATION_SCHEMA),
]
"""A duration longer than zero."""

Size = Annotated[int, PlainValidator(_size), JsonSchema({"type": ["integer", "string"], "description": SIZE_FORM})]
"""Bytes."""

Share = Annotated[
    float,
    PlainValidator(_share),
    JsonSchema({"type": ["number", "string"], "description": SHARE_FORM}),
]
"""A part of a whole, between 0 and 1."""

Trigger = Annotated[
    Literal["continuous", "once"] | timedelta,
    PlainValidator(_trigger),
    PlainSerializer(_shown, when_used="json"),
    JsonSchema({"type": "string", "description": "continuous, once, or how often: 5m"}),
]
"""When a flow takes its next step."""

Count = Annotated[int, Field(gt=0), BeforeValidator(_not_a_flag)]
"""A whole number from 1."""

Number = Annotated[int, Field(ge=0), BeforeValidator(_not_a_flag)]
"""A whole number from 0."""

Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_names),
    JsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""One name or several, each once."""

Options = Annotated[
    dict[str, str],
    BeforeValidator(_texts),
    PlainSerializer(masked, when_used="json"),
    JsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
"""Settings passed on as they are; those that look like secrets are never shown."""


class Definition(Frozen):
    """Something that a project defines by name."""

    description: str = Field(default="", description="A description for people.")
    tags: Names = Field(default=(), description="Free words to find it by.")
    owner: str | None = Field(default=None, description="Who is responsible for it.")
    options: Options = Field(
        default={}, description="Passed on as they are to the format, reader or service behind it."
    )

    _name: str = PrivateAttr(default="")
    _where: Where = PrivateAttr(default=Where("?"))

    @property
    def name(self) -> str:
        return self._name

    @property
    def where(self) -> Where:
        """The file and line it was defined at."""
        return self._where


def placed(definition: D, name: str, where: Where) -> D:
    """The definition under its name, knowing where it stands."""
    copy = definition.model_copy()
    copy._name = name
    copy._where = where
    return copy
