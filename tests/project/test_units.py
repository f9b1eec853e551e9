"""Durations and sizes as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("6h", 21_600),
        ("7d", 604_800),
        ("2w", 1_209_600),
        ("500ms", 0.5),
        ("5 minutes", 300),
        ("1 hour", 3600),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 10 S ", 10),
        ("0s", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5x", "-5m", "5m!", "5m 3", "five minutes", "5mm", "9" * 30 + "d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("128MB", 128 << 20),
        ("64kb", 64 << 10),
        ("1 GiB", 1 << 30),
        ("2T", 2 << 40),
        ("1.5k", 1536),
        ("512", 512),
        ("512B", 512),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "12 parsecs", "1MBs", "1 2MB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta.max))
def test_a_duration_is_read_as_it_was_shown(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(min_value=0, max_value=1 << 60))
def test_a_size_is_read_as_it_was_shown(size: int) -> None:
    assert parse_size(format_size(size)) == size
