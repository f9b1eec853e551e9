"""What a runner and its process for queries tell each other (`isolation`, `worker`)."""

from __future__ import annotations

import io
import pickle
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headwater.core.errors import HeadwaterError, IntegrityError, Problem, TerminalError, TransientError, UsageError
from headwater.core.secret import Secret

if TYPE_CHECKING:
    from headwater.core.model import Version
    from headwater.project.definition import ProjectDefinition
    from headwater.query.engines import Pinned
    from headwater.query.explanation import Explained

QUERY, END = b"q", b"e"
"""What goes over the control socket: a query's line is with this one; take no more of them."""
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True)
class Ask:
    """A query for the process."""

    sql: str
    reason: str
    pinned: Pinned
    rows: int | None
    bytes: int | None
    read_only: bool


@dataclass(frozen=True)
class AskPlan:
    """EXPLAIN ANALYZE of a query: it is run for its figures."""

    sql: str
    reason: str
    read_only: bool


@dataclass(frozen=True)
class QueryStarted:
    """The query has been analysed."""

    versions: Mapping[str, Version | None]
    schema: bytes


@dataclass(frozen=True)
class RowBatch:
    """Some rows of its result follow."""


@dataclass(frozen=True)
class Done:
    """There is no more; for EXPLAIN the answer."""

    explained: Explained | None = None


class Complaint(Exception):
    """What Spark's analysis said, as far as it is used to point at a place in the query."""

    def __init__(self, error_class: str | None, parameters: Mapping[str, str], fragment: str | None) -> None:
        super().__init__(error_class, parameters, fragment)
        self._error_class, self._parameters, self.fragment = error_class, parameters, fragment

    def getErrorClass(self) -> str | None:
        return self._error_class

    def getMessageParameters(self) -> Mapping[str, str]:
        return self._parameters


@dataclass(frozen=True)
class Failed:
    """The query failed, with what Spark's analysis says of the place."""

    kind: str
    problem: Problem
    cause: Complaint | None = None
    short: bool = False
    """Whether its Spark ran out of memory or has ended, be it this query's doing or that of another."""

    @staticmethod
    def by(error: HeadwaterError, cause: Complaint | None, *, short: bool = False) -> Failed:
        kind = next((one.__name__ for one in type(error).__mro__ if one.__name__ in _KINDS), TerminalError.__name__)
        return Failed(kind, error.problem, cause, short)

    @property
    def error(self) -> HeadwaterError:
        one = self.problem
        return _KINDS[self.kind](one.code, one.message, where=one.where, hint=one.hint, excerpt=one.excerpt)


_KINDS: dict[str, type[HeadwaterError]] = {
    one.__name__: one for one in (UsageError, TransientError, TerminalError, IntegrityError)
}


class _Pickler(pickle.Pickler):
    """Secrets, which are not pickled elsewhere, go from a process to its own child through a socket of theirs."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if type(value) is Secret else NotImplemented


def send_project(control: socket.socket, project: ProjectDefinition) -> None:
    """The definitions that the flows run by, not the file, which may have been edited. Functions are the flows'."""
    text = io.BytesIO()
    _Pickler(text).dump(replace(project, functions=()))
    control.sendall(_LENGTH.pack(len(text.getvalue())) + text.getvalue())


def receive_project(control: socket.socket) -> ProjectDefinition:
    (length,) = _LENGTH.unpack(_exactly(control, _LENGTH.size))
    project: ProjectDefinition = pickle.loads(_exactly(control, length))
    return project


def _exactly(control: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = control.recv(length - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
