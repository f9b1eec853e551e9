"""The engine of steps: whenever a process ends, each range is committed once. Without Spark: a list of numbers is the
input, a file the target."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import Code, HeadwaterError, TerminalError
from headwater.core.model import CommitTag
from headwater.core.storage import Files
from headwater.flows.flow import Flow, FlowInput
from headwater.flows.ledger import Epoch, Intent, Ledger, Positions
from headwater.flows.step import Landed, Step, StepEngine, Target
from headwater.sources.reader import OffsetRange

FLOW = "topics.numbers"


class Killed(BaseException):
    """The process ends here."""


@dataclass
class Numbers(FlowInput[list[int]]):
    """Two numbers a step."""

    numbers: list[int]
    told: list[Positions] = field(default_factory=list)
    unchanged: list[Positions] = field(default_factory=list)
    gone: bool = False
    deaf: int = 0
    """So often it can't be told of a commit."""

    def next(self, start: Positions) -> OffsetRange | None:
        at = start.get("numbers", 0)
        end = min(at + 2, len(self.numbers))
        return None if end == at or {"numbers": end} in self.unchanged else OffsetRange({"numbers": end}, end - at)

    def read(self, start: Positions, end: Positions) -> list[int]:
        if self.gone:
            raise TerminalError(Code.NO_SUCH_VERSION, "it is gone")
        return self.numbers[start.get("numbers", 0) : end["numbers"]]

    def begin_after(self, end: Positions) -> Positions:
        return {"numbers": end["numbers"]} if "numbers" in end else {}

    def is_gone(self, error: HeadwaterError) -> bool:
        return error.code is Code.NO_SUCH_VERSION

    def committed(self, end: Positions) -> None:
        if self.deaf:
            self.deaf -= 1
            raise OSError("nobody hears")
        self.told.append(end)

    def came_to_nothing(self, end: Positions) -> None:
        self.unchanged.append(end)


@dataclass
class Commits(Target[list[int]]):
    """One line a commit. What is negative changes nothing."""

    file: Path
    killed: str = ""
    """`before` or `after` the next commit."""
    strict: bool = False
    finished: list[Intent] = field(default_factory=list)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def landed(self, commit_tag: CommitTag) -> bool:
        return [commit_tag.epoch, commit_tag.step] in [line["step"] for line in self.lines()]

    def continues(self, last: Intent, definition: str) -> bool:
        return not self.strict or last.definition == definition

    def finish(self, last: Intent) -> None:
        self.finished.append(last)

    def commit(self, rows: list[int], step: Step) -> Landed:
        if all(number < 0 for number in rows):
            return Landed(None, 0, came_to_nothing=True)
        step.extend({"sum": sum(rows)})
        if self.killed == "before":
            raise Killed
        if not self.landed(step.commit_tag):
            line = {"step": [step.intent.epoch, step.intent.step], "rows": rows, "to": dict(step.commit_tag.positions)}
            with self.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
        if self.killed == "after":
            raise Killed
        return Landed(len(self.lines()), len(rows))


@dataclass
class Lab:
    root: Path

    def open(
        self, input: Numbers, *, killed: str = "", definition: str = "d", strict: bool = False, shared: bool = False
    ) -> tuple[Flow[list[int]], Commits]:
        target = Commits(self.root / "target", killed, strict)
        turn = threading.Lock() if shared else None
        return Flow(FLOW, definition, input, target, self.ledger(), turn=turn), target

    def ledger(self) -> Ledger:
        return Ledger(Files(str(self.root), {}), FLOW)

    def intents(self) -> Mapping[str, Any]:
        folder = self.root / "_headwater/flows" / FLOW
        return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*-*.json"))}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def steps(flow: Flow[list[int]]) -> int:
    count = 0
    while flow.step() is not None:
        count += 1
    return count


@pytest.mark.parametrize("killed", ["before", "after"])
def test_a_step_that_was_cut_off_is_committed_once(lab: Lab, killed: str) -> None:
    numbers = list(range(5))
    for _ in range(3):  # it is killed in each of its steps
        flow, _ = lab.open(Numbers(numbers), killed=killed)
        with pytest.raises(Killed):
            steps(flow)
    input = Numbers(numbers)
    flow, target = lab.open(input)
    first = flow.step()
    if killed == "before":  # the very range, in the very step
        assert first is not None and first.recovered and (first.epoch, first.step) == (1, 0)
        assert steps(flow) == 2
    else:  # each process found the step before its own landed, said so, and was killed in the next
        assert first is None and [intent.step for intent in target.finished] == [2]
    assert [line["rows"] for line in target.lines()] == [[0, 1], [2, 3], [4]]
    assert [line["step"] for line in target.lines()] == [[1, 0], [1, 1], [1, 2]]
    assert input.told[-1] == {"numbers": 5, "sum": 4} == flow.positions
    assert {name: intent["from"] for name, intent in lab.intents().items()} == {
        "1-0": {},
        "1-1": {"numbers": 2},
        "1-2": {"numbers": 4},
    }


