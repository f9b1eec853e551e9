"""Records of a file that is read whole: where a record does not end with its line. Runs in Spark's Python workers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("modified", pa.timestamp("us", tz="UTC")),
        ("number", pa.int64()),
        ("raw", pa.binary()),
    ]
)
ROWS = 10_000
"""Rows in an Arrow batch at most."""

_SPACE = " \t\r\n"


@dataclass(frozen=True)
class Splitter:
    """How the files of one source fall into records."""

    kind: Literal["json", "csv", "text"]
    multi_line: bool = False
    header: bool = True
    sep: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""

    def records(self, content: bytes) -> Iterator[bytes]:
        text = content.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        if self.kind == "csv":
            found = self._headed(text) if self.header else self._rows(text)
        elif self.kind == "json" and self.multi_line:
            found = json_values(text)
        else:
            found = (line for line in _lines(text) if self.kind == "text" or line.strip())
        return (one.encode("utf-8", "surrogateescape") for one in found)

    def header_of(self, text: str) -> str | None:
        """The header that begins a file, in one line; None if there is none."""
        first = next(self._rows(text.removeprefix("\ufeff")), None)
        return None if first is None else one_line(first, self.sep, self.quote)

    def _headed(self, text: str) -> Iterator[str]:
        header = self.header_of(text)
        for i, row in enumerate(self._rows(text)):
            if i > 0 and row != header:
                yield f"{header}\n{row}"

    def _rows(self, text: str) -> Iterator[str]:
        """Lines, joined where a quote is still open."""
        pending = ""
        for line in io.StringIO(text, newline=""):
            if not pending and (not line.strip() or (self.comment and line.startswith(self.comment))):
                continue
            pending += line
            if not self.multi_line or not self._is_open(pending):
                yield pending.rstrip("\r\n")
                pending = ""
        if pending:
            yield pending.rstrip("\r\n")

    def _is_open(self, row: str) -> bool:
        if not self.quote:
            return False
        if self.escape and self.escape != self.quote:
            row = row.replace(self.escape * 2, "").replace(self.escape + self.quote, "")
        return row.count(self.quote) % 2 == 1

    def split(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: files with `file`, `modified`, `content` become records."""
        for batch in batches:
            for file in batch.to_pylist():
                yield from self._batches(file)

    def _batches(self, file: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        rows: list[dict[str, Any]] = []
        content = decompressed(file["file"], file["content"])
        for number, raw in enumerate(self.records(content)):
            rows.append({"file": file["file"], "modified": file["modified"], "number": number, "raw": raw})
            if len(rows) == ROWS:
                yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
                rows = []
        yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def json_values(text: str) -> Iterator[str]:
    """The elements of an array, or values one after the other, each as it is written; a broken rest is the last."""
    decoder = json.JSONDecoder()
    at = _skip(text, 0, _SPACE)
    inside = text.startswith("[", at)
    at = _skip(text, at + 1 if inside else at, _SPACE)
    while at < len(text) and not (inside and text[at] == "]"):
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield text[at:]
            return
        yield text[at:end]
        at = _skip(text, end, _SPACE + "," if inside else _SPACE)


def one_line(header: str, sep: str, quote: str) -> str:
    """A header as one line, whatever line feeds stand in its names."""
    if "\n" not in header or len(sep) != 1 or len(quote) != 1:
        return header.replace("\r", "").replace("\n", " ")
    names = next(csv.reader(io.StringIO(header), delimiter=sep, quotechar=quote))
    out = io.StringIO()
    csv.writer(out, delimiter=sep, quotechar=quote, lineterminator="").writerow([" ".join(n.split()) for n in names])
    return out.getvalue()


def codec_of(name: str) -> str | None:
    return next((codec for ending, codec in COMPRESSION.items() if name.endswith(ending)), None)


def decompressed(name: str, content: bytes) -> bytes:
    codec = codec_of(name)
    if codec is None:
        return content
    with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
        whole: bytes = stream.read()
        return whole


def _lines(text: str) -> Iterator[str]:
    """Ends are those that Hadoop knows; Python's `splitlines` knows more, and would cut inside texts."""
    return (line.rstrip("\r\n") for line in io.StringIO(text, newline=""))


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at
