"""Where in a statement something is wrong: line, column, and the line itself with a caret under the place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.core.errors import Code, UsageError, Where

if TYPE_CHECKING:
    from sqlglot import exp

Span = tuple[int, int]
"""First and last character of a part of a text, counted from 0."""

LONGEST = 160
"""Characters of a line that are shown."""


class InvalidSql(UsageError):
    """SQL that is not understood; `line` counts from the statement's first."""

    def __init__(
        self,
        message: str,
        line: int | None = None,
        *,
        text: str | None = None,
        span: Span | None = None,
        hint: str | None = None,
        code: Code = Code.INVALID_SQL,
    ) -> None:
        where = None if line is None else Where("SQL", line)
        shown = None
        if text is not None and span is not None:
            where, shown = where_in(text, span), excerpt(text, span)
        super().__init__(code, message, where=where, hint=hint, excerpt=shown)
        self.line = None if where is None else where.line
        self.span = span


def pointed(error: UsageError, text: str, span: Span | None) -> UsageError:
    """The same error, with its place in the statement."""
    problem = error.problem
    if span is None or problem.excerpt is not None:
        return error
    return InvalidSql(problem.message, text=text, span=span, hint=problem.hint, code=problem.code)


def where_in(text: str, span: Span) -> Where:
    before = text[: span[0]]
    return Where("SQL", before.count("\n") + 1, column=span[0] - (before.rfind("\n") + 1) + 1)


def excerpt(text: str, span: Span) -> str:
    """The line that a span begins in, and carets under as much of the span as is in it."""
    begin = text.rfind("\n", 0, span[0]) + 1
    end = text.find("\n", begin)
    line = text[begin : len(text) if end < 0 else end].rstrip()
    at = span[0] - begin
    width = max(1, min(span[1] + 1, begin + len(line)) - span[0])
    if len(line) > LONGEST:
        skipped = max(0, min(at - LONGEST // 2, len(line) - LONGEST))
        line, at = line[skipped : skipped + LONGEST], at - skipped
    # A tab is as wide in the line of carets as in the line above it.
    lead = "".join("\t" if character == "\t" else " " for character in line[:at])
    return f"  {line}\n  {lead}{'^' * min(width, LONGEST)}"


def span_of(expression: exp.Expr | None) -> Span | None:
    """Where an expression's name stands in the text that it was parsed from."""
    if expression is None:
        return None
    spans = [
        (int(node.meta["start"]), int(node.meta["end"]))
        for node in expression.walk()
        if node.meta.get("start") is not None and node.meta.get("end") is not None
    ]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None
