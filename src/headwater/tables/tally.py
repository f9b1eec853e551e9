"""What a table's watermark and expectations have counted, kept next to its ledger; read without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from headwater.core.model import CommitTag
from headwater.core.record import Record
from headwater.core.storage import Files

LATE = "late"


@dataclass(frozen=True)
class CheckCounts(Record):
    """What the watermark and the expectations of a table have counted since it was last rebuilt."""

    watermark: str | None
    """The time up to which rows are awaited."""
    late: int
    violations: Mapping[str, int]
    """By expectation."""


@dataclass
class Tally:
    """Counts since the table was last rebuilt. Those of a step are written before it commits, in place of what an
    earlier try of the same step has counted: a step that is done again doubles nothing."""

    files: Files
    flow: str
    watermark: datetime | None = None
    _step: tuple[int, int] = (0, -1)
    _before: Counter[str] = field(default_factory=Counter)
    _counts: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    """Rows that this step does not ingest."""

    @property
    def _path(self) -> str:
        return f"_headwater/flows/{self.flow}/checks.json"

    def begin(self, commit_tag: CommitTag, *, rebuilds: bool) -> None:
        """A step begins; `rebuilds`: it makes the whole table."""
        notes = self._read()
        self._before, self._counts, self.left_out = Counter(), Counter(), 0
        self._step = (commit_tag.epoch, commit_tag.step)
        if notes is None or rebuilds or notes["epoch"] != commit_tag.epoch:
            self.watermark = None
            return
        self._before = Counter(notes["before"])
        if notes["step"] != commit_tag.step:
            self._before.update(notes["counts"])
        moment = notes["watermark"]
        self.watermark = None if moment is None else datetime.fromisoformat(moment)

    def count(self, what: str, rows: int) -> None:
        self._counts[what] = rows

    def save(self) -> None:
        notes = {
            "epoch": self._step[0],
            "step": self._step[1],
            "before": dict(self._before),
            "counts": dict(self._counts),
            "watermark": None if self.watermark is None else self.watermark.isoformat(),
        }
        self.files.write_atomic(self._path, json.dumps(notes, sort_keys=True))

    def counts(self) -> CheckCounts | None:
        """The watermark and all counts, as people and programs read them; None before the first step."""
        notes = self._read()
        if notes is None:
            return None
        total = Counter(notes["before"])
        total.update(notes["counts"])
        expected = {name.removeprefix(_EXPECTED): rows for name, rows in total.items() if name.startswith(_EXPECTED)}
        return CheckCounts(notes["watermark"], total[LATE], dict(sorted(expected.items())))

    def checks(self) -> Mapping[str, object] | None:
        """The same, as a step tells it."""
        counts = self.counts()
        return None if counts is None else counts.to_dict()

    def _read(self) -> Mapping[str, Any] | None:
        content = self.files.find(self._path)
        return None if content is None else json.loads(content)


_EXPECTED = "expect."


def of_expectation(name: str) -> str:
    """Under which name the violations of an expectation are counted."""
    return f"{_EXPECTED}{name}"
