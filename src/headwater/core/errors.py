"""One tree of errors. Each has a stable code, says what, where, why and what to do.

HeadwaterError
├── UsageError            wrong use: a bad project, statement or argument     exit 2
│   ├── ProjectError      one or many problems found in a project
│   └── Unsupported       a format, source or catalog lacks what was asked
├── TransientError        may go away by itself: tried again with back-off    exit 1
└── TerminalError         will not go away by itself                          exit 1
    └── IntegrityError    what was read is not what was written
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """Every stable code (its name) with the sentence that explains it; docs/errors.md lists them."""

    def __str__(self) -> str:
        return self.name

    # project file
    PROJECT_NOT_FOUND = "No project file in this folder or above it."
    INVALID_YAML = "The project file is not valid YAML."
    UNKNOWN_KEY = "The project file has no such key."
    INVALID_VALUE = "A value of the wrong type or out of range."
    MISSING_KEY = "A required key is missing."
    MISSING_VARIABLE = "An environment variable without a default is not set."
    INVALID_NAME = "A name that is not [a-z][a-z0-9_]*."
    DUPLICATE_NAME = "The same name is defined twice."
    UNKNOWN_REFERENCE = "A definition names another one that does not exist."
    CYCLE = "Definitions depend on each other in a circle."
    UNKNOWN_TARGET = "The target is not in the project's `targets`."
    UNKNOWN_FORMAT = "A table format that is not installed."
    UNKNOWN_SOURCE_TYPE = "A type of source that is not installed."
    UNKNOWN_CATALOG_TYPE = "A type of catalog that is not installed."
    UNSUPPORTED = "The format, source or catalog cannot do what was asked."
    NOT_RUNNABLE_YET = "The definition or key is valid, but this release does not run it yet."
    NO_EFFECT = "A key is valid but has no effect here."
    RENAMED_COLUMN = "A declared column has the name of another one of its topic, and is kept under a longer one."
    CODE_FAILED = "The project's Python code could not be loaded."
    FUNCTION_FAILED = "A mapper, upcaster or filter fails on more events than can become dead letters."
    INVALID_FUNCTION = "A function of the project's code can't be used as it is declared."
    INVALID_SQL = "The SQL could not be parsed or resolved."

    # set-up
    UNSUPPORTED_PYTHON = "This version of Python is not supported."
    UNSUPPORTED_JAVA = "No supported Java was found."
    MISSING_EXTRA = "An optional part of Headwater is not installed."
    CONNECTOR_FETCH_FAILED = "A connector could not be fetched."
    CONNECTOR_CHECKSUM = "A fetched connector is not the file that was locked."
    CONNECTOR_UNKNOWN = "A connector that is not in the lock."
    SPARK_FAILED = "Spark could not do what was asked."
    SESSION_FAILED = "The Spark session could not be started."

    # the lake
    WAREHOUSE_UNWRITABLE = "The warehouse can't be written."
    STORAGE_FAILED = "A file of the lake could not be read or written."
    NO_SUCH_RELATION = "There is no such topic, table or view."
    NO_SUCH_DEAD_LETTER = "There is no such dead letter."
    NO_SUCH_VERSION = "The table has no such version, or it has been expired."
    ALREADY_EXISTS = "Something of this name or at this place exists already."
    TABLE_CORRUPT = "A table's own records contradict each other."
    COMMIT_FAILED = "A commit did not go through; the table is as before."
    NOT_ROW_NEUTRAL = "Maintenance would have changed rows; the table is as before."
    REFERENCE_UNREADABLE = "What a table still needs can't be told, so none of its files are deleted."
    SCHEMA_MISMATCH = "Data does not fit the table's schema."
    LEDGER_CORRUPT = "A record of the ledger cannot be read."
    LAKE_MOVED = "The lake was moved, and something outside of it still points to the old location."
    LAKE_TOO_NEW = "The lake was written by a newer Headwater than this one."
    BACKUP_NOT_EMPTY = "A backup or a restored lake needs an empty folder."
    BACKUP_BUSY = "A flow changed too often to be backed up while it runs."
    BACKUP_INCOMPLETE = "There is no complete backup in the folder."
    BACKUP_DAMAGED = "A file of the backup is missing or has changed."
    RESTORE_UNFINISHED = "The lake is only partly restored."
    TARGET_CHANGED = "Somebody else has written to a table that only Headwater writes."
    READ_BACK_DIFFERS = "Another reader sees other rows in a target than the source has; the target is as before."
    LAKE_COPIED = "The project is a copy that shares with the original what only one of them may write."

    # flows
    SOURCE_UNAVAILABLE = "A source cannot be reached."
    SOURCE_DENIED = "A source refuses access, or a permission to read it is missing."
    SOURCE_MISMATCH = "A source does not match its settings: something is missing there, or has the wrong type."
    SOURCE_CHANGED = "The source is not the one that the flow has read so far."
    SOURCE_FILE_CHANGED = "A file has changed after it was ingested."
    SOURCE_FILE_MISSING = "A file has vanished before it could be read."
    DATA_LOSS = "Records of a source were deleted before they were ingested."
    SOURCE_ROWS_CHANGED = "Rows of a source table were changed or removed, and only new rows are read."
    KEY_REUSED = "The key of an append was used before, for other rows."
    UNKNOWN_FLOW = "There is no such flow in the project."
    FLOW_HELD = "Another runner holds the flow."
    FLOW_BLOCKED = "A flow that this one reads has failed."
    NO_RUNNER = "No runner is up to do this."
    RESTART_NEEDED = "A change of the project needs a restart of the runner."
    LEASE_LOST = "The flow has been taken over by another runner; nothing more is written here."
    CHECKPOINT_LOST = "A streaming query's checkpoint does not belong to its table."
    DUPLICATE_KEY = "A batch has several rows for one key."
    DESTRUCTIVE_CHANGE = "A change of the project would delete rows, and was not confirmed."
    NULL_KEY = "A row has no value for one of its keys."
    NO_SEQUENCE = "A change has no value that orders it."
    NOT_INCREMENTAL = "A view can't be kept incrementally, and its policy does not let it be recomputed."
    VIEW_STALE = "A view is older than its reader accepts."
    EXPECTATION_FAILED = "A row does not meet an expectation whose `on_violation` is `fail`."
    NOT_LINEAR = "A @transform does more than look at single rows, so it can't run on changes."
    TRANSFORM_FAILED = "A @transform failed, or its result can't be stored."

    # exports
    EXPORT_MISMATCH = "A reader that is not Headwater's finds other rows in a copy than were exported."
    EXPORT_CHANGED = "Somebody else has changed the target of an export, or it is the copy of something else."
    EXPORT_UNAVAILABLE = "The target of an export can't be reached."
    EXPORT_REFUSED = "The target of an export refuses access or rows."
    EXPORT_BUSY = "Another job is exporting to the same destination."
    UNKNOWN_JOB = "There is no such export job."

    # queries
    UNKNOWN_COLUMN = "A query names a column that does not exist."
    UNKNOWN_FUNCTION = "A query calls a function that does not exist."
    NOT_ALLOWED = "A statement does what is not allowed here."
    QUERY_LIMIT = "A query exceeds its limit of time, rows, bytes or memory."
    QUERY_TOO_LARGE = "A query needed more memory than its Spark has, which has ended; nothing else was affected."
    QUERY_TOO_DEEP = "A query is nested too deeply."
    VALUE_OUT_OF_RANGE = "A result has a date or time that Python can't represent."
    CANCELLED = "A query was cancelled."
    QUERY_FAILED = "A query failed in the middle of its result."

    # anything else
    USAGE = "The command was used incorrectly."
    INTERNAL = "A bug in Headwater."


@dataclass(frozen=True)
class Where:
    """A place in the user's files: `headwater.yml:31 topics.orders.partition_by`."""

    file: str
    line: int | None = None
    path: str | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        return place if self.path is None else f"{place} {self.path}"