def test_who_could_not_be_told_is_told_before_the_next_step(lab: Lab) -> None:
    input = Numbers([1, 2, 3], deaf=2)
    flow, target = lab.open(input)
    assert flow.step() is not None, "the step has landed all the same"
    with pytest.raises(OSError, match="nobody hears"):
        flow.step()
    assert flow.step() is not None and len(target.lines()) == 2
    assert [told["numbers"] for told in input.told] == [2, 3]


def test_what_came_to_nothing_is_taken_back_and_goes_with_the_next(lab: Lab) -> None:
    input = Numbers([1, 2, -3, -4])
    flow, target = lab.open(input)
    assert flow.step() is not None
    nothing = flow.step()
    assert nothing is not None and nothing.landed.came_to_nothing and nothing.step == 1
    assert list(lab.intents()) == ["1-0"] and flow.positions["numbers"] == 2
    assert flow.step() is None, "it is not looked at again"
    input.numbers[2:] = [5, 6]
    input.unchanged.clear()
    done = flow.step()
    assert done is not None and done.step == 1 and target.lines()[1]["rows"] == [5, 6]


def test_an_open_step_of_another_definition_is_not_repeated(lab: Lab) -> None:
    flow, _ = lab.open(Numbers([1, 2]), killed="before", strict=True)
    with pytest.raises(Killed):
        flow.step()
    flow, target = lab.open(Numbers([1, 2]), definition="another", strict=True)
    assert flow.recover() is None and flow.positions == {}
    done = flow.step()
    assert done is not None and (done.epoch, done.step, done.recovered) == (2, 0, False)
    assert lab.ledger().epoch() == Epoch(2) and target.finished == []
    flow, target = lab.open(Numbers([1, 2]), definition="a third", strict=True)
    done = flow.step()
    assert done is not None and done.epoch == 3, "also where the last step has landed"
    flow, _ = lab.open(Numbers([1, 2, 3]), definition="a fourth")
    done = flow.step()
    assert done is not None and (done.epoch, done.step) == (3, 1), "most targets go on with any"


def test_a_range_that_is_gone_is_given_up(lab: Lab) -> None:
    flow, _ = lab.open(Numbers([1, 2, 3, 4]))
    assert flow.step() is not None
    flow, _ = lab.open(Numbers([1, 2, 3, 4]), killed="before")
    with pytest.raises(Killed):
        flow.step()
    input = Numbers([1, 2, 30, 40], gone=True)
    flow, target = lab.open(input)
    assert flow.recover() is None and flow.positions == {"numbers": 2}
    with pytest.raises(TerminalError):
        flow.step()  # a new step is no repetition: it says what is wrong
    input.gone = False
    done = flow.step()
    assert done is not None and done.recovered
    assert [line["rows"] for line in target.lines()] == [[1, 2], [30, 40]]


def test_two_threads_take_steps_of_one_flow(lab: Lab) -> None:
    mine, target = lab.open(Numbers([1, 2, 3, 4, 5, 6]), shared=True)
    other, _ = lab.open(Numbers([1, 2, 3, 4, 5, 6]), shared=True)
    assert mine.step() is not None
    ahead = mine.ahead()
    assert other.step() is not None
    done = mine.step(ahead)  # which somebody else has taken meanwhile
    assert done is not None and done.step == 2
    assert [line["rows"] for line in target.lines()] == [[1, 2], [3, 4], [5, 6]]
    chosen = other.take(lambda start: OffsetRange({"numbers": start["numbers"] - 1}))
    assert chosen is None or chosen.landed.came_to_nothing, "a range of the caller's own"
    assert other.take(lambda start: None) is None and other.positions["numbers"] == 6


def test_steps_that_somebody_else_counts(lab: Lab) -> None:
    def engine() -> StepEngine[list[int]]:
        return StepEngine(FLOW, "d", lab.ledger(), Commits(lab.root / "target"))

    def follows(last: Intent) -> bool:
        return bool(last.end["query"] == "a")

    first, end = engine(), {"query": "a", "numbers": 2}
    step = first.given(7, end, follows)
    assert step is not None and step.intent.step == 7 and not step.recovered
    again = engine().given(7, end, follows)
    assert again is not None and again.recovered and again.commit_tag == step.commit_tag
    assert first.given(7, {"query": "a", "numbers": 3}, follows) is None, "the same number with another range"
    assert first.given(9, {"query": "a", "numbers": 9}, follows) is None, "one is missing"
    first.commit(again, [1, 2])
    second = first.given(8, {"query": "a", "numbers": 4}, follows)
    assert second is not None and second.intent.start["numbers"] == 2
    assert engine().given(9, {"query": "b", "numbers": 4}, lambda last: False) is None
    elsewhere = Ledger(Files(str(lab.root), {}), FLOW, first=Epoch(5))
    anew = StepEngine(FLOW, "d", elsewhere, Commits(lab.root / "target")).given(0, end, follows)
    assert anew is not None and (anew.intent.epoch, anew.intent.step) == (5, 0)
