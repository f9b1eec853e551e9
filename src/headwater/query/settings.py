"""What `SET` sets: for one shell, or one `Lake`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from headwater.core.errors import Code, UsageError, did_you_mean

Engine = Literal["auto", "spark", "duckdb"]
ENGINES: tuple[Engine, ...] = ("auto", "spark", "duckdb")
PREFIX = "headwater."
Stale = Literal["refresh", "serve", "fail"]
STALE: tuple[Stale, ...] = ("refresh", "serve", "fail")
_CHOICES: dict[str, tuple[str, ...]] = {"engine": ENGINES, "stale": STALE}


@dataclass
class SqlSettings:
    """Each has its `headwater.` name in SQL."""

    engine: Engine = "auto"
    """Which engine answers queries."""
    stale: Stale = "refresh"
    """What is done with a view of mode `on_query` that is older than it may be."""

    def set(self, name: str, value: str) -> None:
        """As `SET headwater.engine = spark` does."""
        key = self._known(name)
        word = value.lower()
        if word not in _CHOICES[key]:
            hint = did_you_mean(word, _CHOICES[key])
            raise UsageError(Code.INVALID_VALUE, f"{PREFIX}{key} can't be '{value}'", hint=hint)
        setattr(self, key, word)

    def shown(self, name: str | None = None) -> list[dict[str, str]]:
        """One of them, or all, by their names in SQL."""
        names = [field.name for field in fields(self)] if name is None else [self._known(name)]
        return [{"name": PREFIX + key, "value": getattr(self, key)} for key in names]

    def _known(self, name: str) -> str:
        known = {PREFIX + field.name: field.name for field in fields(self)}
        if name not in known:
            raise UsageError(Code.UNKNOWN_KEY, f"there is no setting '{name}'", hint=did_you_mean(name, known))
        return known[name]
