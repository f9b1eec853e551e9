"""What it takes to follow a table, version by version: also one that somebody else keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from headwater.core.model import Commit, Version


class FollowedTable(ABC):
    """A table with versions. What is here works for every format; a format that knows it cheaper says so itself.

    Whoever follows a table calls these before each step: views, tables made of tables, and sources of type `table`.
    """

    @abstractmethod
    def history(self, limit: int | None = None) -> list[Commit]:
        """The versions that can be told of, newest first. Called by `topic history` and its like, and by whoever counts
        the rows that wait."""

    def versions_after(self, version: Version | None) -> list[Version]:
        """The versions that came after one, oldest first; after None, all that can be read. Called at each look for
        something new.

        Where the latest does not descend from `version` (a rollback), the latest alone.
        """
        newest_first = (commit.version for commit in self.history())
        return [*takewhile(lambda v: version is None or v > version, newest_first)][::-1]

    def commits_between(self, start: Version | None, end: Version) -> int | None:
        """How many of the newest commits hold all that came after `start` up to `end`, where the numbers tell it.
        Called before `history`, so that no more of it is read than is needed."""
        return None

    def committed_at(self, version: Version) -> datetime | None:
        """When a version was made, where that can be told. Called when a version is written down and when it is found
        again: a table that was dropped and made again may have another version of the same number."""
        return next((commit.committed_at for commit in self.history() if commit.version == version), None)

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        """How many of these versions, which follow `start` in a row, have certainly added rows and done nothing else.

        Called to see whether a step can take only new rows, and how many versions it takes. Without a look at the rows:
        0 is always right.
        """
        return 0
