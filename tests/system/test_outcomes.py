"""What is recorded of each try of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.state.history import StepRecord
from headwater.core.storage import Files
from headwater.flows.ledger import Ledger
from headwater.flows.step import Landed, Step, StepEngine, Target


class Failing(Target[Any]):
    """Fails as it is told to."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def landed(self, commit_tag: Any) -> bool:
        return False

    def commit(self, rows: Any, step: Step) -> Landed:
        if self.error is not None:
            raise self.error
        return Landed(7, 3, 1)


def tried(tmp_path: Path, *errors: Exception | None) -> list[StepRecord]:
    records: list[StepRecord] = []
    target = Failing()
    engine = StepEngine[Any]("tables.x", "d", Ledger(Files(str(tmp_path)), "tables.x"), target, record=records.append)
    step = engine.begin({}, {"a": 1}, bytes=12)
    for error in errors:
        target.error = error
        try:
            engine.commit(step, None)
        except (HeadwaterError, MemoryError) as caught:
            engine.note_failure(step, caught)
    return records


def test_each_try_has_its_outcome(tmp_path: Path) -> None:
    cancelled = "Job 57 cancelled part of cancelled job tag headwater:tables.x"
    failed, cut, memory, landed = tried(
        tmp_path,
        TerminalError(Code.STORAGE_FAILED, "no such disk"),
        TerminalError(Code.SPARK_FAILED, cancelled),
        MemoryError(),
        None,
    )
    assert [one.outcome for one in (failed, cut, memory, landed)] == ["failed", "cancelled", "failed", "committed"]
    assert (failed.error_code, failed.error, failed.version, failed.committed_at) == (
        "STORAGE_FAILED", "no such disk", None, None,
    )  # fmt: skip
    assert memory.error == "MemoryError"
    assert (landed.kind, landed.rows, landed.rejected, landed.bytes, landed.version) == ("table", 3, 1, 12, 7)
    assert (landed.error, landed.to_positions) == (None, '{"a": 1}')
