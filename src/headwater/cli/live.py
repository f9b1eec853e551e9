"""What a run shows: a table that keeps itself up to date on a terminal, lines elsewhere, JSON for programs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TextIO

from headwater.cli.grids import Cell, Grid, GridColumn, cut, described
from headwater.cli.output import note
from headwater.cli.style import has_colour, style_of, width_of
from headwater.cli.values import json_text
from headwater.core.units import readable_size

if TYPE_CHECKING:
    from rich.live import Live

REFRESHED = 2
"""Times a second."""


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
            self._table = live_lines(
                lambda: status_lines([one.record() for one in list(reports)], sys.stderr), sys.stderr
            )
            self._table.start()

    def on_event(self, event: Any) -> None:
        if self._as_json:
            self.line(event.record())
        elif not self._live and (sentence := sentence_of(event.record())) and not self._repeated(event):
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


def live_lines(lines: Callable[[], Sequence[str]], stream: TextIO) -> Live:
    """Lines at a terminal that keep themselves up to date."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    return Live(
        console=Console(file=stream, no_color=not has_colour(stream)),
        get_renderable=lambda: Text.from_ansi("\n".join(lines()), no_wrap=True, overflow="ellipsis"),
        refresh_per_second=REFRESHED,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def status_lines(records: Sequence[Mapping[str, Any]], stream: TextIO) -> list[str]:
    """Flows as people like to see them, a line each; below them what is wrong with which, and who runs them."""
    width, colour = width_of(stream), has_colour(stream)
    rows = [[Cell(read(one), style_of(name, one.get(name))) for name, read in _COLUMNS.items()] for one in records]
    columns = [GridColumn(name, right=name in _NUMBERS, whole=True) for name in _COLUMNS]
    lines = list(Grid(columns, rows, width, colour).lines())
    for one in records:
        if one["error"]:
            cells = [Cell(one["error"], style_of("error", one["error"]))]
            lines += ["", *described([one["flow"]], cells, width, colour=colour)]
    holders: dict[str, list[str]] = {}
    for one in records:
        if one.get("holder"):
            holders.setdefault(one["holder"], []).append(one["flow"])
    if holders:
        lines.append("")
    for holder, flows in holders.items():
        which = "" if len(flows) == len(records) else f": {', '.join(flows)}"
        lines += [cut(f"run by {holder}{which}", width)]
    return lines


def _rate(record: Mapping[str, Any]) -> str:
    """Rows a second now, or the last time that any came."""
    rate, last = record["rows_per_second"], record.get("last_rows_per_second")
    return f"was {_few(last)}" if last and not rate else _few(rate)


def _few(rate: float) -> str:
    """Few rows a second are told more exactly."""
    return f"{rate:,.1f}" if 0 < rate < 10 else f"{rate:,.0f}"


def lag_words(lag: Mapping[str, Any] | None) -> str:
    """How far behind: in records, bytes or seconds, whichever is known."""
    if lag is None:
        return ""
    if lag["records"] is not None:
        return f"{lag['records']:,}"
    if lag["bytes"] is not None:
        return readable_size(lag["bytes"]) if lag["bytes"] else "0"
    return "" if lag["seconds"] is None else f"{lag['seconds']:,.0f} s"


def ago(at: str | None) -> str:
    """How long ago a moment was."""
    if at is None:
        return ""
    seconds = max((datetime.now(timezone.utc) - datetime.fromisoformat(at)).total_seconds(), 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"


_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "flow": lambda one: str(one["flow"]),
    "state": lambda one: str(one["state"]),
    "rows/s": _rate,
    "lag": lambda one: lag_words(one["lag"]),
    "last commit": lambda one: ago(one["last_commit_at"]),
    "rows": lambda one: f"{one['rows']:,}",
    "rejected": lambda one: f"{one['rejected']:,}",
}
_NUMBERS = frozenset({"rows/s", "lag", "rows", "rejected"})


def sentence_of(event: Mapping[str, Any]) -> str | None:
    """An event in a line."""
    flow, kind = event.get("flow"), event["event"]
    if kind == "step":
        rejected = f", {event['rejected']} to the dead letters" if event["rejected"] else ""
        return f"{flow}: step {event['step']}, {event['rows']} rows{rejected}"
    if kind == "maintenance":
        from headwater.cli.commands.maintain import maintained

        return f"{flow}: {maintained(event)}"
    if kind == "interop":
        if event["error"] is not None:
            return f"{flow}: not brought up to date as {event['format']}, because {event['error']}"
        return f"{flow}: up to date as {event['format']}, with {event['files_added']} new files"
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
