"""Somebody's names and values as YAML and SQL take them, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import yaml

from headwater.core.quotes import backticked

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONE_LINE = 1 << 30


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return name if _NAME.fullmatch(name) and not _is_of_sql(name) else backticked(name)


@lru_cache
def _is_of_sql(word: str) -> bool:
    """Whether a word has a meaning of its own where a column may stand."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        (found,) = parse_one(f"SELECT {word}", dialect="spark").expressions
    except (SqlglotError, ValueError):
        return True
    return not isinstance(found, exp.Column)


def short(text: str, length: int) -> str:
    """A text for a comment: one line, without characters that nobody sees."""
    line = "".join(sign if sign.isprintable() else "�" for sign in " ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


def as_text(value: Any) -> str:
    """A value as an example shows it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (date, Decimal, str, int, float)) else "…"


def literal(text: str) -> str:
    """A text in which no variable is looked for."""
    return text.replace("${", "$${")


def flow(value: Any) -> str:
    """A value as YAML has it on one line."""
    plain = dict(value) if isinstance(value, Mapping) else value
    inside = isinstance(plain, (dict, list))
    text = yaml.dump(
        [plain] if inside else {"": plain},
        Dumper=_Dumper,
        default_flow_style=inside,
        width=_ONE_LINE,
        allow_unicode=True,
        sort_keys=False,
    )
    return text.strip()[1:-1] if inside else text.partition(": ")[2].strip()


def block(key: str, lines: Sequence[str]) -> Iterator[str]:
    """A key with a text of several lines, as it is where YAML has all its characters, else in quotes."""
    if all(line.isprintable() for line in lines):
        yield f"{key}: |"
        yield from (f"  {literal(line)}".rstrip() for line in lines)
    else:
        yield f"{key}: {flow(literal(chr(10).join(lines)))}"


class _Dumper(yaml.SafeDumper):
    """Texts with line feeds and the like in double quotes, which have an escape for each."""


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represented)
