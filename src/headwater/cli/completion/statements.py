"""What the shell offers to complete a word with."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

KEYWORDS = (
    "ALL ANALYZE AND AS ASC BETWEEN BY CASE CAST CREATE CROSS CURRENT_DATE DESC DESCRIBE DISTINCT DROP ELSE END EXCEPT"
    " EXISTS EXPLAIN EXPORT EXPORTS FALSE FROM FULL GROUP HAVING HISTORY IF IN INNER INSERT INTERSECT INTERVAL INTO IS"
    " JOIN LEFT LIKE LIMIT MATERIALIZED NOT NULL OF OFFSET ON OR ORDER OUTER OVER PARTITION REFRESH REPLACE RIGHT"
    " SELECT SET SHOW SYSTEM TABLES THEN TIMESTAMP TO TOPICS TRUE UNION USING VALUES VERSION VIEW VIEWS WHEN WHERE"
    " WINDOW WITH"
)
SYSTEM = "system"
"""The schema of what the lake tells of its own work."""
CALLS = ("topic('", "table('", "mv('", "changes('")

DELIMITERS = " \t\n,()=<>!+-*/;'\"`"
"""What a word ends at; not the dot of `topics.orders`."""

_INSIDE_CALL = re.compile(r"\b(topic|table|mv|changes)\(\s*'$", re.IGNORECASE)
_AFTER_FROM = re.compile(r"\b(FROM|JOIN|INTO|DESCRIBE|DESC|HISTORY|VIEW|EXPORT|TO)\s+$", re.IGNORECASE)


class Completion:
    """Names of relations and of their columns, and SQL's own words."""

    def __init__(
        self, names: Callable[[], Mapping[str, Sequence[str]]], columns: Callable[[str, str], Sequence[str]]
    ) -> None:
        self._names = names
        """By the word that calls one: topic, table, mv."""
        self._columns = columns
        self._known: dict[tuple[str, str], Sequence[str]] = {}

    def candidates(self, before: str, word: str) -> list[str]:
        """What a word may become, `before` being all of the statement that precedes it."""
        names = self._names()
        inside = _INSIDE_CALL.search(before)
        if inside:
            function = inside[1].lower()
            called = [kind for kind in names if function == kind or (function == "changes" and kind != SYSTEM)]
            pool = [name for kind in called for name in names[kind]]
            return _beginning(pool, word)
        dotted = {"topic": "topics", "table": "tables", "mv": "views", SYSTEM: SYSTEM}
        relations = [f"{dotted[kind]}.{name}" for kind, some in names.items() for name in some]
        bare = [name for kind, some in names.items() for name in some if kind != SYSTEM]
        if _AFTER_FROM.search(before):
            return _beginning([*bare, *relations, *CALLS], word)
        columns = [column for kind, name in self._mentioned(before, names) for column in self._of(kind, name)]
        words = KEYWORDS.split() if word[:1].isupper() else KEYWORDS.lower().split()
        return _beginning([*columns, *bare, *relations, *words, *CALLS], word)

    def _mentioned(self, text: str, names: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
        """Relations that the statement has named so far; before FROM, all of the lake's."""
        words = set(re.findall(r"[\w.]+", text.lower()))
        system = [(SYSTEM, name) for name in names.get(SYSTEM, ()) if f"{SYSTEM}.{name}" in words]
        words = set(re.findall(r"\w+", text))
        every = [(kind, name) for kind, some in names.items() for name in some if kind != SYSTEM]
        return [*system, *(one for one in every if one[1] in words)] or every

    def _of(self, kind: str, name: str) -> Sequence[str]:
        if (kind, name) not in self._known:
            self._known[kind, name] = self._columns(kind, name)
        return self._known[kind, name]


def _beginning(pool: Sequence[str], word: str) -> list[str]:
    return sorted({one for one in pool if one.lower().startswith(word.lower())})
