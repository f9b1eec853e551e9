"""Regular expressions that mean the same to Java and to RE2: the plain ones."""

from __future__ import annotations

import re

from headwater.query.duckdb.translation.terms import Refused

_ORDINARY = re.compile(r"[A-Za-z0-9 _@#%=:,;'\"<>!~&/\-]|[^\x00-\x7f]")
_CLASS = re.compile(r"\[\^?[A-Za-z0-9_ .@/:,+\-]+\]")
_COUNT = re.compile(r"\{\d{1,3}(,\d{0,3})?\}")

# What Java ends a line at; RE2 knows only \n.
_ANY = r"[^\n\r\x{85}\x{2028}\x{2029}]"


def for_duckdb(pattern: str) -> str:
    """A pattern of Java's for RE2; one with more than the common ground is refused."""
    found: list[str] = []
    at = 0
    quantified = False
    while at < len(pattern):
        rest = pattern[at:]
        char = rest[0]
        step = char
        repeats = False
        if match := _CLASS.match(rest):
            step = match[0]
        elif (match := _COUNT.match(rest)) and found:
            step, repeats = match[0], True
        elif char in "*+?" and found:
            repeats = True
        elif (
            (char == "^" and (at == 0 or pattern[at - 1] in "(|"))
            or (char == "(" and not rest.startswith("(?"))
            or char in ")|"
            or _ORDINARY.match(char)
        ):
            pass
        elif char != ".":
            raise Refused(f"the pattern '{pattern}' has '{char}', which Java and DuckDB may read differently")
        if repeats and quantified:
            raise Refused(f"the pattern '{pattern}' has a quantifier that Java and DuckDB may read differently")
        quantified = repeats
        found.append(_ANY if char == "." and step == "." else step)
        at += len(step)
    groups(pattern)  # one that is broken is refused
    return "".join(found)


def groups(pattern: str) -> int:
    """How many a pattern has."""
    try:
        return re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise Refused(f"the pattern '{pattern}' is left to Spark: {error}") from None
