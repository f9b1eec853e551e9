"""Column names as Hudi's files hold them: Avro takes letters, digits and underscores."""

from __future__ import annotations

import re

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What a partition path holds for NULL."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENCODED = re.compile(r"_x[0-9a-f]+_")


def stored_name(name: str) -> str:
    """As it is where Avro takes it, else with the special characters as `_x2e_`; no two names become one."""
    if _PLAIN.fullmatch(name) and not _ENCODED.search(name):
        return name
    letters = [c if c.isascii() and c.isalnum() else f"_x{ord(c):x}_" for c in name]
    if name[:1].isdigit():
        letters[0] = f"_x{ord(name[0]):x}_"
    return "".join(letters)
