"""What is wrong with an export, as far as its keys tell: said by `headwater check`, and before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headwater.core.errors import Code, UsageError, did_you_mean
from headwater.core.spec import Export
from headwater.targets.base import Ability, TargetKind
from headwater.targets.overrides import overrides_in
from headwater.targets.registry import TARGETS

_CSV_KEYS = ("header", "delimiter", "escape_formulas")


@dataclass(frozen=True)
class Mistake:
    """One of them, with the key that makes it."""

    key: str
    code: Code
    message: str
    hint: str | None = None

    def error(self) -> UsageError:
        return UsageError(self.code, self.message, hint=self.hint)


def mistakes(definition: Export) -> Iterator[Mistake]:
    """Everything that can be known to be wrong without a look at the data or the target."""
    if definition.format not in TARGETS:
        hint = did_you_mean(definition.format, TARGETS.names())
        yield Mistake("format", Code.UNKNOWN_FORMAT, f"there is no format '{definition.format}'", hint)
        return
    kind = TARGETS.get(definition.format)
    for ability, key in _asked(definition):
        if not kind.can(ability):
            message, what_to_do = kind.refusal(ability)
            having = [other.title for other in TARGETS if other.can(ability)]
            yield Mistake(key, Code.UNSUPPORTED, message, what_to_do or _these(having))
    yield from _codecs(kind, definition)
    if definition.verify == "sample":
        message = "`verify: sample` does not run yet"
        yield Mistake("verify", Code.NOT_RUNNABLE_YET, message, "take `full`, or `off`")
    try:
        overrides_in(definition.schema_)
    except UsageError as error:
        yield Mistake("schema", error.code, error.problem.message, error.problem.hint)
    if definition.delimiter in '"\r\n':
        yield Mistake("delimiter", Code.INVALID_VALUE, "a quote or the end of a line is no delimiter")


def require_right(definition: Export) -> None:
    """Raise the first of them."""
    for one in mistakes(definition):
        raise one.error()


def _asked(definition: Export) -> Iterator[tuple[Ability, str]]:
    if definition.mode == "streaming":
        yield "stream", "mode"
        if definition.primary_key:
            yield "updates", "primary_key"
    if definition.partition_by:
        yield "partitions", "partition_by"
    if any("(" in one for one in definition.partition_by):
        yield "partition expressions", "partition_by"
    if definition.z_order_by:
        yield "z-order", "z_order_by"
    if definition.target_file_size is not None:
        yield "file size", "target_file_size"
    for key in _CSV_KEYS:
        if key in definition.model_fields_set:
            yield "header", key


def _codecs(kind: TargetKind, definition: Export) -> Iterator[Mistake]:
    for key, codec in (
        ("compression", definition.compression),
        ("parquet.compression", definition.parquet.compression),
    ):
        if codec is None or codec in kind.codecs:
            continue
        message = f"{kind.title} can't be written with '{codec}' compression"
        yield Mistake(key, Code.UNSUPPORTED, message, f"it has {', '.join(sorted(kind.codecs)) or 'none'}")


def _these(titles: list[str]) -> str | None:
    return f"{', '.join(titles)} can" if titles else None
