"""`schema:` of an export: columns under other names or with other types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.core.errors import Code, UsageError
from headwater.core.quotes import backticked

if TYPE_CHECKING:
    from pyspark.sql import Column

_OVERRIDE = re.compile(r"\s*(`[^`]+`|\w+)(?:\s+AS\s+(`[^`]+`|\w+))?(?:\s+(\S.*?))?\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Override:
    """A column under another name or with another type."""

    name: str
    new: str
    type: str | None = None

    def applied(self) -> Column:
        """The column as the copy has it; a value that does not fit fails the export."""
        from pyspark.sql import functions as F

        if self.type is None:
            return F.col(backticked(self.name)).alias(self.new)
        value = backticked(self.name)
        cast = f"CAST({value} AS {self.type})"
        failure = f"raise_error('a value of the column {self.name} does not fit into {self.type}')"
        kept = f"IF({cast} IS NULL AND {value} IS NOT NULL, CAST({failure} AS {self.type}), {cast})"
        return F.expr(kept).alias(self.new)


def overrides_in(text: str | None) -> dict[str, Override]:
    """What `amount decimal(10,2), ts AS at, id AS key string` says, by the column's own name."""
    found: dict[str, Override] = {}
    for part in _split(text or ""):
        match = _OVERRIDE.fullmatch(part)
        if match is None:
            message = f"schema: '{part.strip()}' is no column"
            raise UsageError(Code.INVALID_VALUE, message, hint="write: amount decimal(10,2), ts AS at")
        name, new = match[1].strip("`"), (match[2] or match[1]).strip("`")
        if name in found:
            raise UsageError(Code.INVALID_VALUE, f"schema: the column '{name}' is named twice")
        found[name] = Override(name, new, match[3])
    return found


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are inside of no bracket."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    if part.strip():
        yield part
