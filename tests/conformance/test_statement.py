"""What a format states is complete: each capability is tested, each missing one refused by name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from headwater.core.errors import Unsupported
from headwater.core.model import CommitTag
from headwater.formats.base import Capability, Format
from headwater.formats.spark_table import SparkTable
from tests.conformance.lab import Lab

OPERATIONS: dict[Capability, Callable[[Lab, SparkTable], object]] = {
    Capability.UPSERT: lambda lab, t: t.upsert(lab.frame([]), keys=["id"]),
    Capability.REPLACE: lambda lab, t: t.replace(lab.frame([])),
    Capability.TIME_TRAVEL: lambda lab, t: t.read(datetime.now(timezone.utc)),
    Capability.CHANGES: lambda lab, t: t.changes(None, 1),
    Capability.COMMIT_TAGS: lambda lab, t: t.landed(CommitTag("f", 1, 1)),
    Capability.ADD_COLUMNS: lambda lab, t: t.evolve(t.schema()),
    Capability.EVOLVE_PARTITIONING: lambda lab, t: t.repartition(["name"]),
    Capability.COMPACT: lambda lab, t: t.compact(),
    Capability.CLUSTER: lambda lab, t: t.cluster(["id"]),
    Capability.EXPIRE: lambda lab, t: t.expire(datetime.now(timezone.utc)),
    Capability.ORPHANS: lambda lab, t: t.orphans(datetime.now(timezone.utc)),
    Capability.FILES: lambda lab, t: t.files(),
    Capability.STATS: lambda lab, t: t.stats(),
    Capability.STREAM_READ: lambda lab, t: t.read_stream(),
    Capability.STREAM_CHANGES: lambda lab, t: t.read_stream(changes=True),
}


def test_a_missing_capability_is_refused_by_name(lab: Lab) -> None:
    table = lab.table()
    for capability, operation in OPERATIONS.items():
        if not lab.fmt.can(capability):
            with pytest.raises(Unsupported) as caught:
                operation(lab, table)
            assert lab.fmt.title in str(caught.value) and capability.value in str(caught.value)


def test_a_missing_capability_has_a_reason(fmt: Format) -> None:
    missing = [c for c in Capability if not fmt.can(c)]
    assert [c.name for c in missing if c not in fmt.notes] == []


def test_every_capability_has_a_test() -> None:
    here = "\n".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [c.name for c in Capability if f"mark.capability(Capability.{c.name}" not in here] == []


def test_light_read_and_the_light_side_go_together(fmt: Format) -> None:
    assert fmt.can(Capability.NATIVE_READ) == (fmt.native is not None)
