"""Protobuf's source language as far as messages go: `.proto` text to file descriptors, without a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from headwater.core.extras import require_extra

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\s+|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>\.?[A-Za-z_][\w.]*)"""
    r"""|(?P<number>[-+]?[\d.][\w.]*)|(?P<sign>[{}\[\]()<>=;,:/+-])""",
    re.DOTALL,
)
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
    "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_SKIPPED = ("option", "reserved", "extensions")


def compiled(name: str, text: str) -> Any:
    """The FileDescriptorProto of a file; a mistake is a ValueError."""
    return _Parser(name, text).file()


class _Parser:
    """A recursive descent over the tokens. Names of types are left to be resolved by the descriptor pool."""

    def __init__(self, name: str, text: str) -> None:
        self._descriptors = require_extra("kafka", "google.protobuf.descriptor_pb2")
        self._file = self._descriptors.FileDescriptorProto(name=name)
        self._tokens = list(_tokens(text))
        self._at = 0

    def file(self) -> Any:
        while self._more():
            word = self._take()
            if word == "syntax":
                self._expect("=")
                self._file.syntax = _unquoted(self._take())
                self._expect(";")
            elif word == "edition":
                raise ValueError("editions are not supported: give a descriptor set instead")
            elif word == "package":
                self._file.package = self._take()
                self._expect(";")
            elif word == "import":
                self._import()
            elif word == "message":
                self._message(self._file.message_type.add())
            elif word == "enum":
                self._enum(self._file.enum_type.add())
            elif word in ("service", "extend"):
                self._skip_block()
            elif word in _SKIPPED:
                self._skip_statement()
            elif word != ";":
                raise ValueError(f"'{word}' was not expected")
        return self._file

    def _import(self) -> None:
        word = self._take()
        path = _unquoted(self._take() if word in ("public", "weak") else word)
        self._file.dependency.append(path)
        if word == "public":
            self._file.public_dependency.append(len(self._file.dependency) - 1)
        self._expect(";")

    def _message(self, message: Any) -> None:
        message.name = self._take()
        self._expect("{")
        while (word := self._take()) != "}":
            if word == "message":
                self._message(message.nested_type.add())
            elif word == "enum":
                self._enum(message.enum_type.add())
            elif word == "oneof":
                self._oneof(message)
            elif word == "extend":
                self._skip_block()
            elif word in _SKIPPED:
                self._skip_statement()
            elif word != ";":
                self._field(message, word)
        # Those that only mark a field as optional come after the ones in the text.
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _oneof(self, message: Any) -> None:
        message.oneof_decl.add(name=self._take())
        index = len(message.oneof_decl) - 1
        self._expect("{")
        while (word := self._take()) != "}":
            if word in _SKIPPED:
                self._skip_statement()
            elif word != ";":
                self._field(message, word).oneof_index = index

    def _field(self, message: Any, word: str) -> Any:
        field = message.field.add(label=_LABELS["optional"])
        if word in _LABELS:
            field.label = _LABELS[word]
            field.proto3_optional = word == "optional" and self._file.syntax == "proto3"
            word = self._take()
        if word == "group":
            raise ValueError("groups are not supported: give a descriptor set instead")
        if word == "map":
            self._map(message, field)
        else:
            _set_type(field, word)
            field.name = self._take()
        self._expect("=")
        field.number = int(self._take(), 0)
        self._skip_statement()  # options, to the semicolon
        return field

    def _map(self, message: Any, field: Any) -> None:
        self._expect("<")
        key = self._take()
        self._expect(",")
        value = self._take()
        self._expect(">")
        field.name = self._take()
        entry = message.nested_type.add(name=_camel(field.name) + "Entry")
        entry.options.map_entry = True
        _set_type(entry.field.add(name="key", number=1, label=_LABELS["optional"]), key)
        _set_type(entry.field.add(name="value", number=2, label=_LABELS["optional"]), value)
        field.label, field.type_name = _LABELS["repeated"], entry.name

    def _enum(self, enum: Any) -> None:
        enum.name = self._take()
        self._expect("{")
        while (word := self._take()) != "}":
            if word == "option" and self._tokens[self._at] == "allow_alias":
                enum.options.allow_alias = True
                self._skip_statement()
            elif word in _SKIPPED:
                self._skip_statement()
            elif word != ";":
                self._expect("=")
                enum.value.add(name=word, number=int(self._take(), 0))
                self._skip_statement()

    def _more(self) -> bool:
        return self._at < len(self._tokens)

    def _take(self) -> str:
        if not self._more():
            raise ValueError("it ends in the middle")
        self._at += 1
        return self._tokens[self._at - 1]

    def _expect(self, sign: str) -> None:
        found = self._take()
        if found != sign:
            raise ValueError(f"'{sign}' was expected and '{found}' found")

    def _skip_statement(self) -> None:
        depth = 0
        while (word := self._take()) != ";" or depth:
            depth += (word in ("{", "[")) - (word in ("}", "]"))

    def _skip_block(self) -> None:
        while self._take() != "{":
            pass
        depth = 1
        while depth:
            word = self._take()
            depth += (word == "{") - (word == "}")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"'{text[at]}' was not expected")
        at = found.end()
        if found.lastgroup is not None:
            yield found[0]


def _set_type(field: Any, word: str) -> None:
    if word in _SCALARS:
        field.type = _SCALARS[word]
    else:
        field.type_name = word


def _unquoted(text: str) -> str:
    return text[1:-1]


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
