"""How large random and repeated tests are: small in every run, large in the full tier, or as the environment says."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

TIER = "HEADWATER_TIER"
"""Set by `tests/tiers.py` before any test is imported."""

FULL = os.environ.get(TIER) == "full"


def scaled(variable: str, usual: float, full: float) -> float:
    """A number of cycles, kills or seconds: the variable's where it is set, else the tier's."""
    return float(os.environ.get(variable, full if FULL else usual))


def in_formats(*usual: str, full: Iterable[str]) -> list[object]:
    """Formats that a test is run in: some in every run, the others in the full tier."""
    return [*usual, *(pytest.param(name, marks=pytest.mark.full) for name in full)]
