"""A topic's newest rows, and those that come."""

from __future__ import annotations

import sys
from time import sleep
from typing import TYPE_CHECKING

from headwater.cli.rows import print_rows
from headwater.cli.values import json_text
from headwater.core.model import WEIGHT

if TYPE_CHECKING:
    from headwater.api.lake import Lake

PAUSE = 1.0
"""Seconds between two looks."""


def follow_topic(lake: Lake, name: str, rows: int, *, follow: bool) -> None:
    topic = lake.topic(name)
    seen = topic.version
    newest = (
        f"SELECT * FROM topic('{name}') VERSION AS OF {seen} ORDER BY _ingested_at DESC, _position DESC LIMIT {rows}"
    )
    print_rows(lake.sql(f"SELECT * FROM ({newest}) ORDER BY _ingested_at, _position"), "ndjson")
    sys.stdout.flush()
    while follow:
        sleep(PAUSE)
        latest = topic.version
        if latest == seen:
            continue
        came = f"SELECT * FROM changes('topics.{name}', {seen}, {latest}) WHERE {WEIGHT} > 0"
        for row in lake.sql(f"{came} ORDER BY _ingested_at, _position"):
            del row[WEIGHT]
            sys.stdout.write(json_text(row) + "\n")
        sys.stdout.flush()
        seen = latest
