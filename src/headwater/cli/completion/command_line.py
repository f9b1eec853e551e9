"""What a shell may complete the command line with: commands, options, their values, and names of the project."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args, get_origin

FILES = ":files"
"""Said alone: the shell completes files."""
_KINDS = {"topic": "topic", "table": "table", "mv": "mv"}
"""Groups of commands whose argument `name` is a relation, and SQL's word for its kind."""
_FLOWS = frozenset({"run", "flow"})


class Candidate(NamedTuple):
    """A word, and what it is."""

    word: str
    about: str = ""


def print_candidates(words: Sequence[str]) -> None:
    """For the scripts of `shells`: a candidate a line, with a tab before what it is. Never an error: nobody would see
    where it came from."""
    try:
        for word, about in candidates(words):
            sys.stdout.write(f"{word}\t{about}\n" if about else f"{word}\n")
    except Exception:
        return


def candidates(words: Sequence[str]) -> Iterator[Candidate]:
    """What the last word may become."""
    from typer.main import get_command

    from headwater.cli.app import app

    *before, last = words or [""]
    command: Any = get_command(app)
    path: list[str] = []
    expects: Any = None
    """The option whose value comes next."""
    for word in before:
        if expects is not None:
            expects = None
        elif word.startswith("-"):
            option = _option(command, word)
            expects = None if option is None or option.is_flag or "=" in word else option
        elif hasattr(command, "commands") and word in command.commands:
            command = command.commands[word]
            path.append(word)
    if expects is not None:
        yield from _values(path, expects, last, before)
    elif last.startswith("-"):
        yield from _beginning(_options(command), last)
    elif hasattr(command, "commands"):
        yield from _beginning(_commands(command), last)
    else:
        for parameter in (one for one in command.params if one.param_type_name == "argument"):
            yield from _values(path, parameter, last, before)


def _option(command: Any, word: str) -> Any:
    name = word.partition("=")[0]
    return next((one for one in command.params if name in (*one.opts, *one.secondary_opts)), None)


def _options(command: Any) -> Iterator[Candidate]:
    for one in command.params:
        if one.param_type_name == "option" and not getattr(one, "hidden", False):
            yield from (Candidate(name, one.help or "") for name in (*one.opts, *one.secondary_opts))
    yield Candidate("--help", "Show this message and exit.")


def _commands(group: Any) -> Iterator[Candidate]:
    from headwater.cli.app import COMMANDS, Commands

    if isinstance(group.commands, Commands):  # none of them is loaded for that
        yield from (Candidate(name, about) for name, about in COMMANDS.items())
    else:
        yield from (Candidate(name, _first_line(one.help)) for name, one in group.commands.items())


def _values(path: Sequence[str], parameter: Any, last: str, words: Sequence[str]) -> Iterator[Candidate]:
    if choices := _choices(parameter):
        yield from _beginning(map(Candidate, choices), last)
    elif parameter.name in ("project", "file", "folder"):
        yield Candidate(FILES)
    else:
        yield from _beginning(_names(path, parameter.name, words), last)


def _choices(parameter: Any) -> list[str]:
    """The words that a parameter may be: Click's, or in a Typer that has none the Literal of its annotation."""
    known = getattr(getattr(parameter, "type", None), "choices", None)
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    return list(map(str, known or (get_args(annotation) if get_origin(annotation) is Literal else ())))


def _names(path: Sequence[str], parameter: str, words: Sequence[str]) -> Iterator[Candidate]:
    """Relations and flows of the project that the command is about."""
    from headwater.api.lake import Lake
    from headwater.cli.remote import option

    of_flows = path[:1] and path[0] in _FLOWS and parameter in ("name", "names", "flows", "select", "exclude")
    kind = _KINDS.get(path[0]) if path and parameter in ("name", "topic") else None
    if not of_flows and kind is None and parameter != "topic":
        return
    with Lake.look(option(words, "--project") or ".", option(words, "--target")) as lake:
        if of_flows:
            yield from (Candidate(one.flow, one.state) for one in lake.status())
        else:
            yield from (Candidate(name) for name in lake.names()[kind or "topic"])


def _beginning(found: Iterator[Candidate], last: str) -> Iterator[Candidate]:
    return (one for one in found if one.word.startswith(last))


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
