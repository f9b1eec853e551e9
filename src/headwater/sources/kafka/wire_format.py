"""How registries mark values: a zero byte, the schema's id in four bytes, which message (Protobuf), then the body."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

HEAD = 5
_ALL = 2**31 - 1


def is_framed(raw: Column) -> Column:
    return (F.length(raw) >= HEAD) & (F.substring(raw, 1, 1) == F.lit(b"\x00"))


def schema_id(raw: Column) -> Column:
    """NULL where there is none."""
    number = F.conv(F.hex(F.substring(raw, 2, HEAD - 1)), 16, 10).cast("int")
    return F.when(is_framed(raw), number)


def body(raw: Column) -> Column:
    return F.substring(raw, HEAD + 1, _ALL)


def unframed(raw: Column) -> Column:
    """Without the mark, where there is one: no text begins with a zero byte."""
    return F.when(is_framed(raw), body(raw)).otherwise(raw)


def message_head(raw: Column) -> Column:
    """The mark and the message's indexes, a byte each: a single zero stands for the first message."""
    count = F.conv(F.hex(F.substring(raw, HEAD + 1, 1)), 16, 10).cast("int")
    # The count is zigzag-coded: twice its value.
    return F.when(is_framed(raw), raw.substr(F.lit(1), F.lit(HEAD + 1) + F.shiftright(count, 1)))
