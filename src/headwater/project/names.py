"""Names of definitions: `[a-z][a-z0-9_]*`."""

from __future__ import annotations

import re
import unicodedata

from headwater.core.errors import Code, Problem, Where

NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")


def slug(text: str) -> str:
    """The nearest name to a text: `My Orders!` → `my_orders`."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()).strip("_")
    return (words if words[:1].isalpha() else f"n_{words}" if words else "name")[:100].rstrip("_")


def check_name(name: str, where: Where, problems: list[Problem]) -> None:
    if NAME.fullmatch(name):
        return
    message = f"the name {name!r} should be small letters, digits and _, at most 100, with a letter first"
    problems.append(Problem(Code.INVALID_NAME, message, where, f"'{slug(name)}' would do"))
