"""The shell's prompt: statements of several lines that can be edited as a whole, their history, and completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Offered
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.shortcuts import CompleteStyle

from headwater.cli.completion.statements import DELIMITERS, Completion
from headwater.core.private_files import make_private
from headwater.sql.parse import is_complete

PROMPT, MORE = "headwater> ", "       ... "
LEAVING = ("\\q", "quit", "exit", "quit;", "exit;")
REMEMBERED = 1000


class Editor:
    """What somebody types at a terminal, statement by statement."""

    def __init__(
        self, history: Path, completion: Completion, *, input: Input | None = None, output: Output | None = None
    ) -> None:
        _prepare(history)
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=MORE,
            history=FileHistory(history),
            completer=_Names(completion),
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            key_bindings=_keys(),
            input=input,
            output=output or create_output(always_prefer_tty=True),
        )

    def entered(self) -> Iterator[str]:
        """Until Ctrl-D, or a word for leaving; Ctrl-C drops what has been typed."""
        while True:
            try:
                text = self._session.prompt()
            except EOFError:
                return
            except KeyboardInterrupt:
                continue
            if text.strip() in LEAVING:
                return
            if text.strip():
                yield text


class _Names(Completer):
    def __init__(self, completion: Completion) -> None:
        self._completion = completion

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Offered]:
        before = document.text_before_cursor
        start = max(before.rfind(one) for one in DELIMITERS) + 1
        for found in self._completion.candidates(before[:start], before[start:]):
            yield Offered(found, start_position=start - len(before))


def _is_whole(text: str) -> bool:
    """Whether Enter hands it over; else it begins a new line."""
    words = text.strip()
    return not words or words.startswith("\\") or words in LEAVING or is_complete(text)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=Condition(lambda: _is_whole(get_app().current_buffer.text)))
    def hand_over(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline()

    return keys


def _prepare(history: Path) -> None:
    """For its owner alone, and no longer than is of use."""
    make_private(history.parent)
    history.touch(mode=0o600, exist_ok=True)
    entries = list(FileHistory(history).load_history_strings())  # the newest first
    if len(entries) > 2 * REMEMBERED:
        history.write_text("", encoding="utf-8")
        for entry in reversed(entries[:REMEMBERED]):
            FileHistory(history).store_string(entry)
