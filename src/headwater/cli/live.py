"""What a run shows: a table that keeps itself up to date on a terminal, lines elsewhere, JSON for programs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from headwater.cli.output import json_text, note, visible

REFRESHED = 2
"""Times a second."""
COLUMNS = ("flow", "state", "rows/s", "lag", "last commit", "rows", "rejected", "error")
_COLOURS = {
    "failed": "red",
    "died": "red",
    "retrying": "yellow",
    "blocked": "red",
    "paused": "yellow",
    "running": "green",
}


class RunDisplay:
    """The face of a run. Events come from many threads; what can't be shown is not worth failing for."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._live = not as_json and sys.stderr.isatty()
        self._table: Live | None = None
        self._printing = threading.Lock()
        self._mute = False
        self._retried: dict[str | None, str | None] = {}

    def on_ready(self, reports: Sequence[Any]) -> None:
        """The flows begin: these say how they are, at any moment."""
        if self._live and self._table is None:  # the list itself is kept: flows may come and go
            self._table = Live(
                console=Console(stderr=True),
                get_renderable=lambda: table([report.record() for report in list(reports)]),
                refresh_per_second=REFRESHED,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._table.start()

    def on_event(self, event: Any) -> None:
        if self._as_json:
            self.line(event.record())
        elif not self._live and (sentence := told(event.record())) and not self._repeated(event):
            self._quietly(lambda: note(sentence))

    def _repeated(self, event: Any) -> bool:
        """Whether a flow fails as it did the last time: once is enough, until something else happens to it."""
        before, why = self._retried.get(event.flow), event.details.get("error") if event.event == "retry" else None
        self._retried[event.flow] = why
        return why is not None and why == before

    def line(self, record: Mapping[str, Any]) -> None:
        """One object, whole, at once: a program may be waiting for it."""
        text = json_text(record)
        self._quietly(lambda: print(text, flush=True))

    @contextmanager
    def showing(self) -> Iterator[None]:
        """For the time of a run; the table appears when its flows begin."""
        try:
            yield
        finally:
            if self._table is not None:
                self._table.stop()

    def _quietly(self, show: Callable[[], None]) -> None:
        with self._printing:
            if self._mute:
                return
            try:
                show()
            except (OSError, ValueError):
                self._mute = True  # whoever read it has gone; the flows go on


def table(records: Sequence[Mapping[str, Any]], *, holders: bool = False) -> Table:
    """Flows as people like to see them, with who runs them where that may be another process."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in (*COLUMNS, *(["run by"] if holders else [])):
        made.add_column(name, justify="right" if name in ("rows/s", "lag", "rows", "rejected") else "left")
    for record in records:
        state = record["state"]
        colour = _COLOURS.get(state)
        made.add_row(
            escape(visible(record["flow"])),
            f"[{colour}]{state}[/]" if colour else state,
            f"{record['rows_per_second']:,.0f}",
            lag_words(record["lag"]),
            ago(record["last_commit_at"]),
            f"{record['rows']:,}",
            f"{record['rejected']:,}",
            escape(visible(record["error"] or "")),
            *([escape(visible(record["holder"] or ""))] if holders else []),
        )
    return made


def lag_words(lag: Mapping[str, Any] | None) -> str:
    """How far behind: in records, bytes or seconds, whichever is known."""
    if lag is None:
        return ""
    if lag["records"] is not None:
        return f"{lag['records']:,}"
    if lag["bytes"] is not None:
        return f"{lag['bytes'] / 1e6:,.1f} MB" if lag["bytes"] else "0"
    return "" if lag["seconds"] is None else f"{lag['seconds']:,.0f} s"


def ago(at: str | None) -> str:
    if at is None:
        return ""
    seconds = max((datetime.now(timezone.utc) - datetime.fromisoformat(at)).total_seconds(), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


def told(event: Mapping[str, Any]) -> str | None:
    """An event in a line."""
    flow, kind = event.get("flow"), event["event"]
    if kind == "step":
        rejected = f", {event['rejected']} to the dead letters" if event["rejected"] else ""
        return f"{flow}: step {event['step']}, {event['rows']} rows{rejected}"
    if kind == "retry":
        return f"{flow}: again in {event['seconds']:.0f} s, because {event['error']}"
    if kind == "restart":
        return f"{flow}: waits for Spark, because {event['error']}"
    if kind == "failed":
        return f"{flow}: given up, because {event['error']}"
    if kind == "blocked":
        return f"{flow}: blocked by {', '.join(event['by'])}, given up"
    if kind == "reloaded":
        changes = "; ".join(f"{key} {', '.join(event[key])}" for key in ("added", "changed", "removed") if event[key])
        return f"the project was read again: {changes or 'no flow is concerned'}"
    if kind == "reload_refused":
        return "the changed project is refused, and the one before it goes on:\n" + "\n".join(event["errors"])
    if kind == "paused":
        return f"{flow}: paused; `headwater flow resume {flow}` lets it go on"
    return f"{flow}: {kind}" if kind in ("resumed", "stopped", "unblocked") else None
