"""What kind of files lie at a path."""

from __future__ import annotations

import codecs
import csv
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path

from headwater.core.errors import Code, UsageError, nearest
from headwater.core.storage import Files
from headwater.sources.discovery import Discovered
from headwater.sources.files.endings import ending_of, format_of
from headwater.sources.files.options import UTF8
from headwater.sources.files.pieces.compression import beginning

MAGIC = {b"PAR1": "parquet", b"Obj\x01": "avro", b"ORC": "orc"}
SEPARATORS = (",", ";", "\t", "|")
HEAD = 1 << 16
FEW = 20
"""Files that a look reads at most."""
_ENCODINGS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
LATIN = "windows-1252"


def discover(address: str) -> Discovered | None:
    """A local file or folder; None if there is none of that name."""
    path = Path(address).expanduser()
    if not path.exists():
        _suggest(address, path)
        return None
    path = path.resolve()
    files = [path] if path.is_file() else _files_in(path)
    if not files:
        raise UsageError(
            Code.USAGE,
            f"there are no files in {address}",
            hint="put one there, or begin with sample data: headwater init --template files DIR",
        )
    kinds = Counter(_kind(file) for file in files[:FEW])
    kind, count = kinds.most_common(1)[0]
    first = next(file for file in files if _kind(file) == kind)
    keys: dict[str, object] = {"type": "files", "path": str(path), "file_format": kind}
    comments: dict[str, str] = {}
    if path.is_file():
        comments["path"] = f"this file; a folder, or a glob such as *{path.suffix}, ingests all that lands there"
    elif count < sum(kinds.values()):
        keys["pattern"] = f"*{ending_of(first.name)}"
        others = {ending_of(file.name) for file in files} - {ending_of(first.name)}
        comments["pattern"] = f"there are others too: {', '.join(sorted(others))}"
    options = _options(kind, _head(first))
    if options:
        keys["options"] = options
        comments["options"] = "as the files are written"
    stem = (path.name if path.is_dir() else path.name.split(".")[0]) or "files"
    return Discovered(stem, keys, comments, sampled_by={"max_files": FEW})


def _suggest(address: str, path: Path) -> None:
    """Raise where the folder holds a name that was probably meant."""
    try:
        names = os.listdir(path.parent)
    except OSError:  # no such folder either: the address may be of another type of source
        return
    best = nearest(path.name, names)
    if best is not None:
        raise UsageError(Code.USAGE, f"nothing is found at {address}", hint=f"did you mean '{path.parent / best}'?")


def _files_in(folder: Path) -> list[Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts)]


def _kind(file: Path) -> str:
    return format_of(file.name) or _kind_of(_head(file))


def _kind_of(head: bytes) -> str:
    """By what is in it, where the name says nothing."""
    for magic, kind in MAGIC.items():
        if head.startswith(magic):
            return kind
    if b"\0" in head and not head.startswith(tuple(_ENCODINGS)):
        return "binary"
    if head.lstrip()[:1] in (b"{", b"["):
        return "json"
    return "csv" if _separator(head.decode("utf-8", "replace")) else "text"


def _head(file: Path) -> bytes:
    place = Files(str(file.parent))
    try:
        with place.reading(file.name) as opened:
            return beginning(opened, file.name, HEAD)
    except (ValueError, EOFError):  # it can't be unpacked: a run will say so
        return b""


def _options(kind: str, head: bytes) -> Mapping[str, object]:
    found: dict[str, object] = {}
    if kind not in ("csv", "json", "text"):
        return found
    encoding = _encoding(head)
    if encoding != UTF8:
        found["encoding"] = encoding
    if kind == "csv":
        text = head.decode(encoding, "replace")
        separator = _separator(text)
        if separator not in (None, ","):
            found["sep"] = str(separator)
        if _has_quoted_lines(text, separator or ",", whole=len(head) < HEAD):
            found["multiLine"] = True
    return found


def _has_quoted_lines(text: str, separator: str, *, whole: bool) -> bool:
    """Whether a quoted value has a line feed, and its row is as wide as the first: a lone quote would take in a lot."""
    rows: list[list[str]] = []
    with suppress(csv.Error):  # cut off, or not written like that: what was read until then tells
        rows.extend(csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True))
    shown = rows if whole else rows[:-1]
    broken = [row for row in shown if any("\n" in value or "\r" in value for value in row)]
    return bool(broken) and all(len(row) == len(shown[0]) for row in broken)


def _encoding(head: bytes) -> str:
    for mark, name in _ENCODINGS.items():
        if head.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder(UTF8)("strict").decode(head)  # its end may be cut off
    except UnicodeDecodeError:
        return LATIN
    return UTF8


def _separator(text: str) -> str | None:
    """What parts the values: it stands as often in the first lines; of several the one that stands there most."""
    lines = [line for line in text.splitlines()[:5] if line.strip()]
    counts = {sign: [line.count(sign) for line in lines] for sign in SEPARATORS}
    likely = {sign: found[0] for sign, found in counts.items() if found and found[0] > 0}
    return max(likely, key=lambda sign: (likely[sign], sign == ","), default=None)
