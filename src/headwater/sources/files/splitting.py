"""Records of a file that is read whole: where a record does not end with its line. Runs in Spark's Python workers."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from headwater.sources.files.options import UTF8

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
    separator: str = ""
    """What ends a line; nothing: any of the usual ends."""
    whole: bool = False
    """A text is one record."""
    encoding: str = UTF8
    loose: bool = False
    """JSON in a style that Python does not know; with comments or single quotes, if these are allowed."""
    comments: bool = False
    single_quotes: bool = False

    @property
    def in_python(self) -> bool:
        """Whether only Python can do it, with a file as a whole."""
        return self.multi_line or self.whole or self.encoding != UTF8

    def records(self, content: bytes) -> Iterator[bytes]:
        """In UTF-8; what is broken in it stays as it is, in any other encoding it is an error."""
        text = self.decoded(content, "surrogateescape" if self.encoding == UTF8 else "strict")
        if self.whole:
            found = iter([text])
        elif self.kind == "csv":
            found = self._headed(text) if self.header else self._rows(text)
        elif self.kind == "json" and self.multi_line:
            found = json_values(text, self._style())
        else:
            found = (line for line in self._lines(text) if self.kind == "text" or line.strip())
        return (one.encode("utf-8", "surrogateescape") for one in found)

    def decoded(self, content: bytes, errors: str) -> str:
        return content.decode(self.encoding, errors).removeprefix("\ufeff")

    def header_of(self, text: str) -> str | None:
        """The header that begins a file, in one line; None if there is none."""
        first = next(self._rows(text), None)
        return None if first is None else one_line(first, self.sep, self.quote)

    def _headed(self, text: str) -> Iterator[str]:
        header = self.header_of(text)
        for i, row in enumerate(self._rows(text)):
            if i > 0 and row != header:
                yield f"{header}\n{row}"

    def _rows(self, text: str) -> Iterator[str]:
        """Lines, joined where a quote is still open."""
        pending = ""
        for line in self._ended(text):
            if not pending and (not line.strip() or (self.comment and line.startswith(self.comment))):
                continue
            pending += line
            if not self.multi_line or not self._is_open(pending):
                yield pending.rstrip("\r\n")
                pending = ""
        if pending:
            yield pending.rstrip("\r\n")

    def _lines(self, text: str) -> Iterator[str]:
        return (line if self.separator else line.rstrip("\r\n") for line in self._ended(text))

    def _ended(self, text: str) -> Iterator[str]:
        """Lines with their ends, which are those that Hadoop knows: Python's `splitlines` knows more, and would cut
        inside texts."""
        if not self.separator:
            yield from io.StringIO(text, newline="")
        elif text:
            yield from text.removesuffix(self.separator).split(self.separator)

    def _style(self) -> Style | None:
        return Style.of(comments=self.comments, single_quotes=self.single_quotes) if self.loose else None

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


@dataclass(frozen=True)
class Style:
    """Where values end in JSON that Python's own parser does not take: brackets outside of strings are counted."""

    token: re.Pattern[str]
    blank: re.Pattern[str]

    @staticmethod
    def of(*, comments: bool, single_quotes: bool) -> Style:
        comment = r"/\*.*?\*/|//[^\r\n]*"
        quotes = ['"', "'"] if single_quotes else ['"']
        texts = "|".join(quote + r"(?:[^\\" + quote + r"]|\\.)*" + quote for quote in quotes)
        any_quote = "".join(quotes)
        parts = [f"(?P<comment>{comment})"] if comments else []
        parts += [f"(?P<text>{texts})", f"(?P<open_quote>[{any_quote}])", r"(?P<begin>[{\[])", r"(?P<end>[}\]])"]
        parts.append(r"(?P<word>[^\s{}\[\],/" + any_quote + "]+)")
        blank = rf"(?:\s|{comment})*" if comments else r"\s*"
        return Style(re.compile("|".join(parts), re.DOTALL), re.compile(blank, re.DOTALL))

    def end_of(self, text: str, at: int) -> int:
        depth = 0
        for token in self.token.finditer(text, at):
            if token.lastgroup == "comment":
                continue
            if token.lastgroup == "open_quote":
                break
            depth += (token.lastgroup == "begin") - (token.lastgroup == "end")
            if depth < 0:
                break
            if depth == 0:
                return token.end()
        raise ValueError("a value without an end")

    def skip(self, text: str, at: int) -> int:
        found = self.blank.match(text, at)
        return at if found is None else found.end()


def json_values(text: str, style: Style | None = None) -> Iterator[str]:
    """The elements of arrays, or values one after the other, each as it is written; a broken rest is the last."""
    decoder = json.JSONDecoder()
    end_of: Callable[[str, int], int] = style.end_of if style else lambda text, at: decoder.raw_decode(text, at)[1]
    skip: Callable[[str, int], int] = style.skip if style else partial(_skip, characters=_SPACE)
    at, inside = skip(text, 0), False
    while at < len(text):
        if (inside and text[at] in ",]") or (not inside and text[at] == "["):
            inside = text[at] != "]"
            at = skip(text, at + 1)
            continue
        try:
            end = end_of(text, at)
        except (ValueError, RecursionError):
            yield text[at:]
            return
        yield text[at:end]
        at = skip(text, end)
    if inside:
        yield "["  # an array without its end: the file was cut off, and somebody should know


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


def _skip(text: str, at: int, characters: str) -> int:
    while at < len(text) and text[at] in characters:
        at += 1
    return at
