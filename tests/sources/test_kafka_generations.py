"""How often a topic has been made, by the ids that it has had."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Code, IntegrityError
from headwater.core.storage import Files
from headwater.sources.kafka.generations import KEPT, Generations
from headwater.sources.kafka.offsets import KafkaPosition


def place(id: str, **more: object) -> KafkaPosition:
    return KafkaPosition.of({"offsets": {"t": {"0": 3}}, "ids": {"t": id}, **more})


def step(folder: Path, start: KafkaPosition, id: str) -> dict[str, int]:
    """A step of a new process, after which the topic has this id."""
    generations = Generations(Files(str(folder)))
    made = generations.counted(start, {"t": id})
    assert generations.counted(start, {"t": id}) == made
    generations.keep(start, place(id, made=made))
    return made


def test_a_lake_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    """Its positions tell nothing of this: what it has read is the first topic, the next one the second."""
    old = place("a")
    assert step(tmp_path, old, "a") == {} and KafkaPosition.of(old.to_json()) == old and "made" not in old.to_json()
    assert step(tmp_path, old, "b") == {"t": 2}
    assert step(tmp_path, place("b", made={"t": 2}), "b") == {"t": 2}


def test_a_start_over_and_a_file_that_was_lost(tmp_path: Path) -> None:
    assert [step(tmp_path, KafkaPosition(), id) for id in ("a", "b", "c", "b")] == [{}, {"t": 2}, {"t": 3}, {"t": 2}]
    (tmp_path / KEPT).unlink()
    assert step(tmp_path, place("c", made={"t": 3}), "d") == {"t": 4}
    assert step(tmp_path, KafkaPosition(), "c") == {"t": 3}
    assert Generations(Files(str(tmp_path))).counted(place("d", made={"t": 4}), {}) == {"t": 4}


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / KEPT).write_text("{", encoding="utf-8")
    with pytest.raises(IntegrityError) as caught:
        step(tmp_path, KafkaPosition(), "a")
    assert caught.value.code is Code.LEDGER_CORRUPT and str(tmp_path / KEPT) in str(caught.value)
