"""What takes long says so, every few seconds, to those who read a file or a pipe too."""

from __future__ import annotations

import time

import pytest

from headwater.core.progress import Ticker, ticking


def test_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []
    ticker = Ticker(lambda: asked.append("x") or ("counting" if len(asked) > 1 else None), every=0.01)
    ticker.start()
    while len(asked) < 4:
        time.sleep(0.01)
    ticker.stop()
    lines = capsys.readouterr().err.splitlines()
    assert lines and all(line.startswith("headwater: counting, ") and line.endswith(" s") for line in lines)


def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ticking("starting Spark", every=60):
        pass
    assert capsys.readouterr().err == ""
