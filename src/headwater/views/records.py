"""What is noted of a view alongside its table: the columns it was built on, and how its refreshes went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from headwater.core.model import Kind
from headwater.core.record import Record
from headwater.core.state import RefreshRecord
from headwater.core.storage import Files
from headwater.views.explanation import Explanation

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEPT = 50
"""Refreshes that are remembered."""


@dataclass(frozen=True)
class Refreshed(Record):
    """What a refresh did."""

    view: str
    refresh_type: str
    """full, incremental or none."""
    reason: str
    rows_read: int | None = None
    rows_changed: int | None = None
    duration_ms: int = 0
    watermarks: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Per source, the version before and after."""
    version: int | None = None
    at: str = ""
    cost: Mapping[str, object] = field(default_factory=dict)
    """The figures that `auto` has decided by."""
    rows_since: int = 0
    """Of the last full refresh: rows of the changes after it that are not told one by one any more."""

    def to_dict(self) -> dict[str, object]:
        """Without what only the choice of a refresh needs."""
        return {name: value for name, value in super().to_dict().items() if name != "rows_since"}


def record_of(done: Refreshed, kind: Kind = Kind.VIEW) -> RefreshRecord:
    """A refresh for `system.refreshes`."""
    return RefreshRecord(
        view=done.view,
        kind=kind.value,
        refresh_type=done.refresh_type,
        reason=done.reason,
        started_at=datetime.fromisoformat(done.at) - timedelta(milliseconds=done.duration_ms),
        duration_ms=done.duration_ms,
        rows_read=done.rows_read,
        rows_changed=done.rows_changed,
        watermarks=json.dumps(done.watermarks, sort_keys=True),
        version=done.version,
    )


class Notes:
    """A view's notes of one epoch, in its flow's folder."""

    def __init__(self, files: Files, flow: str, epoch: int) -> None:
        self._files = files
        self._flow = flow
        self._folder = f"_headwater/flows/{flow}"
        self._columns = f"{self._folder}/columns-{epoch}.json"
        self._history = f"{self._folder}/refreshes.json"
        self._explanation = f"{self._folder}/explanation.json"

    def of(self, epoch: int) -> Notes:
        """Those of another epoch."""
        return Notes(self._files, self._flow, epoch)

    def columns(self) -> dict[str, StructType] | None:
        """The columns of each source when the view was built; None before that."""
        from pyspark.sql.types import StructType  # what only asks how refreshes went needs no Spark

        text = self._files.find(self._columns)
        if text is None:
            return None
        return {label: StructType.fromJson(schema) for label, schema in json.loads(text).items()}

    def put_columns(self, columns: Mapping[str, StructType]) -> None:
        schemas = {label: json.loads(schema.json()) for label, schema in columns.items()}
        self._files.write_atomic(self._columns, json.dumps(schemas, sort_keys=True))

    def forget_columns(self) -> None:
        if self._files.exists(self._columns):
            self._files.delete(self._columns)

    def explanation(self, of: str) -> Explanation | None:
        """How the view is kept, as Spark's analysis told it when it was compiled; `of` stands for what it was of."""
        text = self._files.find(self._explanation)
        note = {} if text is None else json.loads(text)
        return Explanation.of(note["explanation"]) if note.get("of") == of else None

    def put_explanation(self, of: str, explanation: Explanation) -> None:
        note = {"of": of, "explanation": asdict(replace(explanation, next=None))}
        self._files.write_atomic(self._explanation, json.dumps(note, sort_keys=True))

    def refreshes(self) -> list[Refreshed]:
        """Newest last."""
        text = self._files.find(self._history)
        return [] if text is None else [Refreshed(**one) for one in json.loads(text)]

    def add(self, refreshed: Refreshed) -> None:
        """A look that found nothing stands in the place of the one before it: reading a view pushes nothing out."""
        before = self.refreshes()
        if before and before[-1].refresh_type == refreshed.refresh_type == "none":
            before.pop()
        history = _shortened([*before, refreshed])
        self._files.write_atomic(self._history, json.dumps([asdict(one) for one in history], sort_keys=True))


def _shortened(history: list[Refreshed]) -> list[Refreshed]:
    """The newest, and the last full one however old it is: what `auto` compares with."""
    gone, kept = history[:-KEPT], history[-KEPT:]
    full = next((at for at in reversed(range(len(gone))) if gone[at].refresh_type == "full"), None)
    if full is None or any(one.refresh_type == "full" for one in kept):
        return kept
    since = sum(one.rows_read or 0 for one in gone[full + 1 :] if one.refresh_type == "incremental")
    return [replace(gone[full], rows_since=gone[full].rows_since + since), *kept]


def now() -> str:
    return datetime.now(timezone.utc).isoformat()
