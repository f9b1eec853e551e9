"""What the forgotten values look like in the text of a record, whatever it was decoded from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headwater.operations.erasure.condition import Clause, ForgottenValue

RAW_LENGTH = 6
"""Values of so many characters are looked for in bytes that can't be decoded; shorter ones would be found by chance."""
_CUT_AT = (16, 32)
"""Iceberg and Delta cut bounds of texts after so many characters, and may raise the last one."""
_BEFORE = r"(?:^|[^\w]|\\[nrtbf])"
_AFTER = r"(?:[^\w]|$)"
_LETTERS = r"\p{L}\p{N}_"
"""What `\\w` is to DuckDB, in brackets."""


@dataclass(frozen=True)
class ClausePatterns:
    """The patterns of one clause: a record holds its values if all of them match."""

    patterns: tuple[str, ...]

    @cached_property
    def _compiled(self) -> list[re.Pattern[str]]:
        return [re.compile(one, re.IGNORECASE) for one in self.patterns]

    def found_in(self, text: str) -> bool:
        return all(one.search(text) for one in self._compiled)

    @property
    def duckdb(self) -> Sequence[str]:
        """The same for DuckDB, whose `\\w` knows only English letters."""
        return [f"(?i){one.replace('[^' + chr(92) + 'w]', f'[^{_LETTERS}]')}" for one in self.patterns]


@dataclass(frozen=True)
class ValuePatterns:
    """The patterns of all clauses."""

    clauses: tuple[ClausePatterns, ...]
    paths: tuple[str, ...]
    raw: tuple[bytes, ...]

    @classmethod
    def of(cls, clauses: Iterable[Clause]) -> ValuePatterns:
        known = [one for one in clauses if one]
        texts = {value.text for one in known if len(one) == 1 for value in one}
        return cls(
            tuple(ClausePatterns(tuple(sorted(map(_pattern, one)))) for one in known),
            tuple(rf"[=/]{re.escape(text)}(?:/|$)" for text in sorted(texts)),
            tuple(text.encode() for text in sorted(texts) if len(text) >= RAW_LENGTH),
        )

    def found_in(self, text: str) -> bool:
        return any(one.found_in(text) for one in self.clauses)

    def found_in_path(self, path: str) -> bool:
        return any(re.search(one, path, re.IGNORECASE) for one in self.paths)

    def found_in_bytes(self, data: bytes) -> bool:
        return any(one in data for one in self.raw)


def _pattern(value: ForgottenValue) -> str:
    if not value.is_text:
        name, text = re.escape(value.column), re.escape(value.text)
        return rf'{name}\\*"?\s*[:=]\s*\\*"?{text}(?:\.0+)?\\*"?(?:[^\w.]|$)'
    escaped = json.dumps(value.text)[1:-1]
    forms = dict.fromkeys([value.text, escaped, json.dumps(escaped)[1:-1]])
    whole = [re.escape(one) for one in forms]
    cut = [rf"{re.escape(value.text[: at - 1])}.{{1,2}}" for at in _CUT_AT if len(value.text) > at]
    return f"{_BEFORE}(?:{'|'.join([*whole, *cut])}){_AFTER}"
