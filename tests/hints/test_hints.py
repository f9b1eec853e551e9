"""Every hint that the code can print has a case, and what it names is there."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.hints.followed import followed
from tests.hints.printed import hints, is_of, pattern
from tests.hints.unfollowed import NAMED, OUTSIDE
from tests.hints.words import mistakes
from tests.project.test_hints import said


def test_what_a_hint_names_is_there() -> None:
    """Commands, options, keys and their values, statements, settings, variables, extras, pages."""
    wrong = {text: found for text in hints() if (found := list(mistakes(text)))}
    assert wrong == {}


WRONG = {
    "run it: headwater mv refesh x": "there is no command headwater mv refesh",
    "`headwater mv refresh` does it": "headwater mv refresh takes name; given: 0",
    "`headwater mv refresh x --ful`": "headwater mv refresh has no option --ful",
    "headwater dlq list has them": "headwater dlq list takes nothing; given: 2",
    "so run headwater plan": "a command goes in back-quotes: headwater plan",
    "say --yess": "there is no option --yess",
    "set `on_change: relaod`": "on_change can't be relaod",
    "set `schema: {mismatch: drop}`": "schema.mismatch can't be drop",
    "set `kep_raw: true`": "there is no key kep_raw",
    "give `pathh`": "there is no key or choice pathh",
    "set schema.new_colum": "there is no key schema.new_colum",
    "the source's schema_hint": "there is nothing that is called schema_hint",
    "--set headwater.stale=later": "headwater.stale can't be 'later'",
    "set HEADWATER_NOPE": "nothing reads the variable HEADWATER_NOPE",
    "pip install 'headwater[kafkaa]'": "there is no extra kafkaa",
    "see docs/nowhere.md": "there is no page docs/nowhere.md",
    "`flow rebuild x` fills it": "a command begins with headwater: flow rebuild x",
    "`SELECT FROM WHERE`": "can't be parsed",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_hint_that_names_what_is_not_there_is_found(text: str) -> None:
    assert any(WRONG[text] in told for told in mistakes(text)), list(mistakes(text))


def test_every_hint_has_a_case() -> None:
    """A new one is followed by a test (`@follows`), or stands in `unfollowed.py` with the reason why it is not."""
    tests, left = {*followed()}, [text for texts in (*NAMED.values(), *OUTSIDE.values()) for text in texts]
    without, twice = {}, []
    for text, modules in hints().items():
        is_followed = any(is_of(case, text) for case in tests) or _said(text, modules)
        is_left = any(is_of(case, text) for case in left)
        if not is_followed and not is_left:
            without[text] = sorted(modules)
        twice += [text] if is_followed and is_left else []
    assert without == {}, f"{len(without)} hints without a case"
    assert twice == [], "followed, and said not to be"
    assert [case for case in (*tests, *left) if not any(is_of(case, text) for text in hints())] == [], (
        "nobody gives them"
    )


def _said(text: str, modules: Iterable[str]) -> bool:
    """Whether a case of the tables of `tests/project/test_hints.py` has it."""
    if not any(module.startswith(("project/", "sql/")) for module in modules):
        return False
    parts = [part for part in text.split("{}") if part.strip()]
    return any(pattern(text).search(hint) or any(hint in part or part in hint for part in parts) for hint in said())
