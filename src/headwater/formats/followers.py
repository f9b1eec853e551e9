"""What it takes to follow a table, version by version: also one that somebody else keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from itertools import takewhile

from headwater.core.model import Commit, Version


class FollowedTable(ABC):
    """A table with versions. What is here works for every format; a format that knows it cheaper says so itself."""

    @abstractmethod
    def history(self, limit: int | None = None) -> list[Commit]:
        """The versions that can be told of, newest first."""

    def versions_after(self, version: Version | None) -> list[Version]:
        """The versions that came after one, oldest first; after None, all that can be read.

        Where the latest does not descend from `version` (a rollback), the latest alone.
        """
        newest_first = (commit.version for commit in self.history())
        return [*takewhile(lambda v: version is None or v > version, newest_first)][::-1]

    def committed_at(self, version: Version) -> datetime | None:
        """When a version was made, where that can be told: a table that was dropped and made again may have another
        version of the same number."""
        return next((commit.committed_at for commit in self.history() if commit.version == version), None)

    def appending(self, start: Version, versions: Sequence[Version]) -> int:
        """How many of these versions, which follow `start` in a row, have certainly added rows and done nothing else.

        Without a look at the rows: 0 is always right.
        """
        return 0
