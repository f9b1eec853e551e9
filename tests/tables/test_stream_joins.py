"""Streams joined with streams within a time, fed in random steps: what one batch over all of it gives."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from headwater.api.lake import Lake
from tests.docs.test_examples import blocks

pytestmark = pytest.mark.usefixtures("spark")

SOURCES = """\
name: forum
sources: {api: {type: append}}
topics: {questions: {from: api}, answers: {from: api}}
"""
BEGIN = datetime(2026, 1, 5, tzinfo=timezone.utc)
JOINS = {"answered": "LEFT", "inner_": "INNER", "right_": "RIGHT", "full_": "FULL"}
STEPS = 3


def _rows(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Few keys, so that most meet; times around the bound, some of them on it; doubles and missing keys."""

    def at() -> str:
        return (BEGIN + timedelta(minutes=rng.randint(0, 30))).isoformat()

    key = [*range(1, 6), None]
    questions = [{"id": rng.choice(key), "event_timestamp": at()} for _ in range(24)]
    answers = [{"question": rng.choice(key), "event_timestamp": at(), "by": rng.choice("cd")} for _ in range(24)]
    return {"questions": [*questions, *questions[:2]], "answers": [*answers, *answers[:2]]}


def test_random_steps_give_what_one_batch_gives(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    page = next(one for one in blocks("docs/tables.md", "yaml") if "answered" in one)
    sql = page.partition("sql: |\n")[2]
    assert "LEFT JOIN" in sql
    more = "".join(
        f"  {name}:\n    sql: |\n{sql.replace('LEFT JOIN', f'{kind} JOIN')}"
        for name, kind in JOINS.items()
        if kind != "LEFT"
    )
    (tmp_path / "headwater.yml").write_text(f"{SOURCES}{page}{more}", encoding="utf-8")
    waiting = _rows(rng)
    with Lake.open(tmp_path) as lake:
        for step in range(STEPS):
            for topic, rows in waiting.items():
                rng.shuffle(rows)
                count = len(rows) if step == STEPS - 1 else rng.randint(1 if step == 0 else 0, len(rows) // 2)
                taken, waiting[topic] = rows[:count], rows[count:]
                if taken:
                    lake.topic(topic).append(taken)
            for report in lake.run([f"tables.{name}" for name in JOINS], once=True):
                assert report.error is None, f"{report.flow}: {report.error}"
        for name, kind in JOINS.items():
            batch = sql.replace("LEFT JOIN", f"{kind} JOIN").replace("stream(topic('", "topic('").replace("'))", "')")
            wanted = Counter(tuple(row.values()) for row in lake.sql(batch, engine="spark").rows())
            found = Counter(tuple(row.values()) for row in lake.sql(f"SELECT * FROM table('{name}')").rows())
            assert found == wanted, f"seed {seed}, {name}: {found - wanted} too many, {wanted - found} missing"
            assert sum(wanted.values()) > 10
            steps = [commit.commit_tag.step for commit in lake.table(name).history() if commit.commit_tag is not None]
            assert len(steps) == max(steps) + 1 > 2, "each step brought its change in"
