"""Whether a file has a line that is longer than a record may be: found out with little of the file in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pyarrow import NativeFile

from headwater.core.storage import Files
from headwater.sources.files.headers import Peek
from headwater.sources.files.log import InputFile
from headwater.sources.files.pieces.compression import codec_of, unpacked

LONG = "long"
"""What a peek says of a file with such a line."""
_WINDOW = 1 << 16


def line_lengths(separator: str, limit: int) -> Callable[[Files, InputFile], Peek]:
    """A look for lines of more than `limit` bytes; `separator` ends a line, or the usual ends where it is empty."""
    ends = (separator.encode(),) if separator else (b"\n", b"\r")

    def look(files: Files, file: InputFile) -> Peek:
        with files.reading(file.path) as opened:
            if codec_of(file.path) is None:
                long = _has_long_line_at(opened, ends, limit)
            else:
                long = has_long_line(unpacked(opened, file.path), ends, limit)
        return Peek(LONG if long else "")

    return look


def has_long_line(pieces: Iterable[bytes], ends: tuple[bytes, ...], limit: int) -> bool:
    """In bytes that come one piece after the other. All `ends` have one length."""
    overlap = len(ends[0]) - 1
    length, tail = 0, b""  # bytes of the line that is open, and the last of them, where its end may have begun
    for part in _parts(pieces, limit):
        data = tail + part
        before = length - len(tail)
        found = [at for end in ends if (at := data.find(end)) >= 0]
        if found:
            # Between two ends there is less than a part, and a part is no longer than a line may be.
            if before + min(found) > limit:
                return True
            last = max(data.rfind(end) for end in ends) + len(ends[0])
            length = len(data) - last
            tail = data[max(last, len(data) - overlap) :]
        else:
            length = before + len(data)
            if length > limit + overlap:
                return True
            tail = data[max(0, len(data) - overlap) :]
    return length > limit


def _parts(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        for at in range(0, len(piece), size):
            yield piece[at : at + size]


def _has_long_line_at(opened: NativeFile, ends: tuple[bytes, ...], limit: int) -> bool:
    """In a file that can be read at any place: from the end of one line, to the last one that is within reach."""
    at, size = 0, opened.size()
    while size - at > limit:
        found = _last_end(opened, ends, at, min(size, at + limit + len(ends[0])))
        if found is None:
            return True
        at = found
    return False


def _last_end(opened: NativeFile, ends: tuple[bytes, ...], low: int, high: int) -> int | None:
    """Behind the last end of a line between two places."""
    top = high
    while top > low:
        start = max(low, top - _WINDOW)
        opened.seek(start)
        data: bytes = opened.read(min(high, top + len(ends[0]) - 1) - start)
        found = max(data.rfind(end) for end in ends)
        if found >= 0:
            return start + found + len(ends[0])
        top = start
    return None
