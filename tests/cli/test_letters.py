"""The list of dead letters: a line each, whatever is in them; a hint once for all that have it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from headwater.cli.dead_letters import hints_of, show_letters
from headwater.core.model import HINT_MARK
from tests.cli.screen import WEIRD, in_pipe, on_terminal

AT = datetime(2026, 10, 17, 12, 30, 0, 123456, tzinfo=timezone.utc)
HINT = "`schema: {mismatch: discard_value}` takes the event in without the value, then `headwater dlq replay orders`"


def letter(number: int, reason: str = "schema", message: str = "amount is string", hint: str = HINT) -> dict[str, Any]:
    text = f"{message}{HINT_MARK}{hint}" if hint else message
    told = {"id": f"{number:064x}"[::-1], "topic": "orders", "reason": reason, "message": text}
    return {**told, "position": f"landing/2026-10-17/{number:04d}.json:17", "at": AT}


LETTERS = [letter(1), letter(2), letter(3, "decode", f"not JSON: {WEIRD * 9}", ""), letter(4, hint="another hint")]


def test_a_line_a_letter() -> None:
    for width in (80, 120, 200):
        shown = on_terminal(lambda: show_letters(LETTERS), width)
        assert len(shown.lines) == 5 and shown.widest <= width, shown.lines
        assert shown.lines[1].startswith("10000000  2026-10-17 12:30:00Z  orders  schema")
        assert ("position" in shown.lines[0]) == (width > 110)
        assert shown.lines[3].endswith("…")
    piped = in_pipe(lambda: show_letters(LETTERS))
    assert len(piped.lines) == 5 and WEIRD.count("日") * 9 == piped.lines[3].count("日"), "a program gets it whole"


def test_a_hint_is_said_once() -> None:
    assert list(hints_of(LETTERS)) == [f"schema (2): {HINT}", "schema (1): another hint"]
    shown = on_terminal(lambda: show_letters(LETTERS), 120)
    assert shown.err.splitlines() == list(hints_of(LETTERS)) and "discard_value" not in shown.out


def test_a_hint_of_an_earlier_release_is_one_too() -> None:
    earlier = [{**letter(1), "message": f"amount is string; cure: {HINT}"}]
    assert list(hints_of(earlier)) == [f"schema (1): {HINT}"]
    assert "cure" not in on_terminal(lambda: show_letters(earlier), 120).out


def test_an_older_letter_without_a_message() -> None:
    assert len(in_pipe(lambda: show_letters([{**letter(1), "message": None, "position": None}])).lines) == 2
