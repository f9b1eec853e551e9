"""`max_record_size` where records do not come in files: appends and an event store."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.api.lake import Lake
from tests.services.postgres import Server
from tests.support import headwater

LIMIT = 1000
HEAD = 65_536


def dead_letters(root: Path) -> list[dict[str, object]]:
    return sorted(
        headwater("dlq", "list", "--json", "--project", root).json, key=lambda one: (one["topic"], one["position"])
    )


def test_appends_and_events_that_are_too_large(tmp_path: Path, spark: SparkSession, postgres_server: Server) -> None:
    dsn = postgres_server.database()
    (tmp_path / "headwater.yml").write_text(
        f"""\
name: sizes
sources:
  api: {{type: append, max_record_size: {LIMIT}}}
  store: {{type: postgres_events, dsn: "{dsn}", table: events, max_record_size: {LIMIT}}}
topics: {{rows: {{from: api}}, events: {{from: store}}}}
"""
    )
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE events (global_position bigserial PRIMARY KEY, event_id text, event_type text,"
            " stream_id text, version int, data jsonb, metadata jsonb, created_at timestamptz DEFAULT now())"
        )
        for n, size in enumerate([1, 5000, 200_000, 2]):
            connection.execute(
                "INSERT INTO events (event_id, event_type, stream_id, version, data, metadata)"
                " VALUES (%s, 'x', 's', %s, %s, '{}')",
                (str(n), n, json.dumps({"n": "é" * size})),
            )
    with Lake.open(tmp_path) as lake:
        rows = [{"n": "a"}, {"n": "é" * 2000}, {"n": "é" * 100_000}, {"n": "b"}]
        appended = lake.topic("rows").append(rows, wait=True)
        assert appended.rejected in (2, None)
        (report,) = lake.run(["topics.events"], once=True)
        assert report.error is None and (report.rows, report.rejected) == (2, 2)
        assert sorted(row["n"] for row in lake.topic("rows").df().collect()) == ["a", "b"]
    found = dead_letters(tmp_path)
    sizes = [str(one["message"]).split()[0] for one in found]
    assert sizes == ["10009", "400009", "4009", "200009"] and {one["reason"] for one in found} == {"too_large"}
    for one in found:
        raw = headwater("dlq", "show", str(one["id"]), "--json", "--project", tmp_path).json["raw"]
        # Cut inside of a character it is no text, and shown in base64.
        kept = raw.encode() if raw.startswith("{") else base64.b64decode(raw)
        assert kept.startswith(b'{"n":') and len(kept) in (int(str(one["message"]).split()[0]), HEAD, HEAD - 1)
    # Those that are kept whole can be replayed when the bound is a higher one; the others can't.
    text = (tmp_path / "headwater.yml").read_text().replace(str(LIMIT), "1MB")
    (tmp_path / "headwater.yml").write_text(text)
    for topic in ("rows", "events"):
        replayed = headwater("dlq", "replay", topic, "--json", "--project", tmp_path)
        assert replayed.code == 0, replayed.err
    assert [str(one["message"]).split()[0] for one in dead_letters(tmp_path)] == ["400009", "200009"]


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_sizes_that_are_none(value: str, tmp_path: Path) -> None:
    (tmp_path / "headwater.yml").write_text(
        f"name: x\nsources: {{api: {{type: append, max_record_size: {value}}}}}\ntopics: {{t: {{from: api}}}}\n"
    )
    answer = headwater("check", "--project", tmp_path)
    assert answer.code == 2 and "max_record_size" in answer.out
