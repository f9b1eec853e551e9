"""The settings of a source that makes its events up."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from headwater.core.spec.base import Frozen, Number
from headwater.sources.base import EventColumns, SourceSpec

_RATE = re.compile(r"^[1-9]\d*/[smh]$")


def _rate(value: Any) -> Any:
    if not isinstance(value, str) or not _RATE.match(value.strip()):
        raise ValueError("should be events in a second, minute or hour: 100/s, 6000/m")
    return value.strip()


Rate = Annotated[str, BeforeValidator(_rate)]
"""How many events come in which time."""

Bound = int | float | str


class GeneratedField(Frozen):
    """How the values of one field are made."""

    kind: Literal["int", "decimal", "double", "string", "boolean", "date", "timestamp", "uuid", "choice"] = Field(
        description="Kind of value: `int`, `decimal`, `double`, `string`, `boolean`, `date`, `timestamp`, `uuid`, or"
        " a `choice` of `values`."
    )
    between: tuple[Bound, ...] | None = Field(
        default=None, min_length=2, max_length=2, description="The least value and the greatest: `[1, 100]`."
    )
    values: tuple[Any, ...] = Field(default=(), description="What a `choice` is made from.")

    @model_validator(mode="after")
    def _consistent(self) -> GeneratedField:
        if (self.kind == "choice") != bool(self.values):
            raise ValueError("kind `choice` and `values` come together")
        if self.between is not None and self.kind in ("string", "boolean", "uuid", "choice"):
            raise ValueError(f"`between` is not for kind `{self.kind}`")
        return self


class DatagenSource(SourceSpec):
    """Made-up events, to try a pipeline before its data is there."""

    takes_options: ClassVar[bool] = False

    type: Literal["datagen"] = Field(default="datagen", description="`datagen`: events that are made up.")
    rate: Rate = Field(default="10/s", description="Events in a second, minute or hour: `100/s`, `6000/m`.")
    seed: Number = Field(default=0, description="The same seed makes the same events.")
    fields: dict[str, GeneratedField] = Field(description="The fields of an event, by name, and how each is made.")
    columns: EventColumns = Field(default=EventColumns(), description="Where the standard columns come from.")
