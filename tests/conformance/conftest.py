"""Every capability of every format through the same tests.

A test says which capability it shows (`@pytest.mark.capability(X, given=[…])`). Where the format states it, the test
must pass. Where it does not, the test is run all the same with the capability claimed, and must fail: a capability
that is had and not stated fails the suite too. A format that lacks one of `given` skips the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.formats.base import Capability, Format, LakeContext
from headwater.formats.registry import FORMATS
from tests.conformance.lab import Lab


@pytest.fixture(params=FORMATS.names())
def fmt(request: pytest.FixtureRequest) -> Format:
    return FORMATS.get(request.param)


@pytest.fixture
def lab(spark: SparkSession, context: LakeContext, fmt: Format) -> Iterator[Lab]:
    lab = Lab(spark, context, fmt)
    yield lab
    for table in lab.made:
        table.drop()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    marker = pyfuncitem.get_closest_marker("capability")
    if marker is None or "lab" not in pyfuncitem.funcargs:
        return None
    lab: Lab = pyfuncitem.funcargs["lab"]
    shown: Capability = marker.args[0]
    lacking = [c for c in marker.kwargs.get("given", ()) if not lab.fmt.can(c)]
    if lacking:
        pytest.skip(f"{lab.fmt.name} does not {lacking[0].value}, which this test builds on")
    if lab.fmt.can(shown):
        return None
    lab.pretend(shown)
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    try:
        pyfuncitem.obj(**arguments)
    except Exception:
        return True
    pytest.fail(f"{lab.fmt.name} can '{shown.value}' and does not state {shown.name}")