@dataclass(frozen=True)
class Problem:
    """One mistake, ready to be shown."""

    code: Code
    message: str
    where: Where | None = None
    hint: str | None = None
    excerpt: str | None = None
    """The line of the text with a caret under the place."""

    def __str__(self) -> str:
        text = self.message if self.where is None else f"{self.where}: {self.message}"
        text = text if self.hint is None else f"{text}; {self.hint}"
        return f"{text} [{self.code}]"


class HeadwaterError(Exception):
    """The root of the tree: catch this to catch all of ours."""

    exit_code = 1

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        where: Where | None = None,
        hint: str | None = None,
        excerpt: str | None = None,
    ) -> None:
        self.problem = Problem(code, message, where, hint, excerpt)
        super().__init__(str(self.problem) if excerpt is None else f"{self.problem}\n{excerpt}")

    @property
    def code(self) -> Code:
        return self.problem.code

    @property
    def problems(self) -> Sequence[Problem]:
        return (self.problem,)


class UsageError(HeadwaterError):
    """Wrong use: nothing was done."""

    exit_code = 2


class ProjectError(UsageError):
    """Everything that is wrong with a project, at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        super().__init__(first.code, first.message, where=first.where, hint=first.hint)
        self._problems = tuple(problems)
        self.args = ("\n".join(str(problem) for problem in problems),)

    @property
    def problems(self) -> Sequence[Problem]:
        return self._problems


class Unsupported(UsageError):
    """A format, source or catalog lacks what was asked of it."""

    def __init__(self, message: str, *, where: Where | None = None, hint: str | None = None) -> None:
        super().__init__(Code.UNSUPPORTED, message, where=where, hint=hint)


class TransientError(HeadwaterError):
    """May go away by itself; a flow tries again."""


class TerminalError(HeadwaterError):
    """Will not go away by itself; a flow stops."""


class IntegrityError(TerminalError):
    """What was read is not what was written."""


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that was probably meant, if one is close."""
    known = {choice.lower(): choice for choice in sorted(choices, reverse=True)}
    matches = difflib.get_close_matches(name.lower(), sorted(known), n=1, cutoff=0.6)
    return known[matches[0]] if matches else None


def require_text(value: object, what: str) -> None:
    """Raise where something else than a text is given: Python checks no types."""
    if not isinstance(value, str):
        raise UsageError(Code.USAGE, f"{what} is a text, not {value!r}"[:200])


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """A hint: the nearest choice, else all of them."""
    known = sorted(set(choices))
    best = nearest(name, known)
    return f"did you mean '{best}'?" if best else f"known: {', '.join(known) or 'none'}"
