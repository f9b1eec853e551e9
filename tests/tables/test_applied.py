"""Changes of any kind and in any order, applied in each format: step by step what they come to in plain Python."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed

from headwater.api.lake import Lake
from headwater.formats.base import Capability
from headwater.formats.registry import FORMATS
from tests.tables.apply_lab import KNOWN, Event, Reference, flat, lsn, newest, of_keys, shown, streams, word

pytestmark = pytest.mark.usefixtures("spark")

ROW = "struct<id: bigint, last: string, before: string>"
CAPTURED = (
    "n bigint, lsn string, word string, _op string, event_timestamp timestamp, _unchanged array<string>, "
    f"before {ROW}, after {ROW}"
)
RULES = {"keys": ["id"], "sequence_by": "n"}
TABLES: dict[str, dict[str, Any]] = {
    "latest": {"from": "topic('log')", "apply": RULES},
    "soft": {"from": "topic('log')", "apply": {**RULES, "deletes": "soft"}},
    "history": {"from": "topic('log')", "apply": {**RULES, "history": "all"}},
    "by_lsn": {"from": "topic('log')", "apply": {**RULES, "sequence_by": "lsn", "history": "all"}},
    "by_word": {"from": "topic('log')", "apply": {**RULES, "sequence_by": "word", "history": "all"}},
    "newest": {"from": "topic('flat')", "apply": {**RULES, "delete_when": "gone"}},
}
KEPT = {
    "delta": ["latest", "history", "soft"],
    "iceberg": ["latest", "by_lsn", "newest"],
    "hudi": ["latest", "by_word", "newest"],
    "paimon": ["latest", "history", "soft"],
}
"""Tables by format: those that are stored alike take turns."""
COLUMNS = {
    "latest": "id, last, before",
    "soft": "id, last, before, is_deleted",
    **dict.fromkeys(
        ("history", "by_lsn", "by_word"), "id, last, before, valid_from, valid_to, is_current, seq_from, seq_to"
    ),
    "newest": "id, n, known, gone",
}
PROJECT = {
    "name": "applied",
    "sources": {
        "captured": {"type": "append", "schema": CAPTURED},
        "rows": {"type": "append", "schema": "id bigint, n bigint, known string, gone boolean"},
    },
    "topics": {"log": {"from": "captured"}, "flat": {"from": "rows"}},
}
SHRINKING = 120.0
"""Seconds that a wrong example may take to get smaller."""

Steps = list[list[Event]]


class WrongRows(AssertionError):
    def __init__(self, step: int, table: str, found: set[tuple[Any, ...]], expected: set[tuple[Any, ...]]) -> None:
        super().__init__(f"step {step}, {table}: {found - expected} too many, {expected - found} missing")
        self.table, self.ids = table, {row[0] for row in found ^ expected}


@pytest.mark.parametrize("format", [format.name for format in FORMATS if format.can(Capability.UPSERT)])
def test_every_step_gives_what_the_changes_so_far_come_to(format: str, seed: int) -> None:
    """A lake is dear, so there is one example with many rows and changes in it; the first one of all has none."""

    @hypothesis_seed(seed + len(format))
    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=streams())
    def holds(drawn: Steps) -> None:
        if not any(drawn):
            return
        print(f"HEADWATER_SEED={seed}, {format}: {[len(step) for step in drawn]} changes")
        steps = [[*known, *more] for known, more in zip(KNOWN, drawn, strict=True)]
        try:
            run(steps, format)
        except WrongRows as wrong:
            steps, wrong = smaller(steps, format, wrong)
            told = "\n".join(f"step {number}: {event}" for number, step in enumerate(steps) for event in step)
            raise AssertionError(f"HEADWATER_SEED={seed}, {format}, {wrong}\n{told}") from wrong

    holds()


def run(steps: Steps, format: str, only: Collection[str] = ()) -> None:
    """Feed a lake of its own step by step, and look at the tables after each of them."""
    only = only or KEPT[format]
    reference, rows = Reference(), []
    tables = {name: {**TABLES[name], "format": format} for name in only}
    with tempfile.TemporaryDirectory() as root:
        (Path(root) / "headwater.yml").write_text(yaml.safe_dump({**PROJECT, "tables": tables}), encoding="utf-8")
        with Lake.open(root) as lake:
            for number, step in enumerate(steps):
                reference.take(step)
                lake.topic("log").append([event.record() for event in step], wait=False)
                rows += (more := [row for row in map(flat, step) if row is not None])
                if more and "newest" in only:
                    lake.topic("flat").append(more, wait=False)
                for report in lake.run(once=True):
                    assert report.error is None, f"{report.flow}: {report.error}"
                wanted = {"latest": reference.latest(), "soft": reference.soft(), "history": reference.history()}
                wanted |= {"by_lsn": reference.history(lsn), "by_word": reference.history(word)}
                for name, expected in {**wanted, "newest": newest(rows)}.items():
                    if name in only and (rows or name != "newest"):
                        answer = lake.sql(f"SELECT {COLUMNS[name]} FROM table('{name}')").rows()
                        if (found := shown(row.values() for row in answer)) != expected:
                            raise WrongRows(number, name, found, expected)


def smaller(steps: Steps, format: str, wrong: WrongRows) -> tuple[Steps, WrongRows]:
    """The changes of the keys that came out wrong, less those without which they do as well.

    Keys have little to do with each other, which Hypothesis can't know: it would take thousands of lakes.
    """

    def tried(less: Steps) -> WrongRows | None:
        try:
            run([step for step in less if step], format, [wrong.table])
        except WrongRows as again:
            return again
        return None

    until = time.monotonic() + SHRINKING
    if (again := tried(fewer := [of_keys(step, steps, wrong.ids) for step in steps])) is None:
        return steps, wrong
    for at, step in enumerate(fewer):
        for event in list(step):
            less = [*fewer[:at], [one for one in fewer[at] if one is not event], *fewer[at + 1 :]]
            if time.monotonic() < until and (found := tried(less)) is not None:
                fewer, again = less, found
    return fewer, again
