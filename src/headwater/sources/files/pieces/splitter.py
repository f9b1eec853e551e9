"""Records of a file that Spark can't split itself, found while the file is read piece by piece. Runs in Spark's Python
workers; a record that is too large is never held as a whole."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import pyarrow as pa

from headwater.core.storage import Files
from headwater.sources.decoders.json_layout import BEGINNING, is_by_line
from headwater.sources.files.options import UTF8
from headwater.sources.files.pieces.compression import BrokenFile, unpacked
from headwater.sources.files.pieces.json_values import Style, json_values
from headwater.sources.files.pieces.records import Large, PartialRecord, Record

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("modified", pa.timestamp("us", tz="UTC")),
        ("number", pa.int64()),
        ("raw", pa.binary()),
        ("size", pa.int64()),
    ]
)
ROWS = 10_000
"""Rows in an Arrow batch at most."""
BYTES = 8 << 20
"""Bytes in an Arrow batch, unless a record has more."""

_BOM = codecs.BOM_UTF8
_ENDS = re.compile(rb"(\r\n|\n|\r)")


@dataclass(frozen=True)
class Splitter:
    """How the files of one source fall into records."""

    kind: Literal["json", "csv", "text"]
    multi_line: bool | None = False
    """Whether a record may go on over the end of its line; None: JSON says so by how its file begins."""
    header: bool = True
    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    separator: str = ""
    """What ends a line; nothing: any of the usual ends."""
    whole: bool = False
    """A text is one record."""
    encoding: str = UTF8
    loose: bool = False
    """JSON in a style that Python does not know; with comments or single quotes, if these are allowed."""
    comments: bool = False
    single_quotes: bool = False
    limit: int = 64 << 20
    """Bytes in a record at most."""

    @property
    def in_python(self) -> bool:
        """Whether only Python can do it."""
        return bool(self.multi_line) or self.whole or self.encoding != UTF8

    def records(self, content: Iterable[bytes]) -> Iterator[Record]:
        """In UTF-8; what is broken in it stays as it is, in any other encoding it is an error."""
        pieces = self._in_utf8(content)
        if self.whole:
            return self._as_one(pieces)
        if self.kind == "csv":
            return self._headed(pieces) if self.header else self._rows(pieces)
        if self.kind == "json" and self.multi_line is not False:
            by_line, pieces = self._layout(pieces)
            if not by_line:
                return json_values(pieces, self.limit, self._style())
        lines = self._lines(pieces)
        return lines if self.kind == "text" else (one for one in lines if isinstance(one, Large) or one.strip())

    def header_in(self, beginning: bytes) -> str | None:
        """The header that begins a file, in one line; None if there is none."""
        text = beginning if self.encoding == UTF8 else beginning.decode(self.encoding, "replace").encode()
        first = next(self._rows([text.removeprefix(_BOM)]), None)
        return None if first is None else self._one_line(self._small(first)).decode("utf-8", "replace")

    def _layout(self, pieces: Iterable[bytes]) -> tuple[bool, Iterator[bytes]]:
        """Whether a JSON file has an object a line; and all of its pieces."""
        rest = iter(pieces)
        if self.multi_line:
            return False, rest
        held: list[bytes] = []
        for piece in rest:
            held.append(piece)
            if sum(map(len, held)) >= BEGINNING:
                break
        return is_by_line(b"".join(held)), chain(held, rest)

    def _in_utf8(self, content: Iterable[bytes]) -> Iterator[bytes]:
        """The same content without the mark at its beginning."""
        first = True
        for piece in content if self.encoding == UTF8 else self._decoded(content):
            yield piece.removeprefix(_BOM) if first else piece
            first = False

    def _decoded(self, content: Iterable[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self.encoding)("strict")
        for piece in content:
            if text := decoder.decode(piece):
                yield text.encode()
        if text := decoder.decode(b"", True):
            yield text.encode()

    def _as_one(self, pieces: Iterable[bytes]) -> Iterator[Record]:
        record = PartialRecord(self.limit)
        for piece in pieces:
            record.add(piece)
        yield record.take()

    def _headed(self, pieces: Iterable[bytes]) -> Iterator[Record]:
        rows = self._rows(pieces)
        first = next(rows, None)
        if first is None:
            return
        header = self._one_line(self._small(first))
        for row in rows:
            if isinstance(row, Large):
                yield row
            elif row != header:
                yield header + b"\n" + row

    def _small(self, header: Record) -> bytes:
        if isinstance(header, Large):
            raise BrokenFile(f"its header is larger than `max_record_size`, {self.limit} bytes")
        return header

    def _one_line(self, header: bytes) -> bytes:
        text = one_line(header.decode("utf-8", "surrogateescape"), self.sep, self.quote)
        return text.encode("utf-8", "surrogateescape")

    def _rows(self, pieces: Iterable[bytes]) -> Iterator[Record]:
        """Lines, joined where a quote is still open."""
        row, quotes, comment = PartialRecord(self.limit), _Quotes(self.quote, self.escape), self.comment.encode()
        skipping = False
        for part, end in _parts_of_lines(pieces, self.separator.encode()):
            if not row.begun and not skipping:
                skipping = bool(end and not part.strip()) or bool(comment and part.startswith(comment))
            if skipping:
                skipping = not end
                continue
            row.add(part)
            if self.multi_line:
                quotes.follow(part, end)
            if end and quotes.are_open:
                row.add(end)
            elif end:
                yield _without_end(row.take())
        if row.begun:
            yield _without_end(row.take())

    def _lines(self, pieces: Iterable[bytes]) -> Iterator[Record]:
        line = PartialRecord(self.limit)
        for part, end in _parts_of_lines(pieces, self.separator.encode()):
            if end and not line.begun and len(part) <= self.limit:
                yield part
                continue
            line.add(part)
            if end:
                yield line.take()
        if line.begun:
            yield line.take()

    def _style(self) -> Style | None:
        return Style.of(comments=self.comments, single_quotes=self.single_quotes) if self.loose else None


@dataclass(frozen=True)
class FileSplitter:
    """For `mapInArrow`: files, by `file` and `modified`, become records."""

    splitter: Splitter
    files: Files

    def split(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.to_pylist():
                with self.files.reading(file["file"]) as opened:
                    yield from self._batches(file, self.splitter.records(unpacked(opened, file["file"])))

    def _batches(self, file: dict[str, Any], records: Iterator[Record]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        held = 0
        for number, record in enumerate(records):
            raw, size = (record.head, record.size) if isinstance(record, Large) else (record, None)
            if rows and (len(rows) == ROWS or held + len(raw) > BYTES):
                yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                rows, held = [], 0
            rows.append({**file, "number": number, "raw": raw, "size": size})
            held += len(raw)
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


class _Quotes:
    """Whether a quote is open in the parts of a row."""

    def __init__(self, quote: str, escape: str) -> None:
        self._quote = quote.encode()
        self._escape = escape.encode() if escape != quote else b""
        self._held = b""
        self.are_open = False

    def follow(self, part: bytes, end: bytes) -> None:
        if not self._quote:
            return
        if self._escape:
            part = (self._held + part).replace(self._escape * 2, b"")
            # An escape that ends a part belongs to what comes next, where the line goes on.
            self._held = self._escape if not end and part.endswith(self._escape) else b""
            part = part.removesuffix(self._held).replace(self._escape + self._quote, b"")
        self.are_open ^= part.count(self._quote) % 2 == 1


def _parts_of_lines(pieces: Iterable[bytes], separator: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What stands in the lines: each part with the end of its line, or with nothing where the line goes on. Without a
    separator the ends are those that Hadoop knows; Python's `splitlines` knows more, and would cut inside texts."""
    carried = b""
    for piece in pieces:
        data = carried + piece
        carried = b""
        if separator:
            *found, rest = data.split(separator)
            yield from ((line, separator) for line in found)
            if len(separator) > 1:
                carried = rest[-(len(separator) - 1) :]
                rest = rest[: len(rest) - len(carried)]
        else:
            if data.endswith(b"\r"):  # a line feed may follow
                carried, data = b"\r", data[:-1]
            if b"\r" in data:
                *found, rest = _ENDS.split(data)
                yield from zip(found[::2], found[1::2], strict=True)
            else:
                *found, rest = data.split(b"\n")
                yield from ((line, b"\n") for line in found)
        if rest:
            yield rest, b""
    if carried:
        yield (carried, b"") if separator else (b"", carried)


def _without_end(row: Record) -> Record:
    return row if isinstance(row, Large) else row.rstrip(b"\r\n")


def one_line(header: str, sep: str, quote: str) -> str:
    """A header as one line, whatever line feeds stand in its names."""
    if "\n" not in header or len(sep) != 1 or len(quote) != 1:
        return header.replace("\r", "").replace("\n", " ")
    names = next(csv.reader(io.StringIO(header), delimiter=sep, quotechar=quote))
    out = io.StringIO()
    csv.writer(out, delimiter=sep, quotechar=quote, lineterminator="").writerow([" ".join(n.split()) for n in names])
    return out.getvalue()
