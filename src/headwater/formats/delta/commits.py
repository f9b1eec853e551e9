"""What a commit in a Delta log says of itself, for both sides. Never imports pyspark."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote

from headwater.core.model import Commit, CommitTag, Version


def info_in(text: str) -> dict[str, Any]:
    """The line of a commit's file in which its writer says what it did; empty where none does."""
    for line in text.split("\n"):
        action = json.loads(line) if "commitInfo" in line else {}
        if "commitInfo" in action:
            info: dict[str, Any] = action["commitInfo"]
            return info
    return {}


def commit_of(version: Version, info: dict[str, Any]) -> Commit:
    stamp = info.get("inCommitTimestamp") or info.get("timestamp") or 0
    metrics = info.get("operationMetrics") or {}
    added, removed = _rows(info.get("operation", ""), {k: int(v) for k, v in metrics.items() if str(v).isdigit()})
    return Commit(
        version=version,
        committed_at=datetime.fromtimestamp(stamp / 1000, tz=timezone.utc),
        operation=str(info.get("operation", "UNKNOWN")).lower(),
        rows_added=added,
        rows_removed=removed,
        commit_tag=CommitTag.from_json(info.get("userMetadata")),
    )


def _rows(operation: str, metrics: dict[str, int]) -> tuple[int | None, int | None]:
    """Rows that came and went; an updated row does both."""
    # deltalake, which makes the light commits, has other names for what it counts
    if operation == "MERGE":
        came, updated, went = (
            metrics.get(f"numTargetRows{what}", metrics.get(f"num_target_rows_{what.lower()}", 0))
            for what in ("Inserted", "Updated", "Deleted")
        )
        return came + updated, went + updated
    if operation in ("WRITE", "CREATE TABLE AS SELECT"):
        return metrics.get("numOutputRows", metrics.get("num_added_rows")), metrics.get("numRemovedRows", 0)
    if operation == "DELETE":
        return 0, metrics.get("numDeletedRows")
    if operation == "UPDATE":
        return metrics.get("numUpdatedRows"), metrics.get("numUpdatedRows")
    return 0, 0


def whole_path(root: str, path: str) -> str:
    """A file's path in the log, which is encoded and mostly below the table's folder."""
    path = unquote(path)
    return path if "://" in path or path.startswith("/") else f"{root.rstrip('/')}/{path}"
