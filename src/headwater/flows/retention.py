"""What retention leaves behind: the tag of its commits, and a note that rows of a flow's table are gone for good."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime

from headwater.core.errors import Code, TerminalError
from headwater.core.model import CommitTag
from headwater.core.storage import Files

_WRITER = "retention."


def retention_tag(flow: str, before: datetime, now: datetime) -> CommitTag:
    """For a commit that removes rows which were ingested before a time."""
    return CommitTag(f"{_WRITER}{flow}", 1, max(1, int(now.timestamp())), {"ingested_before": before.isoformat()})


def is_retention(commit_tag: CommitTag | None) -> bool:
    """Whether a commit has only removed rows because of their age. Tables keep what they have made of them."""
    return commit_tag is not None and commit_tag.flow.startswith(_WRITER)


def note_removal(files: Files, flow: str, before: datetime) -> None:
    """Before the first row goes: what is rebuilt from the table later lacks them."""
    files.write_atomic(_path(flow), json.dumps({"ingested_before": before.isoformat()}))


def removed_before(files: Files, flow: str) -> str | None:
    """The time before which rows of a flow's table may be gone; None if none were ever removed."""
    text = files.find(_path(flow))
    if text is None:
        return None
    try:
        return str(json.loads(text)["ingested_before"])
    except (ValueError, KeyError, TypeError):
        return "an unknown time"


def require_whole(files: Files, flow: str, inputs: Iterable[str], why: str) -> None:
    """Before a table is filled again by itself: refused where an input lacks rows that it was made of."""
    lacking = next((name for name in inputs if removed_before(files, name) is not None), None)
    if lacking is None:
        return
    raise TerminalError(
        Code.SOURCE_CHANGED,
        f"{why}, so {flow} would be filled again, and lose what it has of rows that `retain.rows` has removed from"
        f" {lacking}; it stays as it was",
        hint=f"rebuild it from what is left: `headwater flow rebuild {flow} --yes`",
    )


def _path(flow: str) -> str:
    return f"_headwater/flows/{flow}/retention.json"
