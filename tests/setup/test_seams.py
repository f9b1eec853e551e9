"""The seams say of each method who calls it and when: whoever writes a connector need not read what is above it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

from headwater.flows.flow import FlowInput, Steps
from headwater.flows.step import Target
from headwater.formats.followers import FollowedTable
from headwater.formats.native import NativeTable
from headwater.formats.spark_table import SparkTable
from headwater.incremental.operator import Operator, Sources
from headwater.sources.decoders.base import Decoder
from headwater.sources.reader import ReadableTable, Reader

CONNECTORS = (Reader, ReadableTable, Decoder, FollowedTable, SparkTable, NativeTable)
SEAMS = (*CONNECTORS, Operator, Sources, FlowInput, Target, Steps)
CALLER = re.compile(r"\b([Cc]all(s|ed)?|compares|asks?|uses?|opens?|makes one)\b")
HELPERS = {"_once", "_unborn", "_aligned", "_check_layout", "_no_such_version", "_not_told"}
"""What is shared above a seam, and is no part of it."""


def methods(seam: type) -> Iterator[tuple[str, str]]:
    """Its methods with their docstrings; also those that a connector overrides."""
    for name, value in vars(seam).items():
        function = value.fget if isinstance(value, property) else value
        if inspect.isfunction(function) and not name.startswith("__") and name not in HELPERS:
            yield name, " ".join((inspect.getdoc(function) or "").split())


@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.__name__)
def test_each_method_says_who_calls_it_and_when(seam: type) -> None:
    assert CALLER.search(inspect.getdoc(seam) or ""), seam
    silent = [name for name, doc in methods(seam) if not CALLER.search(doc)]
    assert silent == []
