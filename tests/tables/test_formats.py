"""Late events, expectations, keys and temporal joins in the formats that other tests of them leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tables.lab import Lab, event

pytestmark = pytest.mark.usefixtures("spark")

STREAM = "stream(topic('events'))"
WINDOWS = (
    "SELECT who, date_format(window.start, 'HH:mm') AS began, count(*) AS events, sum(n) AS total "
    f"FROM {STREAM} GROUP BY who, window(at, '10 minutes')"
)
SESSIONS = (
    "SELECT who, date_format(session_window.start, 'HH:mm') AS began, "
    "date_format(session_window.end, 'HH:mm') AS ended, count(*) AS events "
    f"FROM {STREAM} GROUP BY who, session_window(at, '4 minutes')"
)


def _late(what: str) -> dict[str, str]:
    return {"column": "at", "delay": "10m", "late": what}


TABLES: dict[str, Any] = {
    "windows": {"sql": WINDOWS, "watermark": _late("update"), "expect": {"small": {"check": "total < 9"}}},
    "plain": {
        "sql": f"SELECT id, who, n FROM {STREAM}",
        "keys": ["id"],
        "watermark": _late("drop"),
        "expect": {"known": {"check": "who IS NOT NULL", "on_violation": "drop"}},
    },
    "sessions": {"sql": SESSIONS, "watermark": _late("quarantine")},
    "states": {"from": "topic('events')", "apply": {"keys": ["n"], "sequence_by": "at", "history": "all"}},
    "joined": {
        "sql": f"SELECT e.id, s.id AS state FROM {STREAM} e "
        "LEFT JOIN table('states') FOR SYSTEM_TIME AS OF e.at s ON s.n = e.n + 1"
    },
    "checked": {
        "sql": f"SELECT id, n FROM {STREAM}",
        "expect": {
            "few": {"check": "n < 5", "on_violation": "quarantine"},
            "low": {"check": "id < 100", "on_violation": "fail"},
        },
    },
}


@pytest.mark.parametrize("format", ["hudi", "paimon"])
def test_what_is_late_or_not_as_expected_is_dealt_with(tmp_path: Path, format: str) -> None:
    lab = Lab(tmp_path, TABLES, format)
    lab.fed(event(1, 0), event(2, 30, n=2), event(3, 31, "b", n=3))
    lab.fed(event(4, 5, n=4), event(5, 32, "b", n=9), event(6, 33, None))
    windows = [("a", "00:00", 2, 5), ("a", "00:30", 1, 2), ("b", "00:30", 2, 12), (None, "00:30", 1, 1)]
    sessions = [("a", "00:00", "00:04", 1), ("a", "00:30", "00:34", 1), ("b", "00:31", "00:36", 2)]
    sessions.append((None, "00:33", "00:37", 1))  # type: ignore[arg-type]
    assert lab.rows("windows") == windows, "late rows correct what was there"
    assert lab.rows("plain", "id") == [(1,), (2,), (3,), (5,)]
    assert lab.rows("sessions") == sessions
    assert lab.rows("checked", "id") == [(1,), (2,), (3,), (4,), (6,)]
    joined = [(1, None), (2, None), (3, 4), (4, None), (5, None), (6, 2)]
    assert lab.rows("joined") == joined, "a state that came late corrects the row that it belongs to"
    line = {"watermark": "2026-01-01T00:23:00+00:00", "late": 1}
    assert lab.checks("windows") == {**line, "violations": {"small": 1}}
    assert lab.checks("plain") == {**line, "violations": {"known": 1}}
    assert lab.checks("sessions") == {**line, "violations": {}}
    assert lab.checks("checked")["violations"] == {"few": 1, "low": 0}
    dead_letters = {one["reason"]: one for table in ("sessions", "checked") for one in lab.dead_letters(table)}
    shown = {reason: lab.answer("dlq", "show", one["id"], "--json").json["raw"] for reason, one in dead_letters.items()}
    assert {reason: json.loads(raw)["id"] for reason, raw in shown.items()} == {"late": 4, "expectation": 5}

    failed = lab.failed(event(100, 33), event(2, 35))
    assert {flow: one["code"] for flow, one in failed.items()} == {
        "tables.plain": "DUPLICATE_KEY",
        "tables.checked": "EXPECTATION_FAILED",
    }
    assert lab.rows("plain", "id") == [(1,), (2,), (3,), (5,)], "nothing was committed"
    assert len(lab.rows("checked")) == 5
    (done,) = lab.answer("dlq", "replay", "tables.sessions", "--json").json
    assert (done["came_through"], done["still_dead"]) == (1, 0)
    assert lab.rows("sessions")[:3] == [
        ("a", "00:00", "00:04", 1),
        ("a", "00:05", "00:09", 1),
        ("a", "00:30", "00:39", 3),
    ]
