"""Where the paths of a lake lead after it was moved or copied."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_LOCAL = re.compile(r"(file:(?://)?)(?=/)")
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_S3 = ("s3", "s3a", "s3n")
_ILLEGAL = re.compile(r"[^A-Za-z0-9/:@!$&'()*+,;=~._\-\x80-\U0010ffff]")


@dataclass(frozen=True)
class PathMap:
    """Old folders and the new ones that stand for them; the first that fits decides. Mapping twice changes nothing."""

    folders: tuple[tuple[str, str], ...]
    encoded: bool = False
    """Whether paths are those of URIs, as Spark's checkpoints have them."""

    def as_uris(self) -> PathMap:
        return PathMap(tuple((_quoted(old), _quoted(new)) for old, new in self.folders), encoded=True)

    def __call__(self, path: str) -> str:
        for old, new in self.folders:
            found = _moved(path, old, new)
            if found is not None:
                return found
        return path

    def knows(self, path: str) -> bool:
        """Whether a path lies in one of the folders, old or new."""
        return any(_inside(_split(path)[1], _split(folder)[1]) for pair in self.folders for folder in pair)

    def in_json(self, value: Any, leave: Sequence[str] = ()) -> Any:
        """A JSON value with all its paths mapped; what lies under the keys to leave stays as it is."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.in_json(each, leave) for each in value]
        if isinstance(value, dict):
            return {key: each if key in leave else self.in_json(each, leave) for key, each in value.items()}
        return value


def inside(path: str, folder: str) -> str | None:
    """The rest of a path that lies in a folder, whatever stands before the two."""
    (before, rest), (other, start) = _split(path), _split(folder)
    if _family(before) != _family(other) or not rest.startswith(start + "/"):
        return None
    return rest[len(start) + 1 :]


def _moved(path: str, old: str, new: str) -> str | None:
    """The path in the new folder; None where it is not in the old one."""
    before, rest = _split(path)
    was, old_rest = _split(old)
    now, new_rest = _split(new)
    if _family(before) != _family(was):
        return None
    if _inside(new_rest, old_rest) and _family(was) == _family(now) and _inside(rest, new_rest):
        return path  # mapped before
    if not _inside(rest, old_rest):
        return None
    tail = rest[len(old_rest) :]
    return (before if _family(was) == _family(now) else now) + new_rest + tail


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _split(path: str) -> tuple[str, str]:
    """What stands before a path: `file:`, `s3a://`, or nothing."""
    found = _LOCAL.match(path) or _SCHEME.match(path)
    before = "" if found is None else found.group(0)
    return before, path[len(before) :].rstrip("/") or "/"


def _family(before: str) -> str:
    scheme = before.partition(":")[0].lower()
    return "s3" if scheme in _S3 else scheme or "file"


def _quoted(path: str) -> str:
    """As `java.net.URI` writes it."""
    return _ILLEGAL.sub(lambda found: f"%{ord(found.group()):02X}", path)
