"""Values that stand in the names of folders: `year=2026/month=10/…`."""

from __future__ import annotations

import posixpath
import re
from datetime import date
from urllib.parse import unquote

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DoubleType, LongType, StringType, StructField, StructType

NOTHING = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = re.compile(r"^([^=]+)=(.*)$")
_WHOLE = re.compile(r"^-?\d{1,18}$")
_NUMBER = re.compile(r"^-?\d+\.\d+$")
_ESCAPED = "%[0-9A-Fa-f]{2}"


class Partitions:
    """The names and types of the values in all paths seen so far."""

    def __init__(self) -> None:
        self._types: dict[str, DataType] = {}
        self._folders: set[str] = set()

    @property
    def schema(self) -> StructType:
        return StructType([StructField(name, one) for name, one in self._types.items()])

    def learn(self, path: str) -> None:
        folder = posixpath.dirname(path)
        if folder in self._folders:
            return
        self._folders.add(folder)
        for part in folder.split("/"):
            found = _FOLDER.match(part)
            if found and found[2] not in ("", NOTHING):
                self._add(unquote(found[1]), _type_of(unquote(found[2])))

    def _add(self, name: str, found: DataType) -> None:
        known = self._types.get(name, found)
        if known != found:
            numbers = (LongType, DoubleType)
            both = isinstance(known, numbers) and isinstance(found, numbers)
            found = DoubleType() if both else StringType()
        self._types[name] = found


def value_in(path: Column, name: str) -> Column:
    """A name's value as text, NULL where the path has none. The path has to begin with some folder."""
    found = F.regexp_extract(path, f"/{re.escape(_escaped(name))}=([^/]*)/", 1)
    # Only a value that is escaped throughout can be unescaped: `100%` is itself.
    escaped = found.rlike(_ESCAPED) & ~found.rlike("%(?![0-9A-Fa-f]{2})")
    text = F.when(escaped, F.url_decode(F.replace(found, F.lit("+"), F.lit("%2B")))).otherwise(found)
    return F.when((found != "") & (found != NOTHING), text)


def _escaped(name: str) -> str:
    """As Hive writes a name into a folder's name."""
    return "".join(f"%{ord(char):02X}" if char in "\"#%'*/:=?\\{[]^" else char for char in name)


def _type_of(text: str) -> DataType:
    if _WHOLE.match(text):
        return LongType()
    if _NUMBER.match(text):
        return DoubleType()
    try:
        date.fromisoformat(text)
    except ValueError:
        return StringType()
    return DateType() if len(text) == len("2026-10-31") else StringType()
