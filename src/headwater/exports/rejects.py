"""The rows that targets have refused, as the lake keeps them: `system.export_rejects` is answered without a target.

`_headwater/flows/<flow>/rejects.json` has those of one streaming export, as they were after its last step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headwater.core.storage import Files

_FLOWS = "_headwater/flows"
_PREFIX = "exports."
_NAME = "rejects.json"


class RejectsNote:
    """The note of one flow, which is written when it has changed."""

    def __init__(self, files: Files, flow: str) -> None:
        self._files = files
        self._path = f"{_FLOWS}/{flow}/{_NAME}"
        self._written: str | None = None

    def write(self, rejects: Sequence[dict[str, Any]]) -> None:
        """The rows that the target refuses now. Called after each step."""
        text = json.dumps(list(rejects), default=_text, sort_keys=True)
        if text != self._written and (rejects or self._written is not None or self._files.exists(self._path)):
            self._files.write_atomic(self._path, text)
        self._written = text


def noted_rejects(files: Files) -> list[dict[str, Any]]:
    """The refused rows of all streaming exports, each with `export`, and times as `datetime`."""
    found = []
    for entry in files.list(_FLOWS) if files.exists(_FLOWS) else ():
        if entry.is_folder and entry.name.startswith(_PREFIX):
            text = files.find(f"{entry.path}/{_NAME}")
            rows = json.loads(text) if text is not None else []
            found += [{"export": entry.name.removeprefix(_PREFIX), **_with_times(row)} for row in rows]
    return found


def _with_times(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **{name: datetime.fromisoformat(row[name]) for name in ("since", "tried_at")}}


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
