"""Inside a runner: commands of other terminals, each in a thread of its own and with its own streams.

`@warm` on a command that needs Spark, or is quicker where all is loaded already, lets a runner answer it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from headwater.runner.socket.server import Answers, Request, Streams  # the runner's side, which a command seldom is

C = TypeVar("C", bound=Callable[..., Any])

_streams: ContextVar[Streams | None] = ContextVar("headwater_streams", default=None)
_folder: ContextVar[Path | None] = ContextVar("headwater_folder", default=None)


def warm(command: C) -> C:
    """This command is answered by the runner that is up."""
    command._warm = True  # type: ignore[attr-defined]
    return command


def here(path: Path) -> Path:
    """A path of the command line, which may have been typed in another folder than this process's."""
    return (_folder.get() or Path()) / path


def answers(commands: Any, run: Callable[[list[str]], int]) -> Answers:
    """Runs those of the commands that are `warm`."""
    from headwater.runner.socket.server import Answers

    def answer(request: Request) -> int:
        streams, folder = _streams.set(request.streams), _folder.set(request.folder)
        try:
            return run(list(request.arguments))
        finally:
            _streams.reset(streams)
            _folder.reset(folder)

    return Answers(frozenset(_warm_ones(commands)), answer)


def _warm_ones(command: Any, name: str = "") -> Iterator[str]:
    """By the names of Click's objects, which Typer has in a copy of its own."""
    if hasattr(command, "commands"):
        for word, each in command.commands.items():
            yield from _warm_ones(each, f"{name} {word}".strip())
    elif getattr(command.callback, "_warm", False):
        yield name


@contextmanager
def streams_by_thread() -> Iterator[None]:
    """For the time of a run, `sys.stdout` and its like are those of the command that a thread runs."""
    before = (sys.stdin, sys.stdout, sys.stderr)
    sys.stdin, sys.stdout, sys.stderr = (
        cast(Any, _ByThread(name, stream)) for name, stream in zip(("stdin", "stdout", "stderr"), before, strict=True)
    )
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


class _ByThread:
    """A standard stream: the process's own, or that of the command which this thread runs."""

    def __init__(self, name: str, own: Any) -> None:
        self.__dict__.update(_name=name, _own=own)

    def __getattr__(self, attribute: str) -> Any:
        streams = _streams.get()
        return getattr(self._own if streams is None else getattr(streams, self._name), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(self.__getattr__("__iter__")())
