"""The values of a JSON file, each as it is written: elements of arrays, or values one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headwater.sources.decoders.base import HEAD
from headwater.sources.files.pieces.compression import PIECE
from headwater.sources.files.pieces.records import Large, Record

_BLANK = re.compile("[ \t\r\n]*")
_LATIN = "latin-1"
"""Each byte is a character, so that places in the text are places in the file; JSON's own signs are ASCII."""


@dataclass(frozen=True)
class Style:
    """Where values end in JSON that Python's own parser does not take: brackets outside of strings are counted."""

    token: re.Pattern[str]
    blank: re.Pattern[str]
    quotes: str

    @staticmethod
    def of(*, comments: bool = False, single_quotes: bool = False) -> Style:
        comment = r"/\*.*?\*/|//[^\r\n]*"
        quotes = ['"', "'"] if single_quotes else ['"']
        texts = "|".join(quote + r"(?:[^\\" + quote + r"]|\\.)*" + quote for quote in quotes)
        any_quote = "".join(quotes)
        parts = [f"(?P<comment>{comment})"] if comments else []
        parts += [f"(?P<text>{texts})", f"(?P<open_quote>[{any_quote}])", r"(?P<begin>[{\[])", r"(?P<end>[}\]])"]
        parts.append(r"(?P<word>[^\s{}\[\],/" + any_quote + "]+)")
        blank = rf"(?:\s|{comment})*" if comments else r"\s*"
        flags = re.DOTALL | re.ASCII
        return Style(re.compile("|".join(parts), flags), re.compile(blank, flags), any_quote)

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


class _Brackets:
    """Looks for the end of a value that is too large to be held: nothing but its size is kept."""

    _SIGNS = re.compile(r"\\.?|[\"'{}\[\]]", re.DOTALL)

    def __init__(self, quotes: str) -> None:
        self._quotes = quotes
        self._depth = 0
        self._quote = ""
        self._escaped = False

    def follow(self, source: _Text, at: int) -> tuple[int, bool]:
        """Its size, and whether it has an end; the source goes on behind it."""
        size = 0
        while True:
            end = self._end_in(source.text, at)
            if end is not None:
                source.text = source.text[end:]
                return size + end - at, True
            size += len(source.text) - at
            source.text = ""
            if source.ended:
                return size, False
            source.more(0)
            at = 0

    def _end_in(self, text: str, at: int) -> int | None:
        if self._escaped and at < len(text):
            at, self._escaped = at + 1, False
        for found in self._SIGNS.finditer(text, at):
            sign = found.group()
            if sign[0] == "\\":
                self._escaped = len(sign) == 1
            elif self._quote:
                if sign == self._quote:
                    self._quote = ""
                    if not self._depth:
                        return found.end()
            elif sign in self._quotes:
                self._quote = sign
            elif sign in "{[":
                self._depth += 1
            elif sign in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return found.end()
        return None


_PLAIN = Style.of()
_DECODER = json.JSONDecoder()


class _Text:
    """What has been read of a file and not been used."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.text = ""
        self.ended = False

    def more(self, at: int) -> None:
        """Read on; what stands before `at` is let go of. The more is held, the more is read."""
        parts, size = [self.text[at:]], 0
        while size < max(PIECE, len(parts[0])):
            piece = next(self._pieces, None)
            if piece is None:
                self.ended = True
                break
            parts.append(piece.decode(_LATIN))
            size += len(piece)
        self.text = "".join(parts)

    def size_of_rest(self) -> int:
        """How much there is to the end of the file, which is read and let go of."""
        return len(self.text) + sum(len(piece) for piece in self._pieces)


def json_values(pieces: Iterable[bytes], limit: int, style: Style | None = None) -> Iterator[Record]:
    """A broken rest is the last record."""
    source = _Text(pieces)
    blank = _BLANK if style is None else style.blank
    at, inside = 0, False
    while True:
        begun, at = at, _end_of_blank(blank, source.text, at)
        if at == len(source.text):
            if source.ended:
                break
            # With comments one may have begun in what was passed.
            source.more(at if style is None or at - begun > limit else begun)
            at = 0
            continue
        if (inside and source.text[at] in ",]") or (not inside and source.text[at] == "["):
            inside = source.text[at] != "]"
            at += 1
            continue
        end = _end_of(source.text, at, style)
        held = len(source.text) - at
        if (end is None or end == len(source.text)) and not source.ended and held <= limit:
            source.more(at)  # it may be cut off here
            at = 0
            continue
        if end is not None and end - at <= limit:
            yield source.text[at:end].encode(_LATIN)
        elif end is None and held <= limit:
            yield source.text[at:].encode(_LATIN)
            return
        else:
            head = source.text[at : at + HEAD].encode(_LATIN)
            size, whole = _Brackets((style or _PLAIN).quotes).follow(source, at)
            if not whole or size <= limit:  # it is broken from here on
                yield Large(size + source.size_of_rest(), head)
                return
            yield Large(size, head[:size])
            end = 0
        at = end or 0
    if inside:
        yield b"["  # an array without its end: the file was cut off, and somebody should know


def _end_of_blank(blank: re.Pattern[str], text: str, at: int) -> int:
    found = blank.match(text, at)
    return at if found is None else found.end()


def _end_of(text: str, at: int, style: Style | None) -> int | None:
    """Where the value ends that begins here; None where it is broken, or goes on behind the text."""
    try:
        if style is not None:
            return style.end_of(text, at)
        try:
            return _DECODER.raw_decode(text, at)[1]
        except RecursionError:  # nested deeper than Python reads
            return _PLAIN.end_of(text, at)
    except ValueError:
        return None
